"""The agent's side as commands: ``todo-write``. Each imports what it needs: a hook starts one for every call."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from todo_write.entry import (
    BAD_SETTING,
    NOT_SAVED,
    OK,
    REFUSED,
    fail,
    print_json,
    read_input,
    read_mode,
    read_settings,
    run,
    with_client,
)
from todo_write.hook_command import hook
from todo_write.hosting import hosting
from todo_write.options import Json, Mode, Namespace, Partitions, RedisUrl, Session

if TYPE_CHECKING:
    from todo_write.log import Client
    from todo_write.report import FileReport

app = typer.Typer(
    name="todo-write",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Keep the plan of an agent's session: the todo_write tool, and the log it writes.",
    epilog="Exit codes: 0 done, 1 refused for what was sent, 2 not saved, or a bad setting or argument.",
)


@app.command(
    epilog="Exit codes: 0 accepted, 1 rejected, 2 not saved or a bad setting.\n\n"
    """Example: echo '{"todos": [{"content": "build", "status": "pending"}]}' | todo-write call s1 --parallel"""
)
def call(
    session: Annotated[str | None, typer.Argument(help="Session id; TODO_SESSION.", show_default=False)] = None,
    mode: Mode = None,
    json: Json = False,
    redis_url: RedisUrl = None,
    namespace: Namespace = None,
    partitions: Partitions = None,
) -> None:
    """Run one call of the tool: its arguments on standard input, the model's text on standard output."""
    settings = read_settings(session=session, redis_url=redis_url, namespace=namespace, partitions=partitions)
    allowed = read_mode(mode)
    from todo_write.arguments import read_arguments
    from todo_write.tool import TodoWrite

    arguments = read_arguments(read_input().decode("utf-8", "surrogateescape"))
    outcome = with_client(
        settings,
        lambda client: TodoWrite(client, allow_parallel_in_progress=allowed).run(arguments, settings.session),
    )
    if json:
        position = None if outcome.position is None else str(outcome.position)
        print_json({"ok": outcome.ok, "text": outcome.text, "result": outcome.result, "position": position})
    else:
        typer.echo(outcome.text)
    if settings.session is None:
        typer.echo("no session: give SESSION or set TODO_SESSION", err=True)
    raise typer.Exit({"accepted": OK, "rejected": REFUSED, "not_saved": NOT_SAVED}[outcome.saved])


@app.command(
    epilog="Exit codes: 0 appended, 1 refused, 2 not saved or a bad setting.\n\n"
    """Example: todo-write append s1 session/title '{"title": "Release 4.2"}'"""
)
def append(
    session: Session,
    type: Annotated[str, typer.Argument(help="Type of the event, like session/title.")],
    data: Annotated[str, typer.Argument(help="Its data as JSON; - for standard input, where no text is {}.")] = "-",
    redis_url: RedisUrl = None,
    namespace: Namespace = None,
    partitions: Partitions = None,
) -> None:
    """Append one event to a session's log and print its position."""
    settings = read_settings(redis_url=redis_url, namespace=namespace, partitions=partitions)
    from todo_write.log import SessionLog
    from todo_write.transcript import compact

    text = read_input() if data == "-" else os.fsencode(data)
    event = compact(text if text.strip() else b"{}")

    async def body(client: "Client") -> str:
        return str(await SessionLog(client, session).append(type, event))

    typer.echo(with_client(settings, body))


@app.command(
    epilog="Exit codes: 0 appended, 1 refused: no turn is open, 2 not saved or a bad setting.\n\n"
    "Example: todo-write turn s1 end --reason interrupted"
)
def turn(
    session: Session,
    what: Annotated[Literal["start", "end"], typer.Argument(help="Start the next turn, or end the open one.")],
    reason: Annotated[
        str, typer.Option(help="Why it ends: completed, error, interrupted or your own word.")
    ] = "completed",
    redis_url: RedisUrl = None,
    namespace: Namespace = None,
    partitions: Partitions = None,
) -> None:
    """Start a session's next turn or end its open one, and print the turn's number."""
    settings = read_settings(redis_url=redis_url, namespace=namespace, partitions=partitions)
    from todo_write.log import SessionLog

    async def body(client: "Client") -> int:
        log = SessionLog(client, session)
        return await (log.start_turn() if what == "start" else log.end_turn(reason))

    typer.echo(with_client(settings, body))


@app.command(epilog="Exit codes: 0 printed, 2 a bad setting.\n\nExample: todo-write schema --format openai --parallel")
def schema(
    format: Annotated[
        Literal["json-schema", "openai", "anthropic", "mcp"],
        typer.Option(help="The schema of the arguments alone, or the definition as providers and MCP list it."),
    ] = "json-schema",
    mode: Mode = None,
) -> None:
    """Print the tool's definition as JSON; its description depends on the mode."""
    allowed = read_mode(mode)
    import json

    from todo_write.schema import definition

    typer.echo(json.dumps(definition(format, allow_parallel_in_progress=allowed), ensure_ascii=False, indent=2))


