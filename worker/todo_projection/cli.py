"""``todo-projection``: the operator's side, from the command line."""

import asyncio
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from todo_projection import frames, granting, keeping, living, looking, process, repairing, watching
from todo_projection import up as everything
from todo_projection.child import NotStarted
from todo_projection.declarations import declarations
from todo_projection.embedded import NoServer
from todo_projection.ending import NO, NO_ANSWER, READING, USAGE, Json, end, notes, say
from todo_projection.flags import with_settings
from todo_projection.output import keep_journal, open_console, print_json, print_line, print_view
from todo_projection.sessions import Query, Sort, read_sessions
from todo_projection.settings import InvalidSetting, Settings
from todo_projection.state import State
from todo_projection.status import read_status
from todo_projection.store import NoAnswer, ask
from todo_projection.tables import sessions_table, status_view
from todo_projection.unit import InvalidUnit, mounted_units
from todo_write.events import InvalidSession
from todo_write.log import LayoutMismatch

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

app = typer.Typer(
    name="todo-projection",
    help="The live plan of every agent: run workers, look at plans, see how the whole is doing.",
    epilog="Exit codes: 0 done, 1 the answer is no, 2 wrong usage, setting or layout, 3 redis does not answer.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(looking.app)
app.add_typer(repairing.app)
app.add_typer(keeping.app)
app.add_typer(granting.app)
app.add_typer(watching.app)
app.add_typer(living.app)


@app.command(epilog=notes("up", codes="0 ended by Ctrl-C or SIGTERM, 1 a part of it failed, 2 wrong setting or layout"))
@with_settings("stuck_ms", "quiet_ms", "log_level")
def up(settings: Settings) -> None:
    """Start a worker and a dozen agents at work, and show their plans until Ctrl-C.

    Without TODO_REDIS_URL it starts a server of its own, which is gone afterwards with all it held.
    """
    console = open_console()
    keep_journal(settings, console)
    asyncio.run(everything.up(settings, console))


@app.command(
    epilog=notes(
        "worker",
        "worker --redis-url redis://10.0.0.5:6379/0 --log-level debug",
        codes="0 ended by SIGTERM or SIGINT, 1 can't listen on the metrics port, 2 wrong usage, setting or layout",
    )
)
@with_settings(
    *("batch_max", "block_ms", "beat_ms", "claim_idle_ms", "audit_rate", "grace_ms", "log_level"),
    *("metrics_host", "metrics_port"),
)
def worker(settings: Settings) -> None:
    """Project the events of all sessions until told to end; run as many as you like.

    While redis is away it waits, and says so on standard error.
    """
    keep_journal(settings)
    process.collect_seldom()
    try:
        process.run(process.work(settings, mounted_units()))
    except ModuleNotFoundError as missing:
        end(USAGE, f"{missing.name} is not installed: pip install 'todo-projection[metrics]', or leave the port at 0")
    except OSError as error:
        end(NO, str(error.strerror))


@app.command(
    epilog=notes(
        "gateway",
        "gateway --host 0.0.0.0 --port 8080 --prefix /plans",
        codes="0 ended by SIGTERM or SIGINT, 1 can't listen there, 2 wrong usage, setting or layout",
    )
)
@with_settings(
    *("gateway_host", "gateway_port", "gateway_prefix", "heartbeat_ms", "stream_life_ms", "stream_sessions_max"),
    *("gateway_open", "gateway_tokens_file", "gateway_jwt_key_file", "gateway_jwt_audience", "gateway_jwt_issuer"),
    *("gateway_origins",),
    *("streams_max", "token_streams_max", "token_sessions_max"),
    *("request_rate_max", "head_timeout_ms", "send_timeout_ms", "stuck_ms", "quiet_ms", "grace_ms", "log_level"),
)
def gateway(settings: Settings) -> None:
    """Serve plans over HTTP: a web page, sessions, their history, and live streams of both.

    While redis is away it says so to whoever asks, and goes on when it comes.
    """
    try:
        from todo_projection.gateway import run_gateway  # noqa: PLC0415  an extra: the other commands run without it
        from todo_projection.page import page_routes  # noqa: PLC0415  the same
    except ModuleNotFoundError as missing:
        end(USAGE, f"{missing.name} is not installed: pip install 'todo-projection[gateway]'")
    keep_journal(settings)
    try:
        run_gateway(settings, [*page_routes(), *_metrics(settings)])
    except OSError as error:
        end(NO, str(error.strerror))


def _metrics(settings: Settings) -> "Sequence[BaseRoute]":
    if find_spec("prometheus_client") is None:
        return ()
    from todo_projection.scraping import metrics_routes  # noqa: PLC0415  an extra: without it there is no /metrics

    return metrics_routes(beat_ms=settings.beat_ms)


@app.command(
    epilog=notes("sessions", "sessions --state stuck", "sessions --sort longest --json", codes=f"0 listed, {READING}")
)
@with_settings("stuck_ms", "quiet_ms")
def sessions(
    settings: Settings,
    state: Annotated[State | None, typer.Option(help="Only sessions in this state.")] = None,
    text: Annotated[
        str, typer.Option(metavar="TEXT", help="Only sessions with this in id, title, label or current task.")
    ] = "",
    sort: Annotated[Sort, typer.Option(help="By last event, or those longest in progress.")] = "recent",
    limit: Annotated[int, typer.Option(min=1, metavar="NUMBER", help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """List sessions: how far their plan is, their current task, and their state.

    unknown: nothing projected; cleared: no plan; empty: an empty list; done: all completed; stuck: an item in progress
    for longer than TODO_STUCK_MS; quiet: no event for TODO_QUIET_MS; active: none of these.
    """
    query = Query(settings.stuck_ms, settings.quiet_ms, state, text, sort, limit)
    listing = asyncio.run(ask(settings, lambda store: read_sessions(store.wire, store.keys, query)))
    if json:
        print_json(listing)
        return
    if listing.sessions:
        print_view(sessions_table(listing.sessions, listing.now))
    else:
        print_view(Text("no session found; what waits to be projected: todo-projection status"))
    for problem in listing.problems:
        say(problem)


@app.command(
    epilog=notes(
        "status",
        "status --json",
        "status --check --max-age 30 || alert",
        codes=f"0 told, 1 --check found something, {READING}",
    )
)
@with_settings("beat_ms")
def status(
    settings: Settings,
    json: Json = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 1 when no worker works or the backlog is too old.")
    ] = False,
    max_age: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="The oldest a backlog may be.")] = 60.0,
) -> None:
    """Say what waits to be projected and for how long, which workers are there, and which sessions are marked stale."""
    found = asyncio.run(ask(settings, lambda store: read_status(store.wire, store.keys, beat_ms=settings.beat_ms)))
    if json:
        print_json(found)
    else:
        print_view(status_view(found))
    unwell = found.unwell(age_s_max=max_age) if check else []
    if unwell:
        end(NO, "\n".join(unwell))


@app.command(epilog=notes("schema frame", "schema typescript > frames.d.ts", codes="0 printed, 2 wrong usage"))
def schema(
    shape: Annotated[
        Literal["frame", "baseline", "page", "typescript"],
        typer.Argument(help="What is published, stored, or paged; or all of them as TypeScript."),
    ],
) -> None:
    """Print the JSON Schema of a published frame, of a session's baseline, or of a page of its history."""
    if shape == "typescript":
        print_line(declarations().encode().rstrip())
    else:
        print_json(frames.schema(shape), indented=True)


@app.command("settings", epilog=notes("settings", "settings >> .env", codes="0 printed, 2 wrong usage"))
def settings_(json: Json = False) -> None:
    """Print every setting of the operator's side: its variable, what it is, what is allowed, its default."""
    if json:
        print_json([one._asdict() for one in Settings.variables()])
    else:
        print_line("\n".join(one.lines() for one in Settings.variables()).rstrip().encode())


def main() -> None:
    """The entry point: what a person must mend is one message and an exit code, never a traceback."""
    try:
        app()
    except (InvalidSetting, InvalidSession, InvalidUnit, LayoutMismatch, NoServer) as error:
        end(USAGE, str(error))
    except NoAnswer as error:
        end(NO_ANSWER, str(error))
    except (NotStarted, everything.ServerGone) as error:
        end(NO, str(error))
