"""The connection of one process to the store, for one namespace."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self, cast

import hiredis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import TimeoutError as RedisTimeoutError

from todo_write.events import LAYOUT_VERSION, PARTITIONS_DEFAULT, PARTITIONS_MAX, Keys
from todo_write.pace import Pace
from todo_write.settings import Settings, StoreSettings
from todo_write.tally import Tally

CONNECTIONS_MAX = 64
ANSWER_S = 5.0


class LayoutMismatch(ValueError):
    """The namespace was laid out otherwise than these settings say; nothing was written. Nobody retries."""


class _Connection:
    """What is mended in redis-py's connections, of whichever kind."""

    __slots__ = ()

    def pack_command(self, *args: Any) -> list[bytes]:
        """The command as bytes, packed by hiredis: redis-py's own asyncio packing is Python, and slow."""
        pack = cast("Callable[[tuple[Any, ...]], bytes]", hiredis.pack_command)
        return [pack((*args[0].split(), *args[1:]))]  # redis-py writes "CONFIG GET" as one argument

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """As redis-py does it, but not under asyncio.wait_for.

        That costs a task a send, and in Python 3.11 it loses a cancellation that comes as the send ends.
        """
        this, base = cast("Any", self), cast("Any", super())
        limit_s, this.socket_timeout = this.socket_timeout, None
        try:
            async with asyncio.timeout(limit_s):
                await base.send_packed_command(command, check_health)
        except TimeoutError:
            await this.disconnect(nowait=True)
            raise RedisTimeoutError("Timeout writing to socket") from None
        finally:
            this.socket_timeout = limit_s


def connect(
    where: str | StoreSettings, *, namespace: str = "todo", partitions: int | None = None, **more: Any
) -> "Client":
    """A client for a URL with these settings, or for settings as they are; connects when first used.

    ``more`` takes the other fields of Settings. Raises InvalidSetting.
    """
    if isinstance(where, Settings):
        return Client(where)
    if isinstance(where, StoreSettings):
        return connect(where.redis_url, namespace=where.namespace, partitions=where.partitions, **more)
    return Client(Settings.from_env({}, redis_url=where, namespace=namespace, partitions=partitions, **more))


