"""The commands that keep running: ``todo-write serve`` and ``mcp`` beside agents, ``canary`` beside a fleet."""

import logging
import os
from typing import TYPE_CHECKING, Annotated

import typer

from todo_write.entry import REFUSED, fail, read_mode, with_client
from todo_write.options import Metrics, Mode, Namespace, Partitions, RedisUrl

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from todo_write.log import Client
    from todo_write.settings import Settings

hosting = typer.Typer()


@hosting.command(
    epilog="Exit codes: 0 everything is answered, 1 the answers could not be written, 2 a bad setting.\n\n"
    """Example: echo '{"id": 1, "session": "s1", "call": {"todos": []}}' | todo-write serve --parallel"""
)
def serve(
    session: Annotated[
        str | None, typer.Option(help="Session of requests that name none; TODO_SESSION.", show_default=False)
    ] = None,
    mode: Mode = None,
    metrics: Metrics = None,
    redis_url: RedisUrl = None,
    namespace: Namespace = None,
    partitions: Partitions = None,
) -> None:
    """Do what JSON lines on standard input ask for: one process for all sessions of a host in any language.

    {"id", "session", "call": {…}} runs a call of the tool and is answered with {"id", "text", "ok"}.

    {"id", "session", "type", "data"} appends an event and is answered with {"id", "position"}, or {"id", "error"}.
    """
    allowed = read_mode(mode)
    from todo_write.serve import Unheard, serve_stdio
    from todo_write.settings import Settings

    # A process that goes on running gives a call all the time a library does.
    settings = Settings.from_env(
        os.environ, session=session, redis_url=redis_url, namespace=namespace, partitions=partitions
    )
    _start_journal(settings)
    try:
        with_client(
            settings,
            _counted(
                metrics,
                lambda client: serve_stdio(client, allow_parallel_in_progress=allowed, session=settings.session),
            ),
        )
    except Unheard as error:
        fail(str(error), REFUSED)


@hosting.command(
    epilog="Exit codes: 0 ended, 1 the extra is not installed, 2 a bad setting, or the address can't be had.\n\n"
    "Example: claude mcp add todo -- todo-write mcp --parallel --session release-4"
)
def mcp(
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Serve many connections over HTTP, at /mcp; HOST is 127.0.0.1 unless given."
        ),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(help="Session of every plan; TODO_SESSION, else one per connection.", show_default=False),
    ] = None,
    mode: Mode = None,
    metrics: Metrics = None,
    redis_url: RedisUrl = None,
    namespace: Namespace = None,
    partitions: Partitions = None,
) -> None:
    """Serve the tool to MCP clients, over standard input and output or over HTTP."""
    allowed = read_mode(mode)
    try:
        from todo_write.mcp_http import serve_http
        from todo_write.mcp_stdio import serve_stdio
    except ModuleNotFoundError as error:
        fail(f"the extra mcp is not installed (no {error.name}): pip install 'todo-projection[mcp]'", REFUSED)
    from todo_write.address import read_address
    from todo_write.settings import Settings
    from todo_write.tool import TodoWrite

    settings = Settings.from_env(
        os.environ, session=session, redis_url=redis_url, namespace=namespace, partitions=partitions
    )
    _start_journal(settings)
    for name in ("mcp", "mcp_http", "mcp_stdio"):
        logging.getLogger(f"todo_write.{name}").setLevel(logging.INFO)  # who writes which session is told nowhere else
    address = None if http is None else read_address(http, "--http")

    async def body(client: "Client") -> None:
        tool = TodoWrite(client, allow_parallel_in_progress=allowed)
        if address is None:
            await serve_stdio(tool, settings.session)
        else:
            await serve_http(tool, settings.session, *address)

    with_client(settings, _counted(metrics, body))


def _counted(metrics: str | None, body: "Callable[[Client], Awaitable[None]]") -> "Callable[[Client], Awaitable[None]]":
    """The body, while the client's appends can be scraped at an address; raises InvalidSetting."""
    if metrics is None:
        return body
    from todo_write.address import read_address

    host, port = read_address(metrics, "--metrics")
    try:
        from todo_write.metrics import exposing
    except ModuleNotFoundError as error:
        fail(f"the extra metrics is not installed (no {error.name}): pip install 'todo-projection[metrics]'", REFUSED)

    async def counted(client: "Client") -> None:
        with exposing(client.tally, host, port):
            await body(client)

    return counted


@hosting.command(
    epilog="Exit codes: 0 appended, or ended by SIGTERM or SIGINT, 2 not saved or a bad setting.\n\n"
    "Example: todo-write canary --every 10"
)
def canary(
    every: Annotated[
        float | None,
        typer.Option(min=0.1, metavar="SECONDS", help="Go on until SIGTERM, one event every so often; 10 is usual."),
    ] = None,
    redis_url: RedisUrl = None,
    namespace: Namespace = None,
    partitions: Partitions = None,
) -> None:
    """Append an event to the session .canary, which no board lists: gateways see by it whether delivery lives.

    One such process a namespace is enough. A gateway that does not get its events in time says so in its metrics.
    """
    from todo_write.canary import keep_singing, sing
    from todo_write.settings import Settings

    settings = Settings.from_env(os.environ, redis_url=redis_url, namespace=namespace, partitions=partitions)
    if every is None:
        typer.echo(with_client(settings, sing))
        return
    _start_journal(settings)
    with_client(settings, lambda client: keep_singing(client, every_s=every))


def _start_journal(settings: "Settings") -> None:
    from todo_write.journal import start_journal

    start_journal("warning", secrets=[settings.redis_url])
