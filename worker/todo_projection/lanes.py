"""Lanes: the feeds in parts that are read side by side, and the watch over feeds that are another worker's."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from todo_projection.affinity import Affinity
from todo_projection.feed import Batch, Feeds

LANES = 2
LOOK_S = 0.5

Read = Callable[[float], Awaitable[Mapping[int, Batch]]]


class Lanes:
    """New pointers of a worker's own feeds as they come, and of others' feeds when nobody seems to read them.

    Each of ``reads`` gives pointers of partitions that no other one gives, waiting for them no longer than it is told
    (seconds); {} when there are none. While the server works for one lane, another is read and folded. Raises redis
    errors, retried by the worker.
    """

    def __init__(self, feeds: Feeds, affinity: Affinity, *, count_max: int, block_ms: int) -> None:
        self._feeds = feeds
        self._affinity = affinity
        self._count_max = count_max
        self._block_ms = block_ms
        self._strays: list[int] = []
        self.reads: list[Read] = [partial(self._read, lane) for lane in range(feeds.lanes)]
        self.reads.append(self._read_strays)

    async def _read(self, lane: int, within_s: float) -> Mapping[int, Batch]:
        own = [p for p in self._affinity.own(_now()) if p % self._feeds.lanes == lane]
        block_ms = max(1, min(self._block_ms, int(within_s * 1000)))
        if not own:
            await asyncio.sleep(block_ms / 1000)
            return {}
        return await self._feeds.read(count_max=self._count_max, block_ms=block_ms, lane=lane, partitions=own)

    async def _read_strays(self, within_s: float) -> Mapping[int, Batch]:
        """Of others' feeds those that stand still, and again as long as they give something."""
        if not self._strays:
            await asyncio.sleep(min(LOOK_S, within_s))
            others = self._affinity.others(_now())
            self._strays = self._affinity.strays(await self._feeds.firsts(others), _now())
        if not self._strays:
            return {}
        batches = await self._feeds.read_at_once(self._strays, count_max=self._count_max)
        self._strays = list(batches)
        return batches


def _now() -> float:
    return asyncio.get_running_loop().time()
