"""Commands that follow sessions as their plans change: ``watch`` and ``acp``."""

import asyncio
from typing import Annotated

import typer
from rich.console import Group

from todo_projection import watch as views
from todo_projection.checklist import Checklist
from todo_projection.ending import NO, READING, USAGE, Json, end, notes
from todo_projection.flags import with_settings
from todo_projection.output import open_console, print_json, print_line, print_view, start_logging
from todo_projection.settings import Settings
from todo_projection.signals import stopping
from todo_projection.store import ask
from todo_projection.subscription import Snapshot
from todo_write.events import check_session

app = typer.Typer()


@app.command(
    epilog=notes(
        "watch s1 s2",
        "watch --json s1 | jq .value",
        "watch --once s1",
        codes=f"0 ended by Ctrl-C or SIGTERM, 1 a row can't be read (--once), {READING} (--once)",
    )
)
@with_settings("log_level")
def watch(
    settings: Settings,
    watched: Annotated[list[str], typer.Argument(metavar="SESSION")],
    once: Annotated[bool, typer.Option("--once", help="Print the plans as they are now, and end.")] = False,
    json: Json = False,
) -> None:
    """Follow the plans of sessions as they change: on a terminal as lists, elsewhere a line a change.

    With --json: each session's values, then every change as it is published, and {"state", "since"} when what is shown
    may be old: live, behind (events wait to be projected) or reconnecting. It goes on while redis is away.
    """
    sessions = list(dict.fromkeys(check_session(session) for session in watched))
    if once:
        _once(settings, sessions, json=json)
        return
    console = open_console()
    if json or not console.is_terminal:
        start_logging(settings.log_level)
    asyncio.run(_watch(settings, sessions, json=json))


@app.command(
    epilog=notes(
        "acp s1",
        "acp s1 --acp-session sess_abc123",
        codes="0 ended by Ctrl-C or SIGTERM, 2 wrong usage, setting or layout, or the extra is missing",
    )
)
@with_settings("log_level")
def acp(
    settings: Settings,
    session: Annotated[str, typer.Argument(metavar="SESSION")],
    acp_session: Annotated[
        str | None, typer.Option(metavar="ID", help="The session as the ACP client names it, if not by ours.")
    ] = None,
) -> None:
    """Print the plan of a session as ACP notifications, a JSON-RPC line each: once now, then whenever it is another.

    For an ACP client's input: session/update with the whole plan, an empty one when there is none.
    """
    try:
        from todo_projection import acp as bridge  # noqa: PLC0415  an extra: the other commands run without it
    except ModuleNotFoundError as missing:
        end(USAGE, f"{missing.name} is not installed: pip install 'todo-projection[acp]'")
    check_session(session)
    start_logging(settings.log_level)

    async def forward() -> None:
        with stopping() as stop:
            async with views.following(settings, [session], stop.asked) as plans:
                async for sent in bridge.notifications(plans):
                    print_line(bridge.encode(sent.model_copy(update={"session_id": acp_session or session})))

    asyncio.run(forward())


async def _watch(settings: Settings, sessions: list[str], *, json: bool) -> None:
    with stopping() as stop:
        if json:
            await views.watch_json(settings, sessions, stop.asked)
        else:
            await views.watch(settings, sessions, open_console(), stop.asked)


def _once(settings: Settings, sessions: list[str], *, json: bool) -> None:
    found, broken = asyncio.run(ask(settings, lambda store: views.read_baselines(store, sessions)))
    if json:
        for baseline in found:
            print_json(baseline)
    else:
        lists = (Checklist(baseline.session_id).after(Snapshot(baseline.session_id, baseline)) for baseline in found)
        print_view(Group(*lists))
    if broken:
        end(NO, "\n".join(broken))
