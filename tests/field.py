"""A namespace as writers and workers leave it, and what tests of the whole worker ask of it."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from oracle import Entries, expected_row, shown
from projecting import working
from running import Running
from todo_projection.commit import script as commit_script
from todo_projection.settings import Settings
from todo_projection.unit import Unit
from todo_projection.worker import Worker
from todo_write.events import GROUP, Keys
from todo_write.log import Client, SessionLog

COMMIT = commit_script.sha.encode()
WRITER = Path(__file__).with_name("writer_process.py")
PARTITIONS = 4
FOR_EVER_MS = 3_600_000
PLAN = {"todos": [{"content": "build", "status": "in_progress"}]}


class Field:
    """What writers and workers of one namespace leave in Redis."""

    def __init__(self, redis: Redis, namespace: str, partitions: int = PARTITIONS) -> None:
        self.redis: Any = redis  # redis-py types its answers for str and bytes alike
        self.keys = Keys(namespace, partitions)

    @property
    def feeds(self) -> list[str]:
        """The keys of all feeds."""
        return [self.keys.feed(partition) for partition in range(self.keys.partitions)]

    async def pending(self, consumer: str = "") -> int:
        """How many pointers are delivered and not acknowledged, of one consumer or of all."""
        pipe = self.redis.pipeline(transaction=False)
        for feed in self.feeds:
            pipe.xpending_range(feed, GROUP, "-", "+", 1000, consumer or None)
        return sum(map(len, await pipe.execute()))

    async def drained(self) -> bool:
        """Whether nothing is left in any feed."""
        return not any([await self.redis.xlen(feed) for feed in self.feeds])

    async def log(self, session: str) -> Entries:
        """The log, after a look at what must always hold: one epoch, no gap."""
        found = await self.redis.xrange(self.keys.log(session))
        assert [id.partition(b"-")[2] for id, _ in found] == [b"%d" % seq for seq in range(len(found))]
        assert len({id.partition(b"-")[0] for id, _ in found}) <= 1
        return [(id.decode(), {name.decode(): raw.decode() for name, raw in fields.items()}) for id, fields in found]

    async def row(self, session: str) -> dict[str, str]:
        """The stored row."""
        found = await self.redis.hgetall(self.keys.row(session))
        return {name.decode(): raw.decode() for name, raw in found.items()}

    async def assert_right(self, sessions: Iterable[str], *, up_to_date: bool = True) -> None:
        """Every row equals an independent fold of its log up to its position, which is the log's end if asked for."""
        for session in sessions:
            row, log = await self.row(session), await self.log(session)
            until = [id for id, _ in log].index(row["pos"]) + 1 if row else 0
            assert until == len(log) or not up_to_date, session
            assert not row or shown(row) == expected_row(log[:until]), session

    async def consumers(self) -> set[str]:
        """Everybody the groups know."""
        found: set[str] = set()
        for feed in self.feeds:
            if await self.redis.exists(feed) and await self.redis.xinfo_groups(feed):
                found |= {one["name"].decode() for one in await self.redis.xinfo_consumers(feed, GROUP)}
        return found


def quick(redis_url: str, namespace: str, **settings: object) -> Any:
    """A worker in this process that waits for nothing long, and whose mistakes no audit mends."""
    waits = {"beat_ms": 100, "claim_idle_ms": FOR_EVER_MS}
    return working(redis_url, namespace, **{**waits, "audit_rate": 0, **settings})


async def append(client: Client, session: str, count: int = 1, type: str = "todo/write", data: Any = PLAN) -> None:
    await SessionLog(client, session).append_all([(type, data)] * count)


def right(field: Field, *sessions: str) -> Callable[[], Awaitable[bool]]:
    """A condition: everything is projected, and right."""

    async def condition() -> bool:
        assert await field.drained()
        await field.assert_right(sessions)
        return True

    return condition


@asynccontextmanager
async def writing(redis_url: str, namespace: str, *, processes: int, sessions: int, events: int) -> AsyncGenerator[Any]:
    """Writer processes at work; the block gets a function that waits for their end."""
    each = sessions // processes
    writers = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, str(WRITER), redis_url, namespace), *map(str, (number * each, each, events))
        )
        for number in range(processes)
    ]

    async def written() -> None:
        assert [await writer.wait() for writer in writers] == [0] * processes

    try:
        yield written
    finally:
        for writer in writers:
            if writer.returncode is None:
                writer.kill()
                await writer.wait()


def worker(redis_url: str, namespace: str, units: list[Unit]) -> Worker:
    return Worker(Settings(redis_url=redis_url, namespace=namespace, block_ms=50, beat_ms=100, audit_rate=0), units)


async def pin(field: Field) -> None:
    """A pointer in every feed that nobody acknowledges, so that nothing is trimmed."""
    for partition, feed in enumerate(field.feeds):
        session = next(f"p{n}" for n in range(1000) if field.keys.partition(f"p{n}") == partition)
        await field.redis.xadd(feed, {"s": session, "i": "1-0", "o": "o", "t": "x"})
        await field.redis.xgroup_create(feed, GROUP, "0")
        await field.redis.xreadgroup(GROUP, "pin", {feed: ">"})
        await field.redis.xclaim(feed, GROUP, "pin", 0, ["0-1"], justid=True)


async def at(field: Field, session: str, seq: int) -> bool:
    pos = await field.redis.hget(field.keys.row(session), "pos")
    return pos is not None and pos.endswith(b"-%d" % seq)


async def only(field: Field, worker: Running) -> bool:
    return all(f"-{worker.pid}-" in name for name in await field.consumers())


async def knows(field: Field, names: set[str]) -> bool:
    return await field.consumers() == names


async def beats_again(field: Field, name: str) -> bool:
    raw = await field.redis.hget(field.keys.workers, name)
    seconds, micros = await field.redis.time()
    return raw is not None and seconds * 1000 + micros // 1000 - json.loads(raw)["at"] < 1000


def assert_rising(frames: list[dict[str, Any]]) -> None:
    newest: dict[str, tuple[int, int]] = {}
    for frame in frames:
        order = (frame["epoch"], int(frame["rev"].partition("-")[0]))
        assert order > newest.get(frame["sessionId"], (0, 0))
        newest[frame["sessionId"]] = order
    assert newest
