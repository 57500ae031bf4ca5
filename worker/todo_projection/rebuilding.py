"""A rebuild as one run: ask, wait for the workers, and report."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import msgspec

from todo_projection.awaited import Awaited
from todo_projection.census import Census
from todo_projection.rebuild import Asked, Rebuild
from todo_projection.store import Store

AHEAD_MAX = 1000  # sessions asked for before workers have done the earlier ones: a feed is no place to wait in

Tell = Callable[[int, int], None]


class Goal(NamedTuple):
    """What is to be folded again, and how fast: ``units`` out of the ``mounted`` ones, ``rate_s`` sessions a second."""

    units: Collection[str]
    mounted: Mapping[str, int]
    beat_ms: int
    rate_s: float = 200.0
    restart: bool = False


class Report(msgspec.Struct):
    """What became of it: sessions asked for, folded again, still waiting because nobody works, failed and why.

    ``partial`` of those asked for have logs with holes, adopted or trimmed: folded from what is left. ``resumed``:
    so many had been asked for by an earlier run that was cut.
    """

    asked: int = 0
    folded: int = 0
    waiting: int = 0
    partial: int = 0
    resumed: int = 0
    failed: dict[str, str] = msgspec.field(default_factory=dict[str, str])

    @property
    def fine(self) -> bool:
        """Whether nothing is left to be done."""
        return not self.waiting and not self.failed

    def add(self, asked: Asked) -> None:
        """Count what was asked for."""
        self.asked += len(asked.looks)
        self.partial += sum(look.partial for look in asked.looks)
        self.failed.update(asked.refused)

    def end(self, awaited: Awaited) -> None:
        """Count what was done."""
        self.folded, self.waiting = awaited.done, len(awaited)
        self.failed.update(awaited.failed)


async def rebuild_one(store: Store, goal: Goal, session: str, *, partial: bool) -> Report:
    """Have one session folded again; raises redis errors."""
    report, awaited = Report(), Awaited(store.wire, store.keys)
    asked = await Rebuild(store.wire, store.keys, goal.units, goal.mounted).ask([session], partial=partial)
    report.add(asked)
    report.partial = report.partial or int(partial and bool(asked.looks))
    awaited.add(asked.looks, goal.units)
    await awaited.wait(beat_ms=goal.beat_ms, told=lambda: None)
    report.end(awaited)
    return report


async def rebuild_all(store: Store, goal: Goal, tell: Tell, say: Callable[[str], None]) -> Report:
    """Have every session folded again, from where an earlier run was cut; raises redis errors."""
    report, awaited = Report(), Awaited(store.wire, store.keys)
    rebuild = Rebuild(store.wire, store.keys, goal.units, goal.mounted)
    total = await Census(store.wire, store.keys).size()
    place = await rebuild.place(restart=goal.restart)
    report.resumed = place.count
    if place.count:
        say(f"going on where an earlier rebuild was cut, after {place.count} sessions; --restart begins anew")

    def told() -> None:
        tell(report.resumed + awaited.done + len(report.failed), total)

    works = True
    async for _, asked in rebuild.all(place, rate_s=goal.rate_s):
        report.add(asked)
        awaited.add(asked.looks, goal.units)
        told()
        if works:
            works = await awaited.wait(left_max=AHEAD_MAX, beat_ms=goal.beat_ms, told=told)
    await awaited.wait(beat_ms=goal.beat_ms, told=told)
    report.end(awaited)
    return report
