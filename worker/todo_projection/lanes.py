"""Lanes: the feeds in parts that are read side by side, and the watch over feeds that are another worker's."""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from todo_projection.affinity import Affinity
from todo_projection.feed import Batch, Feeds

LANES = 3
LOOK_S = 0.5


class Lane(Protocol):
    """Part of the feeds. Raises redis errors, retried by the worker."""

    @property
    def is_behind(self) -> bool:
        """Whether the next read has more at once, as far as the last one tells."""
        ...

    async def read(self, within_s: float) -> Mapping[int, Batch]:
        """New pointers of partitions that no other lane gives, waiting no longer than that; {} when there are none."""
        ...


class Lanes:
    """New pointers of a worker's own feeds as they come, and of others' feeds when nobody seems to read them.

    While the server works for one lane, another is read and folded.
    """

    def __init__(self, feeds: Feeds, affinity: Affinity, *, count_max: int, block_ms: int) -> None:
        own = [Own(feeds, affinity, lane, count_max=count_max, block_ms=block_ms) for lane in range(feeds.lanes)]
        self.all: list[Lane] = [*own, Strays(feeds, affinity, count_max=count_max)]


class Own:
    """A lane of a worker's own feeds."""

    def __init__(self, feeds: Feeds, affinity: Affinity, lane: int, *, count_max: int, block_ms: int) -> None:
        self._feeds = feeds
        self._affinity = affinity
        self._lane = lane
        self._count_max = count_max
        self._block_ms = block_ms

    @property
    def is_behind(self) -> bool:
        """As ``Lane`` has it."""
        return self._feeds.is_behind(self._lane)

    async def read(self, within_s: float) -> Mapping[int, Batch]:
        """As ``Lane`` has it."""
        own = [p for p in self._affinity.own(_now()) if p % self._feeds.lanes == self._lane]
        block_ms = max(1, min(self._block_ms, int(within_s * 1000)))
        if not own:
            await asyncio.sleep(block_ms / 1000)
            return {}
        return await self._feeds.read(count_max=self._count_max, block_ms=block_ms, lane=self._lane, partitions=own)


class Strays:
    """Of others' feeds those that stand still, and again as long as they give something."""

    is_behind = False

    def __init__(self, feeds: Feeds, affinity: Affinity, *, count_max: int) -> None:
        self._feeds = feeds
        self._affinity = affinity
        self._count_max = count_max
        self._strays: list[int] = []

    async def read(self, within_s: float) -> Mapping[int, Batch]:
        """As ``Lane`` has it."""
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
