"""What stands in Redis for one session, looked at and set back without the code under test."""

import json
from typing import Any

from redis.asyncio import Redis

from todo_write.events import Keys

Fields = dict[str, str]


class Stored:
    """One session's keys. ``redis`` answers in bytes."""

    def __init__(self, redis: Redis, namespace: str, session: str, partitions: int = 64) -> None:
        self._redis: Any = redis  # redis-py types its answers for str and bytes alike
        self.session = session
        keys = Keys(namespace, partitions)
        partition = keys.partition(session)
        self.log, self.row, self.feed = keys.log(session), keys.row(session), keys.feed(partition)
        self.channel = keys.channel(session)
        self.recent, self.working, self.stale = keys.recent(partition), keys.working(partition), keys.stale(partition)

    async def entries(self) -> list[tuple[str, Fields]]:
        """The log: id and fields of each entry."""
        return [_text(entry) for entry in await self._redis.xrange(self.log)]

    async def ids(self) -> list[str]:
        """The log's positions."""
        return [id for id, _ in await self.entries()]

    async def pointers(self) -> list[Fields]:
        """The feed's pointers to this session."""
        pointers = [_text(entry)[1] for entry in await self._redis.xrange(self.feed)]
        return [pointer for pointer in pointers if pointer["s"] == self.session]

    async def contents(self) -> list[Any]:
        """Data of every entry, after a look at what must always hold: one epoch, no gap, one pointer each, in order."""
        entries = await self.entries()
        assert [id.partition("-")[2] for id, _ in entries] == [str(seq) for seq in range(len(entries))]
        assert len({id.partition("-")[0] for id, _ in entries}) <= 1
        pointers = [(pointer["i"], pointer["o"], pointer["t"]) for pointer in await self.pointers()]
        assert pointers == [(id, fields["op"], fields["type"]) for id, fields in entries]
        return [json.loads(fields["data"]) for _, fields in entries]

    async def copy(self) -> dict[str, bytes | None]:
        """Log, feed and row as they stand, for ``fail_over``."""
        return {key: await self._redis.dump(key) for key in (self.log, self.feed, self.row)}

    async def fail_over(self, copy: dict[str, bytes | None]) -> None:
        """A replica that had got no further than this copy is the primary now."""
        await self._redis.delete(*copy)
        for key, value in copy.items():
            if value is not None:
                await self._redis.restore(key, 0, value)


def _text(entry: tuple[bytes, dict[bytes, bytes]]) -> tuple[str, Fields]:
    id, fields = entry
    return id.decode(), {name.decode(): value.decode() for name, value in fields.items()}
