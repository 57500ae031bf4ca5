"""The gateway as a process: it listens, serves, and ends in a way its clients notice."""

import asyncio
import contextlib
import logging
import resource
import signal
import socket
from collections.abc import AsyncGenerator, Generator, Sequence

from redis.exceptions import RedisError
from starlette.routing import BaseRoute
from uvicorn import Config, Server

from todo_projection.access import Access, check_exposure, own_hosts
from todo_projection.background import end
from todo_projection.boards import Boards
from todo_projection.canary import Canary
from todo_projection.cluster import open_wire
from todo_projection.connection import HEAD_BYTES_MAX, Connection, open_listener
from todo_projection.pages import Pages
from todo_projection.routes import Parts, application
from todo_projection.settings import Settings
from todo_projection.signals import Stop, stopping
from todo_projection.stream import Streams
from todo_projection.subscriber import Subscriber
from todo_projection.tail import Tails
from todo_projection.tokens import Tokens
from todo_projection.unit import mounted_units
from todo_write.log import connect

ANSWER_S = 3.0
CONNECTIONS_BESIDE = 1000  # of clients that ask for something else than a stream
TOKENS_S = 1.0  # between two looks at the files of tokens
LAST_S = 0.5  # kept of the time to end for what comes after the clients

logger = logging.getLogger(__name__)


class GatewayServer(Server):
    """uvicorn's server without its own signals: this process says when it ends."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals alone."""
        yield


def run_gateway(settings: Settings, more: Sequence[BaseRoute] = ()) -> int:
    """Serve until SIGTERM or SIGINT, and return 0.

    Raises LayoutMismatch, InvalidUnit, InvalidSetting for an address or tokens that can't be, OSError for its address.
    SIGHUP reads tokens anew, which happens by itself too soon after their file has changed. While redis is away it
    serves what it can, and says so.
    """
    _allow_many_clients()
    check_exposure(settings)
    asyncio.run(_until_a_signal(settings, more))
    return 0


async def serve(
    settings: Settings, stop: Stop, more: Sequence[BaseRoute] = (), hup: asyncio.Event | None = None
) -> None:
    """Serve until ``stop`` is asked; ``more`` are further routes; ``hup`` asks for tokens to be read anew.

    Raises as ``run_gateway``.
    """
    check_exposure(settings)
    with open_listener(settings.gateway_host, settings.gateway_port) as listener:
        async with _parts(settings, hup or asyncio.Event()) as parts:
            await _check_layout(parts)
            server = GatewayServer(_config(settings, parts, more))
            serving = asyncio.create_task(server.serve([listener]))
            asked = asyncio.create_task(stop.asked.wait())
            logger.info("gateway: %s, redis at %s", _address(listener, settings), parts.client.address)
            await asyncio.wait({serving, asked}, return_when=asyncio.FIRST_COMPLETED)
            asked.cancel()
            await _end(server, serving, parts, settings, stop)


async def _until_a_signal(settings: Settings, more: Sequence[BaseRoute]) -> None:
    with stopping() as stop:
        hup = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hup.set)
        await serve(settings, stop, more, hup)


@contextlib.asynccontextmanager
async def _parts(settings: Settings, hup: asyncio.Event) -> AsyncGenerator[Parts]:
    tokens = Tokens(settings)
    client, wire = connect(settings), open_wire(settings.redis_url, timeout_s=ANSWER_S)
    boards = Boards(client, wire, stuck_ms=settings.stuck_ms, quiet_ms=settings.quiet_ms)
    tails = Tails(client, wire)
    streams = Streams(
        heartbeat_ms=settings.heartbeat_ms,
        life_ms=settings.stream_life_ms,
        open_max=settings.streams_max,
        of_token_max=settings.token_streams_max,
        token_sessions_max=settings.token_sessions_max,
        counts=lambda holder: tokens.grant(holder.token) == holder.grant,
    )
    try:
        async with Subscriber(client) as subscriber:
            canary = Canary(client, wire, subscriber)
            running = [asyncio.create_task(part.run()) for part in (boards, tails, canary)]
            running.append(asyncio.create_task(_keep_tokens(tokens, streams, hup)))
            try:
                yield Parts(
                    client,
                    wire,
                    subscriber,
                    streams,
                    boards,
                    Pages(client, wire, mounted_units()),
                    tails,
                    canary,
                    Access(
                        tokens, origins=settings.origins, hosts=own_hosts(settings), rate_max=settings.request_rate_max
                    ),
                    settings.stuck_ms,
                    settings.quiet_ms,
                    settings.stream_sessions_max,
                    settings.gateway_prefix,
                )
            finally:
                await end(*running)
    finally:
        await wire.aclose()
        await client.aclose()


async def _keep_tokens(tokens: Tokens, streams: Streams, hup: asyncio.Event) -> None:
    """Read tokens anew when their file has changed or somebody asks, and end the streams of those that are gone."""
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TOKENS_S):
                await hup.wait()
        asked = hup.is_set()
        hup.clear()
        if tokens.reload(asked=asked):
            streams.recheck()


async def _check_layout(parts: Parts) -> None:
    try:
        await parts.client.keys(create=False)
    except (RedisError, OSError) as error:
        logger.warning("redis at %s: %s; plans come when it does", parts.client.address, error)


def _config(settings: Settings, parts: Parts, more: Sequence[BaseRoute]) -> Config:
    return Config(
        application(parts, more),
        http=Connection.limited(settings.send_timeout_ms, settings.head_timeout_ms, parts.streams.count_cut),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",  # what else it has to say, this process says
        access_log=False,
        server_header=False,
        limit_concurrency=settings.streams_max + CONNECTIONS_BESIDE,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
    )


async def _end(
    server: GatewayServer, serving: asyncio.Task[None], parts: Parts, settings: Settings, stop: Stop
) -> None:
    """Say goodbye to every client; cut off, when time is up or somebody urges, those who don't take it."""
    if not serving.done():
        logger.info("gateway: asked to end; %d streams are told", len(parts.streams))
        server.should_exit = True
        parts.streams.end("shutdown")
        urged = asyncio.create_task(stop.urged.wait())
        grace_s = max(0.0, settings.grace_ms / 1000 - LAST_S)
        await asyncio.wait({serving, urged}, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        urged.cancel()
        if not serving.done():
            left = list(server.server_state.connections)
            logger.warning("gateway: %d clients did not take their goodbye in time: cut off", len(left))
            for connection in left:
                connection.transport.abort()
    await serving
    logger.info("gateway: ended")


def _address(listener: socket.socket, settings: Settings) -> str:
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}{settings.gateway_prefix}/"


def _allow_many_clients() -> None:
    """As many open files as this process may have: each client is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # a system with a lower limit than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
