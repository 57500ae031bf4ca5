"""Retention: dropping sessions that have been idle for long, and trimming logs to what every unit still needs.

Nothing here happens by itself. What a unit needs is not guessed: a trim is done only where folding what would be left
gives exactly the row that is stored, states included.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec

from todo_projection.beats import server_time
from todo_projection.census import START, Census
from todo_projection.fold import Fold, adopt
from todo_projection.history import History
from todo_projection.look import Look, Standing, look_at
from todo_projection.row import TOKEN_LENGTH, CorruptRow, Row
from todo_projection.rows import is_wrong_type, read_row
from todo_projection.span import Pointer, Span
from todo_projection.unit import Unit
from todo_projection.wire import Call, Script, Wire, settled
from todo_write.events import Entry, Keys, Position, token
from todo_write.log import TOMBSTONE_MS

PAGE = 200
ENTRIES_PER_CALL = 5000  # what a trim looks at in one call: some 25 ms of the server's time

_delete = Script("delete", package="todo_write")
_trim = Script("trim")


class Idle(msgspec.Struct, frozen=True):
    """A session whose last event is older than asked; ``why`` says why it stays all the same, '' when it may go."""

    session: str
    last_ms: int
    tail: Position | None
    why: str = ""


class Cut(msgspec.Struct, frozen=True):
    """What a log can do without: ``removed`` events before ``first`` but for those ``kept``; None: all are needed.

    ``why`` says what must be put in order before anything can be taken out, '' otherwise.
    """

    session: str
    why: str = ""
    first: Position | None = None
    kept: Sequence[Position] = ()
    removed: int = 0
    etag: bytes = b""


class Retention:
    """Finds what may go, and takes it away; raises redis errors."""

    def __init__(self, wire: Wire, keys: Keys, units: Sequence[Unit]) -> None:
        self._wire = wire
        self._keys = keys
        self._units = units
        self._versions = {unit.key: unit.state_version for unit in units}
        self._history = History(wire, keys)
        # Types that leave something behind which later events do not replace: the last one of each may be needed.
        self._lasting = frozenset[str]().union(*(unit.handles - unit.heals_on for unit in units))

    async def idle(self, idle_ms: int) -> AsyncGenerator[list[Idle]]:
        """Sessions without an event for longer than ``idle_ms``, by the server's clock and the board's index."""
        before = await server_time(self._wire) - idle_ms
        for partition in range(self._keys.partitions):
            start: str | int = "-inf"
            seen: set[str] = set()
            while True:
                limits = ("BYSCORE", "LIMIT", 0, PAGE + len(seen), "WITHSCORES")
                (reply,) = await self._wire.pipeline(
                    [("ZRANGE", self._keys.recent(partition), start, f"({before}", *limits)]
                )
                flat: Sequence[Any] = () if is_wrong_type(reply) else reply
                found = {
                    name.decode("utf-8", "replace"): int(float(at))
                    for name, at in zip(flat[::2], flat[1::2], strict=True)
                }
                page = {session: at for session, at in found.items() if session not in seen}
                if not page:
                    break
                yield await self._idle(page)
                start = max(page.values())
                seen = {session for session, at in found.items() if at == start}

    async def drop(self, idle: Sequence[Idle], publish: str) -> list[bool]:
        """Delete these sessions, log and values; False for one that has had an event since it was looked at."""
        calls: list[Call] = []
        for one in idle:
            session, partition, keys = one.session, self._keys.partition(one.session), self._keys
            names = [keys.log(session), keys.row(session)]
            names += [keys.recent(partition), keys.working(partition), keys.stale(partition)]
            epoch = "" if one.tail is None else str(one.tail.epoch)
            told = [session, token(), publish, keys.channel(session), str(TOMBSTONE_MS), epoch, str(one.tail or "")]
            calls.append((names, told))
        return [reply == b"deleted" for reply in settled(await _delete.call_all(self._wire, calls))]

    async def cuts(self, keep_events: int) -> AsyncGenerator[list[Cut]]:
        """What each log with more than ``keep_events`` events can do without."""
        census, cursor = Census(self._wire, self._keys), START
        while True:
            found = await census.page(cursor, PAGE)
            looks = await look_at(self._wire, self._keys, found.sessions)
            yield [await self.cut(look, keep_events) for look in looks if look.length > keep_events]
            if found.cursor is None:
                return
            cursor = found.cursor

    async def cut(self, look: Look, keep_events: int) -> Cut:
        """What one log can do without: as much as asked or less, so that every unit keeps what its state is made of."""
        if look.standing is not Standing.EVEN or look.tail is None:
            return Cut(look.session, f"its row is {look.standing}, not even with its log")
        if not look.foldable:
            return Cut(look.session, f"its log is {look.lack}: {look.foreign}")
        try:
            row = await read_row(self._wire, self._keys, look.session)
        except CorruptRow as error:
            return Cut(look.session, str(error))
        if row.etag.encode() != look.etag or row.versions != self._versions:
            return Cut(look.session, "it changes just now, or some unit is to be folded anew first")
        keep = max(1, keep_events)
        while keep < look.length:
            first = Position(look.tail.epoch, look.tail.seq - keep + 1)
            kept, removed = await self._rest(look, first)
            if not removed:
                break
            if await self._is_enough(look, row, kept, first):
                return Cut(look.session, "", first, [entry.position for entry in kept], removed, look.etag)
            keep *= 2
        return Cut(look.session)

    async def trim(self, cut: Cut) -> int | None:
        """Take the events out; how many, None when the session has changed since it was looked at."""
        removed, etag = 0, cut.etag
        if cut.first is None:
            return 0
        while True:
            args = [
                etag,
                token().encode() + cut.etag[TOKEN_LENGTH:],
                str(cut.first),
                str(ENTRIES_PER_CALL),
                *map(str, cut.kept),
            ]
            names = [self._keys.log(cut.session), self._keys.row(cut.session)]
            (reply,) = settled(await _trim.call_all(self._wire, [(names, args)]))
            if reply[0] == b"conflict":
                return removed or None
            removed, etag = removed + int(reply[1]), b""
            if reply[0] == b"done":
                return removed

    async def _idle(self, page: dict[str, int]) -> list[Idle]:
        looks = await look_at(self._wire, self._keys, list(page))
        even = (Standing.EVEN, Standing.NOTHING)
        return [
            Idle(
                look.session,
                page[look.session],
                look.tail,
                "" if look.standing in even else f"its row is {look.standing}, not even with its log",
            )
            for look in looks
        ]

    async def _rest(self, look: Look, first: Position) -> tuple[list[Entry], int]:
        """Before ``first``: the last event of each type that may leave something behind, and the number of others."""
        lasting: dict[str, Entry] = {}
        count = 0
        async for page in self._history.standing(_span(look.session, first._replace(seq=first.seq - 1))):
            count += len(page)
            lasting.update((entry.event.type, entry) for entry in page if entry.event.type in self._lasting)
        return sorted(lasting.values(), key=lambda entry: entry.position), count - len(lasting)

    async def _is_enough(self, look: Look, row: Row, kept: Sequence[Entry], first: Position) -> bool:
        """Whether what would be left folds into the row as it is."""
        folds = [Fold(unit, None, -1) for unit in self._units]
        adopt(folds, kept)
        if look.tail is None:
            return False
        async for page in self._history.standing(_span(look.session, look.tail), start=str(first)):
            adopt(folds, page)
        return all(row.cells.get(fold.unit.key) == fold.cell() for fold in folds)


def _span(session: str, last: Position) -> Span:
    return Span(session, [Pointer(b"0-0", session, *last, b"", "")])
