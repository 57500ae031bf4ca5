"""Behind sentinels: connections to the server that is the primary at the moment, and to no other."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, TypeVar

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ReadOnlyError, RedisError, ResponseError

from todo_write.location import Address, Location, locate

ASK_S = 1.0  # for how long an answer of the sentinels is taken for granted
ANSWER_S = 0.3

_logger = logging.getLogger(__name__)

Pool = TypeVar("Pool", bound=ConnectionPool)


def open_pool(kind: type[Pool], url: str, **options: Any) -> Pool:
    """Connections to the server of a URL, or to whichever the sentinels of a URL call the primary.

    Raises ValueError for the URL of a cluster: that is many servers.
    """
    location = locate(url)
    if location.kind == "server":
        return kind.from_url(url, **options)
    if location.kind == "cluster":
        raise ValueError(f"{location} has a pool of connections for each of its nodes")
    following: Any = type(kind.__name__, (_PrimaryPool, kind), {})
    pool = following.from_url(location.at(location.addresses[0]), **options)
    pool.primary = Primary(location)
    pool.connection_class = type(
        "PrimaryConnection", (_PrimaryConnection, pool.connection_class), {"primary": pool.primary}
    )
    return pool  # type: ignore[no-any-return]  # it is one by its second base


async def leads_where_it_should(pool: Any, connection: Any) -> bool:
    """Whether a connection that is held for long still goes to the server that a new one would go to."""
    primary: Primary | None = getattr(pool, "primary", None)
    if primary is None:
        return True
    await primary.check()
    return bool(primary.address == (connection.host, connection.port))


class Primary:
    """Which server is the primary of a service, as its sentinels say. Raises redis errors while they can't."""

    def __init__(self, location: Location) -> None:
        self.address: Address | None = None
        self._location = location
        self._asked_at = 0.0
        self._silent_at = -ASK_S  # when all were asked in vain
        self._silence = ""
        # Not redis-py's Sentinel: its time-out is asyncio.wait_for, which in Python 3.11 can swallow a cancellation.
        self._sentinels: list[Any] = [
            Redis.from_url(
                location.sentinel(address),
                protocol=2,
                retry=Retry(NoBackoff(), 0),
                socket_timeout=None,
                socket_connect_timeout=ANSWER_S,
            )
            for address in location.addresses
        ]

    async def find(self) -> Address:
        """Ask now: the sentinel that answered last, then the others all at once; when all are silent, not for a second.

        So a try of an append has time left, even where a connection to each stands open and nothing comes.
        """
        loop = asyncio.get_running_loop()
        if loop.time() - self._silent_at < ASK_S:
            raise RedisConnectionError(self._silence)
        for some in (self._sentinels[:1], self._sentinels[1:]):
            answer = await self._first(some)
            if answer is not None:
                sentinel, self.address = answer
                self._sentinels.remove(sentinel)
                self._sentinels.insert(0, sentinel)
                self._asked_at = loop.time()
                return self.address
        self._silent_at = loop.time()
        raise RedisConnectionError(self._silence)

    async def _first(self, sentinels: Sequence[Any]) -> tuple[Any, Address] | None:
        """The first of these that names a primary, and which."""
        tasks = [asyncio.create_task(self._ask(sentinel)) for sentinel in sentinels]
        try:
            async with asyncio.timeout(ANSWER_S):
                for task in asyncio.as_completed(tasks):
                    try:
                        return await task
                    except (RedisError, OSError) as error:
                        failed = str(error) or type(error).__name__
                        self._silence = f"{self._location}: no sentinel names a primary; the last: {failed}"
        except TimeoutError:
            self._silence = f"{self._location}: no sentinel names a primary; the last: no answer in {ANSWER_S} s"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return None

    async def _ask(self, sentinel: Any) -> tuple[Any, Address]:
        service = self._location.service
        found: Any = await sentinel.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", service)
        if found is None:
            raise RedisConnectionError(f"no service is called {service!r}")
        return sentinel, Address(_text(found[0]), int(found[1]))

    async def find_or_recall(self) -> Address:
        """Ask now; while no sentinel answers, what was true last: that server says itself whether it is the primary."""
        try:
            return await self.find()
        except (RedisError, OSError):
            if self.address is None:
                raise
            return self.address

    async def check(self) -> None:
        """Ask again when the last answer is old; while no sentinel answers it stands."""
        now = asyncio.get_running_loop().time()
        if self.address is None or now - self._asked_at < ASK_S:
            return
        try:
            await self.find()
        except (RedisError, OSError) as error:
            self._asked_at = now
            _logger.debug("%s", error)

    def doubt(self) -> None:
        """The server we took for it is none: the next check asks."""
        self._asked_at = 0.0

    async def aclose(self) -> None:
        """Close the connections to the sentinels; harmless when done twice."""
        for sentinel in self._sentinels:
            await sentinel.aclose()


class _PrimaryPool:
    """Gives no connection to a server that is not the primary any more."""

    primary: Primary

    async def get_connection(self, *args: Any, **options: Any) -> Any:
        await self.primary.check()
        pool: Any = super()
        connection = await pool.get_connection(*args, **options)
        if (connection.host, connection.port) != self.primary.address:
            try:
                await connection.disconnect()
                await connection.connect()
            except BaseException:
                await pool.release(connection)
                raise
        return connection

    async def disconnect(self, inuse_connections: bool = True) -> None:
        pool: Any = super()
        await pool.disconnect(inuse_connections)
        await self.primary.aclose()  # they are made again when they are needed


class _PrimaryConnection:
    """Connects to the primary as the sentinels name it, if that server takes itself for one too."""

    primary: Primary

    async def _connect(self) -> None:
        this, base = _both(self, super())
        this.host, this.port = await self.primary.find_or_recall()
        await base._connect()  # noqa: SLF001  the one step of redis-py's connecting that opens the socket

    async def on_connect_check_health(self, *args: Any, **options: Any) -> None:
        this, base = _both(self, super())
        await base.on_connect_check_health(*args, **options)
        await this.send_command("ROLE")
        try:
            role = (await this.read_response())[0]
        except ResponseError:
            return  # not permitted to this user; the sentinels' word must do
        if role != b"master":
            raise RedisConnectionError(f"{this.host}:{this.port} should be the primary, but is a {role.decode()}")

    async def read_response(self, *args: Any, **options: Any) -> Any:
        _, base = _both(self, super())
        try:
            return await base.read_response(*args, **options)
        except ReadOnlyError:
            self.primary.doubt()
            raise


def _text(raw: Any) -> str:
    return raw.decode() if isinstance(raw, bytes) else str(raw)


def _both(this: Any, base: Any) -> tuple[Any, Any]:
    """Redis-py leaves what is inside its connections untyped."""
    return this, base
