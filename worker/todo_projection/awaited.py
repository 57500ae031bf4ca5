"""Rows that were asked to be folded again, until they are."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from todo_projection.beats import BEATS_MISSED_MAX, somebody_works
from todo_projection.look import Look, Standing, look_at
from todo_projection.wire import Wire
from todo_write.events import Keys, Position

LOOKS_PER_TRIP = 500
LOOK_S = 0.1


class _Wish(NamedTuple):
    tail: Position | None
    units: Collection[str]


class Awaited:
    """Sessions asked for and not done yet; ``failed`` says why of those that never will be. Raises redis errors."""

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self.failed: dict[str, str] = {}
        self.done = 0
        self._wire = wire
        self._keys = keys
        self._wishes: dict[str, _Wish] = {}

    def __len__(self) -> int:
        return len(self._wishes)

    def add(self, looks: Iterable[Look], units: Collection[str]) -> None:
        """Wait for these to get where their logs ended when they were asked for, with these units folded."""
        for look in looks:
            self._wishes[look.session] = _Wish(look.tail, units)

    async def wait(self, *, left_max: int = 0, beat_ms: int, told: Callable[[], None]) -> bool:
        """Return once at most so many are left; False when no worker is beating, so that nothing moves.

        ``told`` is called after each look. One may be missing for as long as it takes to notice that it has died.
        """
        clock = asyncio.get_running_loop().time
        patience_s, worked_at = beat_ms * BEATS_MISSED_MAX / 1000, clock()
        while len(self) > left_max:
            await self.look()
            told()
            if len(self) <= left_max:
                break
            if await somebody_works(self._wire, self._keys, beat_ms=beat_ms):
                worked_at = clock()
            elif clock() - worked_at > patience_s:
                return False
            await asyncio.sleep(LOOK_S)
        return True

    async def look(self) -> None:
        """Take off those that are done, or are gone."""
        sessions = list(self._wishes)
        for start in range(0, len(sessions), LOOKS_PER_TRIP):
            for look in await look_at(self._wire, self._keys, sessions[start : start + LOOKS_PER_TRIP]):
                self._settle(look, self._wishes[look.session])

    def _settle(self, look: Look, wish: _Wish) -> None:
        if look.standing is Standing.BROKEN:
            self.failed[look.session] = look.why
        elif look.tail is not None and not look.foldable:
            self.failed[look.session] = f"its log can't be folded: {look.foreign}"
        elif look.standing in (Standing.NOTHING, Standing.ORPHAN) or _is_folded(look, wish):
            self.done += 1
        else:
            return
        del self._wishes[look.session]


def _is_folded(look: Look, wish: _Wish) -> bool:
    if look.row is None or not look.versions or any(not look.versions.get(unit, 1) for unit in wish.units):
        return False
    return wish.tail is None or look.row >= wish.tail
