"""Vitals: how the whole is, asked of redis at the moment somebody wants to know, and never for long."""

import asyncio
import time
from typing import Any, NamedTuple

from redis.exceptions import RedisError, ResponseError

from todo_projection.status import Status, read_status
from todo_projection.wire import Wire
from todo_write.events import GROUP, Keys
from todo_write.log import Client, LayoutMismatch

ANSWER_S = 2.0
STANDING_S = 10.0


class Vitals(NamedTuple):
    """What was found; of a server that did not answer in time only ``redis_up`` is known.

    ``clock_offset_s`` is this machine's clock less the server's. ``unread`` and ``unfinished`` count feeds whose oldest
    event has stood there for ``STANDING_S``: nobody was given it, or somebody was and has not done it.
    """

    redis_up: bool = False
    status: Status | None = None
    clock_offset_s: float = 0.0
    unread: int = 0
    unfinished: int = 0


class Pulse:
    """Takes the vitals; those who ask at one time get one answer. Raises nothing of the server's."""

    def __init__(self, client: Client, wire: Wire, *, beat_ms: int, standing_s: float = STANDING_S) -> None:
        self._client = client
        self._wire = wire
        self._beat_ms = beat_ms
        self._standing_s = standing_s
        self._first: dict[int, tuple[bytes, float]] = {}  # by partition: a feed's oldest id, and since when it is that
        self._taking: asyncio.Task[Vitals] | None = None

    async def take(self) -> Vitals:
        """The vitals now, within ``ANSWER_S``."""
        if self._taking is None or self._taking.done():
            self._taking = asyncio.create_task(self._take())
        return await asyncio.shield(self._taking)

    async def _take(self) -> Vitals:
        try:
            async with asyncio.timeout(ANSWER_S):
                keys = await self._client.keys(create=False)
                status = await read_status(self._wire, keys, beat_ms=self._beat_ms)
                offset_s = await self._offset_s()
                return Vitals(True, status, offset_s, *await self._standing(keys))
        except (RedisError, OSError, TimeoutError, LayoutMismatch):
            return Vitals()  # which is what there is to tell; whoever works with this server says why

    async def _offset_s(self) -> float:
        asked = time.time()
        seconds, micros = await self._wire.command("TIME")
        return (asked + time.time()) / 2 - int(seconds) - int(micros) / 1e6

    async def _standing(self, keys: Keys) -> tuple[int, int]:
        """How many feeds do not move though something waits there: unread ones, and others."""
        feeds = [keys.feed(partition) for partition in range(keys.partitions)]
        commands = [
            part for feed in feeds for part in (("XRANGE", feed, "-", "+", "COUNT", 1), ("XINFO", "GROUPS", feed))
        ]
        replies = await self._wire.pipeline(commands)
        counts = [0, 0]
        for partition, (first, groups) in enumerate(zip(replies[::2], replies[1::2], strict=True)):
            if isinstance(first, Exception) or not first:
                self._first.pop(partition, None)
                continue
            id: bytes = first[0][0]
            if self._stood_s(partition, id) >= self._standing_s:
                counts[_was_given(groups, id)] += 1
        return counts[0], counts[1]

    def _stood_s(self, partition: int, id: bytes) -> float:
        now = time.monotonic()
        before, since = self._first.get(partition, (b"", now))
        if before != id:
            since = now
        self._first[partition] = id, since
        return now - since


def _was_given(groups: Any, id: bytes) -> bool:
    """Whether the group of the workers has got as far as this entry."""
    if isinstance(groups, ResponseError):
        return False
    for flat in groups:
        group = dict(zip(flat[::2], flat[1::2], strict=True))
        if group[b"name"] == GROUP.encode():
            return _order(group[b"last-delivered-id"]) >= _order(id)
    return False


def _order(id: bytes) -> tuple[int, int]:
    ms, _, seq = id.partition(b"-")
    return int(ms), int(seq)
