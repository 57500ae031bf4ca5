"""What a run stands on: one server, servers behind sentinels, or a cluster."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ClusterError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TryAgainError,
)

from servers import Server
from topologies import SERVICE, Cluster, Service

ANSWER_S = 2.0
PATIENCE_S, PAUSE_S = 60.0, 0.1
PASSES_BY = (AskError, ClusterDownError, ClusterError, ReadOnlyError, RedisClusterException, TryAgainError)


class Ground(Protocol):
    """``servers`` are those that hold keys; ``one`` says whether there is just the one, which nobody replaces."""

    @property
    def url(self) -> str:
        """What writers, workers and viewers get."""
        ...

    @property
    def servers(self) -> Sequence[Server]:
        """All of them."""
        ...

    @property
    def whole(self) -> Service | Cluster | None:
        """What they are together; None for one server."""
        ...

    def connect(self) -> Any:
        """A client of redis-py, repeating nothing."""
        ...


class Alone:
    """One server."""

    whole = None

    def __init__(self, server: Server) -> None:
        self.servers = [server]
        self.url = server.url

    def connect(self) -> Any:
        """A client of redis-py."""
        return Redis.from_url(self.url, socket_timeout=ANSWER_S, retry=Retry(NoBackoff(), 0))


class Together:
    """Several that take each other's place."""

    def __init__(self, whole: Service | Cluster) -> None:
        self.whole = whole
        self.servers = whole.servers
        self.url = whole.url

    def connect(self) -> Any:
        """A client of redis-py."""
        options: dict[str, Any] = {"socket_timeout": ANSWER_S, "retry": Retry(NoBackoff(), 0)}
        if isinstance(self.whole, Cluster):
            return RedisCluster(startup_nodes=[ClusterNode(one.host, one.port) for one in self.servers], **options)
        watching: Any = Sentinel  # untyped in redis-py
        return watching([(one.host, one.port) for one in self.whole.sentinels], **options).master_for(SERVICE)


class Patient:
    """A client whose every command is repeated until it is answered: nothing but what may be is asked of it."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._client = connect()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def ask(*args: Any, **options: Any) -> Any:
            ends = asyncio.get_running_loop().time() + PATIENCE_S
            while True:
                try:
                    return await getattr(self._client, name)(*args, **options)
                except (RedisError, RedisClusterException, OSError) as error:
                    refused = isinstance(error, ResponseError) and not isinstance(error, PASSES_BY)
                    if refused or asyncio.get_running_loop().time() > ends:
                        raise
                    await self.aclose()
                    self._client = self._connect()
                    await asyncio.sleep(PAUSE_S)

        return ask

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()
