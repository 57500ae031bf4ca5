"""Pages of a session's history: events backwards from the projected position, and the values at any position."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import msgspec

from todo_projection.fold import Fold
from todo_projection.frames import Baseline, Mark, Page
from todo_projection.refusal import away, bad, no_session
from todo_projection.row import Row
from todo_projection.rows import read_row
from todo_projection.tail import entry_of
from todo_projection.unit import Unit
from todo_projection.wire import Wire, settled
from todo_write.events import Entry, Event, Keys, Position
from todo_write.log import Client

PAGE_BYTES = 4 * 1024 * 1024  # what a page, and each read of a fold, aims at; both are one event at least
STEP_EVENTS = 16
FOLD_EVENTS_MAX = 1000
FOLDS_MAX = 2
FOLD_S = 10.0


class _Place(NamedTuple):
    """Where a session's history is, and what is projected of it."""

    session: str
    log: str
    row: Row
    epoch: int | None


class Pages:
    """Reads histories; raises Refusal, CorruptRow, and redis errors, which are for the client to repeat."""

    def __init__(self, client: Client, wire: Wire, units: Sequence[Unit]) -> None:
        self._client = client
        self._wire = wire
        self._units = units
        self._folding = asyncio.Semaphore(FOLDS_MAX)

    async def tail(self, session: str, limit: int) -> Page:
        """The newest events that are projected, and the values they led to: the page ends where its projection does."""
        place = await self._place(session)
        projections = place.row.baseline(session)
        if place.row.position is None or not place.row.exists:
            return Page([], has_more=False, projections=projections)
        events, has_more = await self._back(place.log, str(place.row.position), limit)
        return Page(events, has_more, projections)

    async def before(self, session: str, seq: int, limit: int) -> Page:
        """The events before ``seq``."""
        place = await self._place(session)
        if place.epoch is None or seq == 0:
            return Page([], has_more=False)
        events, has_more = await self._back(place.log, f"{place.epoch}-{seq - 1}", limit)
        return Page(events, has_more)

    async def at(self, session: str, seq: int, limit: int) -> Page:
        """The events up to ``seq``, and the values they led to, folded from the start of the log."""
        place = await self._place(session)
        if place.epoch is None:
            raise bad(f"nothing of session {session!r} is in its log", str(seq), "no atSeq")
        end = Position(place.epoch, seq)
        try:
            async with asyncio.timeout(FOLD_S), self._folding:
                projections = await self._fold(place, end)
        except TimeoutError:
            raise away(f"the log of session {session!r} is not folded up to {seq} in time", retry_s=30) from None
        events, has_more = await self._back(place.log, str(end), limit)
        return Page(events, has_more, projections)

    async def at_time(self, session: str, time_ms: int, limit: int) -> Page:
        """The same up to the last event that is not younger than a time (epoch ms), by the clocks of the writers.

        Those are taken to rise along the log; where they do not, it is one of the places where they pass that time.
        """
        place = await self._place(session)
        if place.epoch is None:
            raise bad(f"nothing of session {session!r} is in its log", str(time_ms), "no atTime")
        return await self.at(session, await self._last_by(place, place.epoch, time_ms), limit)

    async def _last_by(self, place: _Place, epoch: int, time_ms: int) -> int:
        """The seq of the last event up to a time, by halving the log."""
        ends = [("XRANGE", place.log, "-", "+", "COUNT", 1), ("XREVRANGE", place.log, "+", "-", "COUNT", 1)]
        oldest, newest = map(_entries, settled(await self._wire.pipeline(ends)))
        if not oldest or not newest or oldest[0].event.time > time_ms:
            begins = f"{oldest[0].event.time} or later" if oldest else "no atTime"
            raise bad("atTime is before the log begins", str(time_ms), begins)
        low, high = oldest[0].event.seq, newest[0].event.seq
        while low < high:
            middle = (low + high + 1) // 2
            range_ = f"{epoch}-{middle}", f"{epoch}-{high}"
            found = _entries(await self._wire.command("XRANGE", place.log, *range_, "COUNT", 1))
            if found and found[0].event.time <= time_ms:
                low = found[0].event.seq
            else:
                high = middle - 1
        return low

    async def _place(self, session: str) -> _Place:
        keys: Keys = await self._client.keys(create=False)
        log, row = keys.log(session), await read_row(self._wire, keys, session)
        if row.exists and row.position is not None:
            return _Place(session, log, row, row.position.epoch)
        last = await self._wire.command("XREVRANGE", log, "+", "-", "COUNT", 1)
        if not last:
            raise no_session(session)
        entry = entry_of(last[0])
        return _Place(session, log, Row(), None if entry is None else entry.position.epoch)

    async def _back(self, log: str, end: str, limit: int) -> tuple[list[Event], bool]:
        """Up to ``limit`` events up to the id ``end``, oldest first; whether there are more before them."""
        found: list[Entry] = []
        size = 0
        while len(found) <= limit:
            count = min(STEP_EVENTS, limit + 1 - len(found))
            raws = await self._wire.command("XREVRANGE", log, end, "-", "COUNT", count)
            found += _entries(raws)
            size += _size(raws)
            if len(raws) < count:
                return _oldest_first(found), False
            if size >= PAGE_BYTES and len(found) > 1:
                limit = min(limit, len(found) - 1)
            end = f"({raws[-1][0].decode()}"
        return _oldest_first(found[:limit]), True

    async def _fold(self, place: _Place, end: Position) -> Baseline:
        folds = [Fold(unit, None, -1) for unit in self._units]
        first: Event | None = None
        last = -1
        async for entries in self._forward(place.log, end):
            for _, _, event in entries:
                first = first or event
                last = event.seq
                for fold in folds:
                    fold.take(end.epoch, event)
        if last < end.seq:
            raise bad("atSeq is beyond the end of the log", str(end.seq), f"0 to {last}")
        versions = {unit.key: unit.state_version for unit in self._units}
        cells = {fold.unit.key: fold.cell() for fold in folds}
        baseline = Row("", end, None, cells, versions).baseline(place.session)
        if first is None or first.seq == 0:
            return baseline
        missing = Mark(first.seq, f"the log begins at event {first.seq}: what came before is not in it", first.time)
        return msgspec.structs.replace(baseline, stale=dict.fromkeys(baseline.values, missing) | baseline.stale)

    async def _forward(self, log: str, end: Position) -> AsyncIterator[list[Entry]]:
        start, count = f"{end.epoch}-0", STEP_EVENTS
        while raws := await self._wire.command("XRANGE", log, start, str(end), "COUNT", count):
            yield _entries(raws)
            if len(raws) < count:
                return
            start = f"({raws[-1][0].decode()}"
            count = max(1, min(PAGE_BYTES * len(raws) // (_size(raws) + 1), FOLD_EVENTS_MAX))


def _entries(raws: Any) -> list[Entry]:
    return [entry for entry in map(entry_of, raws) if entry is not None]


def _size(raws: Any) -> int:
    return sum(len(field) for _, fields in raws for field in fields)


def _oldest_first(entries: Sequence[Entry]) -> list[Event]:
    return [entry.event for entry in reversed(entries)]
