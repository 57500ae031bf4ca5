"""The connection of one process to the store, for one namespace."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ClusterDownError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from todo_write.connections import LendingPool, Lent, PackedConnection
from todo_write.events import LAYOUT_VERSION, PARTITIONS_DEFAULT, PARTITIONS_MAX, Keys
from todo_write.location import Address, locate
from todo_write.nodes import HOPS_MAX, Hop, Nodes, key_of
from todo_write.pace import Pace
from todo_write.primary import open_pool
from todo_write.settings import Settings, StoreSettings
from todo_write.tally import Tally

CONNECTIONS_MAX = 64
ANSWER_S = 5.0

# One script instead of a transaction: whoever dies here leaves both fields or none.
_LAY_OUT = """#!lua
for n = 1, 3, 2 do redis.call('HSETNX', KEYS[1], ARGV[n], ARGV[n + 1]) end
return redis.call('HMGET', KEYS[1], ARGV[1], ARGV[3])"""


class LayoutMismatch(ValueError):
    """The namespace was laid out otherwise than these settings say; nothing was written. Nobody retries."""


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
    its logs append, ``nodes`` are those of a cluster, None where there is none.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.session_pace = Pace(settings.session_rate_max)
        self.process_pace = Pace(settings.process_rate_max)
        self.tally = Tally()
        self._keys: Keys | None = None
        self._publish: str | None = None
        self._location = locate(settings.redis_url)
        # No time-out of its own: redis-py starts a task for every send that has one. Every exchange over it stands
        # under a deadline instead. Any: redis-py types its pools in part only.
        self._pool: Any = None
        self.nodes: Nodes[Any] | None = None
        self._redis: Redis | None = None
        if self._location.kind == "cluster":
            self.nodes = Nodes(self._location, lambda url: self._open_pool(url, None, CONNECTIONS_MAX))
        else:
            self._pool = self.open_pool(None, CONNECTIONS_MAX)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection; the client connects again when it is used again."""
        if self._redis is not None:
            await self._redis.aclose(close_connection_pool=True)
        for pool in self.nodes.drop() if self.nodes is not None else [self._pool]:
            await pool.aclose()

    @property
    def redis(self) -> Redis:
        """A client of redis-py for the same server; raises ValueError on a cluster, where ``ask`` finds the node."""
        if self._redis is None:
            self._redis = Redis.from_pool(self.open_pool(self.settings.append_attempt_ms / 1000, CONNECTIONS_MAX))
        return self._redis

    @property
    def address(self) -> str:
        """Where the server is, ``host:port/db`` or the socket's path, without a password: for messages."""
        if self._location.kind != "server":
            return str(self._location)
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
            fields = ("layout", LAYOUT_VERSION, "partitions", wanted)
            layout, partitions = await self.ask("EVAL", _LAY_OUT, 1, meta, *fields)
        self._keys = Keys(self.settings.namespace, self._check_layout(layout, partitions))
        return self._keys

    def connection(
        self, key: str | bytes | None = None, hop: Hop | None = None
    ) -> AbstractAsyncContextManager[AbstractConnection]:
        """A connection for one exchange, which wants a deadline; while this waits, nothing has been sent.

        On a cluster to the primary that serves ``key``, or to where a ``hop`` leads.
        """
        return Lent(self._pool) if self.nodes is None else self._connection_to_node(self.nodes, key, hop)

    @asynccontextmanager
    async def _connection_to_node(
        self, nodes: Nodes[Any], key: str | bytes | None, hop: Hop | None
    ) -> AsyncGenerator[AbstractConnection]:
        address = hop.address if hop is not None else await nodes.of(key)
        try:
            async with Lent(nodes.at(address)) as connection:
                yield connection
        except ResponseError:
            raise
        except BaseException:  # no way to it, or no answer in time
            nodes.doubt(address)
            raise

    def follow(self, error: Exception, connection: Any) -> Hop | None:
        """Where an error of a cluster's node sends a command; None for one that does not, or without a cluster."""
        if self.nodes is None:
            return None
        asked = Address(connection.host, connection.port)
        hop = self.nodes.follow(error, asked)
        if hop is None and isinstance(error, ClusterDownError):
            self.nodes.doubt(asked)
        return hop

    def doubt(self, redis: Redis) -> None:
        """A node of a cluster that a client of ``open_blocking`` goes to did not answer as it should."""
        if self.nodes is not None:
            where = redis.connection_pool.connection_kwargs
            self.nodes.doubt(Address(where["host"], where["port"]))

    async def ask(self, *command: Any) -> Any:
        """The server's own answer to one command, flat and in bytes; raises redis errors."""
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._ask(command)
        except TimeoutError as error:
            raise RedisTimeoutError(f"{self.address} gave no answer within {ANSWER_S} s") from error

    async def _ask(self, command: Sequence[Any]) -> Any:
        hop: Hop | None = None
        for _ in range(HOPS_MAX):
            async with self.connection(key_of(command), hop) as connection:
                try:
                    return await exchange(connection, *command, asking=hop is not None and hop.asking)
                except ResponseError as error:
                    hop = self.follow(error, connection)
                    if hop is None:
                        raise
        raise RedisConnectionError(f"{self.address}: {HOPS_MAX} redirections led nowhere")

    async def open_blocking(self, timeout_s: float, key: str) -> Redis:
        """A client of one connection to the server of a key, for blocking reads; raw answers; its opener closes it."""
        redis = Redis.from_pool(await self.open_pool_of(key, timeout_s, 1))
        redis.response_callbacks.clear()
        return redis

    async def open_pool_of(self, key: str, timeout_s: float | None, connections_max: int) -> BlockingConnectionPool:
        """Connections to the server of a key under another time-out; whoever asked for them closes them."""
        if self.nodes is None:
            return self.open_pool(timeout_s, connections_max)
        return self.open_pool_at(await self.nodes.of(key), timeout_s, connections_max)

    def open_pool_at(self, address: Address, timeout_s: float | None, connections_max: int) -> BlockingConnectionPool:
        """Connections to one node of a cluster; whoever asked for them closes them."""
        return self._open_pool(self._location.at(address), timeout_s, connections_max)

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
        return self._open_pool(self.settings.redis_url, timeout_s, connections_max)

    def _open_pool(self, url: str, timeout_s: float | None, connections_max: int) -> BlockingConnectionPool:
        pool = open_pool(
            LendingPool,
            url,
            protocol=2,
            socket_timeout=timeout_s,
            socket_connect_timeout=self.settings.append_attempt_ms / 1000,
            socket_keepalive=True,
            max_connections=connections_max,
            timeout=ANSWER_S,
        )
        pool.connection_class = type("Connection", (PackedConnection, pool.connection_class), {})
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


async def exchange(connection: AbstractConnection, *command: Any, asking: bool = False) -> Any:
    """Send one command and read its raw answer; a connection left half-way is dropped. Raises redis errors.

    ``asking`` says to a cluster's node that another one sent us, since the slot is on its way there.
    """
    wire: Any = connection  # redis-py leaves replies untyped
    if asking:
        await wire.send_command("ASKING")
        await wire.read_response()
    await wire.send_command(*command)
    return await wire.read_response()


def _shown(stored: bytes | None) -> str:
    return "not stored" if stored is None else stored.decode("utf-8", "replace")