app.add_typer(hosting)
app.add_typer(hook, name="hook")


@app.command(
    "import",
    epilog="Exit codes: 0 all of it is in, 1 something was skipped or refused, 2 not saved or a bad setting.\n\n"
    "Example: todo-write import ~/.claude/projects/*/*.jsonl",
)
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Transcripts, JSON lines."),
    ],
    session: Annotated[str | None, typer.Option(help="Session id instead of the file's own.")] = None,
    json: Json = False,
    redis_url: RedisUrl = None,
    namespace: Namespace = None,
    partitions: Partitions = None,
) -> None:
    """Bring logs up to transcripts, of the upstream harness or Claude Code; what a log holds is not added again."""
    settings = read_settings(redis_url=redis_url, namespace=namespace, partitions=partitions)
    from todo_write.events import check_session
    from todo_write.importing import import_file
    from todo_write.progress import progress_bar

    renamed = None if session is None else check_session(session)
    for path in files:
        if path.is_dir() or not os.access(path, os.R_OK):
            fail(f"{path}: there is no such file that can be read", BAD_SETTING)

    async def body(client: "Client") -> "list[FileReport]":
        reports: list[FileReport] = []
        with progress_bar(sum(path.stat().st_size for path in files)) as advance:
            for path in files:
                reports.append(await import_file(client, path, renamed, advance))
                if reports[-1].not_saved is not None:
                    break
        return reports

    reports = with_client(settings, body)
    if json:
        print_json(reports)
    else:
        typer.echo("\n".join(line for report in reports for line in report.describe()))
    if reports[-1].not_saved is not None:
        fail("not everything is saved; import again, it goes on where it ended", NOT_SAVED)
    raise typer.Exit(OK if all(report.clean for report in reports) else REFUSED)


@app.command(
    epilog="Exit codes: 0 deleted, 1 nothing was there, or you said no, 2 not deleted or a bad setting.\n\n"
    "Example: todo-write delete s1 --yes"
)
def delete(
    session: Session,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    redis_url: RedisUrl = None,
    namespace: Namespace = None,
    partitions: Partitions = None,
) -> None:
    """Delete a session for good: its log, its plan, its place on every board."""
    settings = read_settings(redis_url=redis_url, namespace=namespace, partitions=partitions)
    from todo_write.log import SessionLog

    if not yes:
        if not sys.stdin.isatty():
            fail("standard input is no terminal, so nobody can be asked: say --yes", BAD_SETTING)
        typer.confirm(f"Delete session {session!r} of namespace {settings.namespace!r} for good?", abort=True)

    async def body(client: "Client") -> bool:
        return await SessionLog(client, session).delete()

    if not with_client(settings, body):
        fail(f"session {session!r}: nothing is there", REFUSED)
    typer.echo(f"session {session!r}: deleted")


@app.command(epilog="Example: todo-write script append > append.lua")
def script(name: Annotated[Literal["append", "delete"], typer.Argument(help="Which script.")]) -> None:
    """Print a Lua script that writes logs: the write protocol for every other language."""
    from importlib.resources import files

    typer.echo(files("todo_write").joinpath(f"{name}.lua").read_text("utf-8"), nl=False)


@app.command("settings", epilog="Example: todo-write settings >> .env")
def settings_(json: Json = False) -> None:
    """Print every setting of the agent's side: its variable, what it is, what is allowed, its default."""
    from todo_write.settings import Settings

    if json:
        print_json([one._asdict() for one in Settings.variables()])
    else:
        typer.echo("\n".join(one.lines() for one in Settings.variables()), nl=False)


@app.command(
    epilog="Exit codes: 0 ended by SIGINT or SIGTERM, or done with --once, 2 a bad setting.\n\n"
    "Example: todo-write demo --speed 2"
)
def demo(
    sessions: Annotated[int, typer.Option(min=1, max=10_000, help="How many agents.")] = 12,
    seed: Annotated[int | None, typer.Option(help="Decides what they do.", show_default="any")] = None,
    speed: Annotated[float, typer.Option(min=0.01, max=1000, help="How fast they are; 1 is human.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="One plan each, then end.")] = False,
    redis_url: RedisUrl = None,
    namespace: Namespace = None,
    partitions: Partitions = None,
) -> None:
    """Let agents work through believable plans at human speed, until you end it; it deletes nothing."""
    settings = read_settings(redis_url=redis_url, namespace=namespace, partitions=partitions)
    from todo_write.demo import run_demo

    plot = int.from_bytes(os.urandom(2)) if seed is None else seed
    typer.echo(f"{sessions} sessions, demo-{plot}-01 and on; Ctrl-C ends it")
    with_client(settings, lambda client: run_demo(client, sessions=sessions, seed=plot, speed=speed, once=once))


def main() -> None:
    """The entry point ``todo-write``."""
    run(app)
