"""One namespace with a single partition: what writers appended, what workers make of it, what stands there."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from redis.asyncio import Redis

import todo_write
from oracle import Entries, expected_row, shown
from todo_projection.feed import Feeds
from todo_projection.projector import Outcome, Projector
from todo_projection.rows import Rows
from todo_projection.span import Pointer
from todo_projection.unit import Unit, mounted_units
from todo_projection.wire import Wire
from todo_write.events import Keys, token

APPEND = (Path(todo_write.__file__).parent / "append.lua").read_text()


class Workshop:
    """``redis`` answers in bytes; ``wire`` is what projectors and feeds work over."""

    def __init__(self, redis: Redis, namespace: str, wire: Wire, partitions: int = 1) -> None:
        self.redis: Any = redis  # redis-py types its answers for str and bytes alike
        self.keys = Keys(namespace, partitions)
        self.wire = wire
        self._times = itertools.count(1_000_000)

    async def append(self, session: str, *events: tuple[str, Any]) -> list[str]:
        """Append behind whatever stands there; the positions."""
        tail = await self.redis.xrevrange(self.keys.log(session), count=1)
        expected = (tail[0][0], tail[0][1][b"op"]) if tail else ("new", "")
        flat = [part for type, data in events for part in (type, next(self._times), json.dumps(data))]
        names = [self.keys.log(session), self.keys.feed(self.keys.partition(session)), self.keys.row(session)]
        word, first, _ = await self.redis.eval(APPEND, 3, *names, session, *expected, token(), *flat)
        assert word == b"ok", word
        epoch, seq = first.decode().split("-")
        return [f"{epoch}-{int(seq) + n}" for n in range(len(events))]

    def feeds(self, consumer: str = "w") -> Feeds:
        """The feeds as one consumer sees them."""
        return Feeds(self.wire, self.wire, self.keys, consumer)

    async def deliver(self, consumer: str = "w", count: int = 10_000) -> list[Pointer]:
        """What is new in the feed, in order; the group is made when it is missing."""
        feeds = self.feeds(consumer)
        await feeds.ensure_groups()
        return (await feeds.read(count_max=count, block_ms=1)).get(0, [])

    async def pin(self) -> None:
        """Keep the feed from being trimmed: its first pointer is never acknowledged."""
        await self.append("pin", ("x", {}))
        assert len(await self.deliver("pin")) == 1

    def projector(self, units: Sequence[Unit] | None = None) -> Projector:
        """A projector with a memory of its own."""
        mounted = mounted_units() if units is None else units
        return Projector(self.wire, self.keys, mounted, Rows(self.wire, self.keys))

    async def project(self, *events: tuple[str, Any], session: str = "s", by: Projector | None = None) -> Outcome:
        """Append, deliver, project."""
        await self.append(session, *events)
        return await (by or self.projector()).project({0: await self.deliver()})

    async def row(self, session: str = "s") -> dict[str, str]:
        """The stored row."""
        fields = await self.redis.hgetall(self.keys.row(session))
        return {name.decode(): value.decode() for name, value in fields.items()}

    async def log(self, session: str = "s") -> Entries:
        """The log as it stands."""
        found = await self.redis.xrange(self.keys.log(session))
        return [(id.decode(), {name.decode(): raw.decode() for name, raw in fields.items()}) for id, fields in found]

    async def assert_right(self, *sessions: str) -> None:
        """Every row equals an independent fold of its log."""
        for session in sessions:
            assert shown(await self.row(session)) == expected_row(await self.log(session)), session

    async def pending(self) -> int:
        """How many pointers wait for their acknowledgement."""
        return int((await self.redis.xpending(self.keys.feed(0), "projection"))["pending"])

    async def indexed(self, name: str) -> dict[str, int]:
        """``recent`` or ``working``: sessions and their times."""
        found = await self.redis.zrange(getattr(self.keys, name)(0), 0, -1, withscores=True)
        return {session.decode(): int(score) for session, score in found}

    async def marks(self) -> dict[str, Any]:
        """The index of stale sessions, its JSON decoded."""
        found = await self.redis.hgetall(self.keys.stale(0))
        return {session.decode(): json.loads(raw) for session, raw in found.items()}


class Ear:
    """A subscriber to the frames of some sessions."""

    def __init__(self, redis: Redis, keys: Keys, *sessions: str) -> None:
        self._redis: Any = redis
        self._pubsub: Any = redis.pubsub()
        self._channels = [keys.channel(session) for session in sessions]

    async def __aenter__(self) -> Self:
        await self._pubsub.subscribe(*self._channels)
        for _ in self._channels:
            assert (await self._pubsub.get_message(timeout=5))["type"] == "subscribe"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pubsub.aclose()

    async def heard(self) -> list[Any]:
        """All frames since the last look, decoded: those before a marker that is sent now."""
        await self._redis.publish(self._channels[0], b'"marker"')
        found: list[Any] = []
        while not found or found[-1] != "marker":
            found.append(json.loads((await self._pubsub.get_message(timeout=5))["data"]))
        return found[:-1]
