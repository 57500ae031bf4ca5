"""commit.lua as its callers speak to it, without the code of its callers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

import todo_projection
from todo_write.events import Keys

SCRIPT = (Path(todo_projection.__file__).parent / "commit.lua").read_text()
RETIRE = (Path(todo_projection.__file__).parent / "retire.lua").read_text()
GROUP = "projection"
EPOCH = 1764517000000


@dataclass(frozen=True)
class Entry:
    """A pointer as it stands in the feed."""

    id: str
    session: str
    position: str
    op: str


@dataclass(frozen=True)
class Write:
    """What a worker wants written for one session."""

    session: str
    entries: Sequence[Entry]
    etag: str = ""
    set: Mapping[str, str] = field(default_factory=dict[str, str])
    remove: Sequence[str] = ()
    frames: Sequence[str] = ()
    recent: str = ""
    working: str = ""
    mark: str = ""


class Fence:
    """One partition: its feed and group, and the script over them. ``redis`` answers in bytes."""

    def __init__(self, redis: Redis, namespace: str) -> None:
        self.redis: Any = redis  # redis-py types its answers for str and bytes alike
        self.keys = Keys(namespace, 1)
        self.feed, self.recent = self.keys.feed(0), self.keys.recent(0)
        self.working, self.stale = self.keys.working(0), self.keys.stale(0)

    async def point(self, session: str, seq: int = 0, *, op: str = "op", id: str = "*") -> Entry:
        """A new pointer in the feed."""
        position = f"{EPOCH}-{seq}"
        found = await self.redis.xadd(self.feed, {"s": session, "i": position, "o": op, "t": "x"}, id=id)
        return Entry(found.decode(), session, position, op)

    async def point_all(self, session: str, count: int) -> list[Entry]:
        """Many pointers to one session."""
        pipe = self.redis.pipeline(transaction=False)
        for seq in range(count):
            pipe.xadd(self.feed, {"s": session, "i": f"{EPOCH}-{seq}", "o": "op", "t": "x"})
        ids = await pipe.execute()
        return [Entry(id.decode(), session, f"{EPOCH}-{seq}", "op") for seq, id in enumerate(ids)]

    async def create_group(self) -> None:
        """The group, at 0."""
        await self.redis.xgroup_create(self.feed, GROUP, "0", mkstream=True)

    async def deliver(self, *, to: str = "w", count: int | None = None) -> list[str]:
        """Ids read by a consumer, pending from now on."""
        reply = await self.redis.xreadgroup(GROUP, to, {self.feed: ">"}, count=count)
        return [id.decode() for _, entries in reply for id, _ in entries]

    async def commit(
        self, *writes: Write, highest: Entry | None = None, by: Any = None, publish: str = "PUBLISH"
    ) -> list[str]:
        """One call of the script; its words."""
        top = highest or max((entry for write in writes for entry in write.entries), key=_feed_order)
        keys = [self.feed, self.recent, self.working, self.stale, *(self.keys.row(write.session) for write in writes)]
        args = [GROUP, publish, self.keys.channel(""), top.id, top.session, top.position, top.op]
        for write in writes:
            args += [write.session, write.etag, write.recent, write.working, write.mark]
            args += map(str, map(len, (write.set, write.remove, write.frames, write.entries)))
            args += [text for pair in write.set.items() for text in pair]
            args += [*write.remove, *write.frames]
        args += [entry.id for write in writes for entry in write.entries]
        reply = await (by or self.redis).eval(SCRIPT, len(keys), *keys, *args)
        return [word.decode() for word in reply]

    async def row(self, session: str) -> dict[str, str]:
        """The stored row."""
        fields = await self.redis.hgetall(self.keys.row(session))
        return {name.decode(): value.decode() for name, value in fields.items()}

    async def pending(self) -> list[str]:
        """Ids that wait for their acknowledgement."""
        found = await self.redis.xpending_range(self.feed, GROUP, "-", "+", 100_000)
        return [entry["message_id"].decode() for entry in found]

    async def left(self) -> list[str]:
        """Ids that stand in the feed."""
        return [id.decode() for id, _ in await self.redis.xrange(self.feed)]


def _feed_order(entry: Entry) -> tuple[int, ...]:
    return tuple(map(int, entry.id.split("-")))
