"""A bare subscriber to everything that is published: at each server, per session and key, it must only ever rise."""

import asyncio
import json
from contextlib import suppress
from typing import Any, Self, cast

from redis.asyncio import Connection, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import MovedError, RedisError

from chaos.ground import Ground
from chaos.script import NAMESPACE, PARTITIONS, SESSIONS
from servers import Server
from todo_write.events import Keys
from topologies import Cluster

PATTERN = f"{NAMESPACE}:*:updates:*"
PAUSE_S = 0.05  # nobody waits for this: the server is away, or has just cut us off
AGAIN_S = 0.5  # how often a channel is asked for at a node of a cluster that does not serve it
ONCE = Retry(NoBackoff(), 0)

Place = tuple[str, str]
Order = tuple[int, int]


class Ear:
    """Listens while the block runs, through whatever happens to its connections. ``fallen`` tells what did not rise.

    While it does not mind, servers may have gone back to an older state: what they say then is no measure.
    """

    def __init__(self, ground: Ground) -> None:
        self.fallen: list[str] = []
        self._ground = ground
        self._minds = True
        self._heard: set[tuple[Place, Order]] = set()
        self._newest: dict[int, dict[Place, Order]] = {server.port: {} for server in ground.servers}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def frames(self) -> int:
        """How many were heard, each counted once."""
        return len(self._heard)

    @property
    def minds(self) -> bool:
        """Whether what falls is wrong."""
        return self._minds

    @minds.setter
    def minds(self, minds: bool) -> None:
        self._minds = minds
        for newest in self._newest.values():
            newest.clear()

    async def __aenter__(self) -> Self:
        at = self._at_node if isinstance(self._ground.whole, Cluster) else self._at_server
        self._tasks = [asyncio.create_task(self._listen(at, server)) for server in self._ground.servers]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            while not task.done():  # redis-py sends under asyncio.wait_for, which can swallow a cancellation
                task.cancel()
                await asyncio.wait({task}, timeout=AGAIN_S)
            if not task.cancelled():
                task.result()

    async def _listen(self, at: Any, server: Server) -> None:
        while True:
            with suppress(RedisError, OSError):
                await at(server)
            await asyncio.sleep(PAUSE_S)

    async def _at_server(self, server: Server) -> None:
        redis: Any = Redis.from_url(server.url, socket_timeout=5, retry=ONCE)
        async with redis, redis.pubsub() as pubsub:
            await pubsub.psubscribe(PATTERN)
            while True:
                message = await pubsub.get_message(timeout=1.0)
                if message is not None and message["type"] == "pmessage":
                    self._hear(server, message["data"])

    async def _at_node(self, server: Server) -> None:
        """Each channel is heard where its slot is: every node is asked for those it does not serve again and again."""
        keys = Keys(NAMESPACE, PARTITIONS)
        connection: Any = Connection(host=server.host, port=server.port, protocol=2, retry=ONCE)
        channels = {keys.channel(session) for session in SESSIONS}
        held: set[str] = set()
        asked_at, loop = 0.0, asyncio.get_running_loop()
        try:
            await connection.connect()
            while True:
                if loop.time() - asked_at > AGAIN_S:
                    for channel in sorted(channels - held):
                        await connection.send_command("SSUBSCRIBE", channel)
                    asked_at = loop.time()
                try:
                    said: Any = await connection.read_response(timeout=AGAIN_S)
                except MovedError:
                    continue
                kind, channel, frame = cast("list[Any]", said or [b"", b"", b""])
                if kind == b"smessage":
                    self._hear(server, frame)
                elif kind == b"ssubscribe":
                    held.add(channel.decode())
                elif kind == b"sunsubscribe":
                    held.discard(channel.decode())
        finally:
            await connection.disconnect()

    def _hear(self, server: Server, raw: bytes) -> None:
        frame, newest = json.loads(raw), self._newest[server.port]
        session, order = frame["sessionId"], (frame["epoch"], int(frame["rev"].partition("-")[0]))
        place = (session, frame.get("key", ""))
        self._heard.add((place, order))
        before = max(newest.get(place, (0, 0)), newest.get((session, ""), (0, 0)))
        if order <= before and self._minds:
            self.fallen.append(f"{place}: {order} after {before}")
        newest[place] = max(order, before)