class Client:
    """What session logs share: settings, key names, connections. An async context manager; ``aclose`` when done.

    ``redis`` answers in bytes and repeats nothing by itself: a silent repeat would append twice. ``tally`` counts what
    its logs append.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.session_pace = Pace(settings.session_rate_max)
        self.process_pace = Pace(settings.process_rate_max)
        self.tally = Tally()
        self._keys: Keys | None = None
        self._publish: str | None = None
        # No time-out of its own: redis-py starts a task for every send that has one. Every exchange over it stands
        # under a deadline instead. Any: redis-py types its pools in part only.
        self._pool: Any = self.open_pool(None, CONNECTIONS_MAX)
        self.redis: Redis = Redis.from_pool(self.open_pool(settings.append_attempt_ms / 1000, CONNECTIONS_MAX))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection; the client connects again when it is used again."""
        await self.redis.aclose()
        await self._pool.aclose()

    @property
    def address(self) -> str:
        """Where the server is, ``host:port/db`` or the socket's path, without a password: for messages."""
        where = self._pool.connection_kwargs
        if "path" in where:
            return f"{where['path']}/{where.get('db', 0)}"
        return f"{where.get('host', 'localhost')}:{where.get('port', 6379)}/{where.get('db', 0)}"

    async def keys(self, *, create: bool = True) -> Keys:
        """Key names of the namespace, its number of partitions as stored; the first writer stores it, for life.

        Without ``create`` nothing is written, and a namespace nobody wrote to has the number that was asked for.
        Raises LayoutMismatch when the stored number or layout is another, redis errors when it can't be read.
        """
        if self._keys is not None:
            return self._keys
        wanted = self.settings.partitions or PARTITIONS_DEFAULT
        meta = Keys(self.settings.namespace, wanted).meta
        layout, partitions = await self.ask("HMGET", meta, "layout", "partitions")
        if layout is None and partitions is None:
            if not create:
                return Keys(self.settings.namespace, wanted)
            async with self.redis.pipeline(transaction=True) as pipe:
                pipe.hsetnx(meta, "layout", LAYOUT_VERSION)
                pipe.hsetnx(meta, "partitions", wanted)
                pipe.hmget(meta, ["layout", "partitions"])
                layout, partitions = (await pipe.execute())[2]
        self._keys = Keys(self.settings.namespace, self._check_layout(layout, partitions))
        return self._keys

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[AbstractConnection]:
        """A connection for one exchange, which wants a deadline; while this waits, nothing has been sent."""
        connection = await self._pool.get_connection()
        try:
            yield connection
        finally:
            await self._pool.release(connection)

    async def ask(self, *command: Any) -> Any:
        """The server's own answer to one command, flat and in bytes; raises redis errors."""
        try:
            async with asyncio.timeout(ANSWER_S), self.connection() as connection:
                return await exchange(connection, *command)
        except TimeoutError as error:
            raise RedisTimeoutError(f"{self.address} gave no answer within {ANSWER_S} s") from error

    def open_blocking(self, timeout_s: float) -> Redis:
        """A client of one connection for blocking reads; raw answers; whoever asked for it closes it."""
        redis = Redis.from_pool(self.open_pool(timeout_s, 1))
        redis.response_callbacks.clear()
        return redis

    async def publish_command(self) -> str:
        """PUBLISH, on a cluster SPUBLISH."""
        if self._publish is None:
            # Everybody may say HELLO, whatever the access rules; INFO not.
            hello = await self.ask("HELLO")
            mode = dict(zip(hello[::2], hello[1::2], strict=True))[b"mode"]
            self._publish = "SPUBLISH" if mode == b"cluster" else "PUBLISH"
        return self._publish

    def open_pool(self, timeout_s: float | None, connections_max: int) -> BlockingConnectionPool:
        """Connections to the same server under another time-out; whoever asked for them closes them."""
        pool = BlockingConnectionPool.from_url(
            self.settings.redis_url,
            protocol=2,
            socket_timeout=timeout_s,
            socket_connect_timeout=self.settings.append_attempt_ms / 1000,
            socket_keepalive=True,
            max_connections=connections_max,
            timeout=ANSWER_S,
        )
        pool.connection_class = type("Connection", (_Connection, pool.connection_class), {})
        return pool

    def _check_layout(self, layout: bytes | None, partitions: bytes | None) -> int:
        where = f"namespace {self.settings.namespace!r} at {self.address}"
        if layout != str(LAYOUT_VERSION).encode():
            raise LayoutMismatch(
                f"{where}: the layout version is {_shown(layout)}, this program knows {LAYOUT_VERSION}: "
                "use the program that wrote it, or another TODO_NAMESPACE"
            )
        stored = int(partitions) if partitions is not None and partitions.isdigit() else 0
        if not 1 <= stored <= PARTITIONS_MAX:
            raise LayoutMismatch(
                f"{where}: the number of partitions is {_shown(partitions)}; 1-{PARTITIONS_MAX} are allowed: "
                "put back the number it was born with, or choose another TODO_NAMESPACE"
            )
        wanted = self.settings.partitions
        if wanted not in (None, stored):
            raise LayoutMismatch(
                f"{where}: the number of partitions is {stored}, TODO_PARTITIONS asks for {wanted}: "
                "it is fixed for life; leave TODO_PARTITIONS unset to use it, or choose another TODO_NAMESPACE"
            )
        return stored


async def exchange(connection: AbstractConnection, *command: Any) -> Any:
    """Send one command and read its raw answer; a connection left half-way is dropped. Raises redis errors."""
    wire: Any = connection  # redis-py leaves replies untyped
    await wire.send_command(*command)
    return await wire.read_response()


def _shown(stored: bytes | None) -> str:
    return "not stored" if stored is None else stored.decode("utf-8", "replace")
