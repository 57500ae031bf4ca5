"""The explanation of one session: which event set each value, what waits in its feed, and what comes next."""

from collections.abc import Sequence
from typing import Any

import msgspec

from todo_projection.beats import read_beats, server_time
from todo_projection.look import Look, look_at
from todo_projection.marks import Marks, Stale
from todo_projection.row import CorruptRow, Row
from todo_projection.rows import is_wrong_type, read_row
from todo_projection.signature import NAME_END, read_signature
from todo_projection.unit import Unit
from todo_projection.wire import Wire
from todo_write.events import GROUP, Event, Keys, Unsound, decode_entry

POINTERS_LOOKED_AT_MAX = 100_000
POINTERS_SHOWN_MAX = 20
NEXT_SHOWN_MAX = 20
PAGE = 1000


class Cause(msgspec.Struct, frozen=True, rename="camel"):
    """The event that set a unit's value: ``time`` (epoch ms) is its writer's; None when it is not in the log."""

    position: str
    type: str | None
    time: int | None
    op: str | None


class Commit(msgspec.Struct, frozen=True):
    """The commit that last changed a published value or mark: its ``time`` (epoch ms, the server's) and its worker.

    The row has the second, and the end of the worker's name: ``…noM4`` where none, or many, of those that beat end so.
    """

    time: int
    worker: str


class Value(msgspec.Struct, frozen=True):
    """A unit in the row: its version there (0: to be folded anew), the event that set it (None: no event yet).

    ``committed`` is told of the published unit that changed last; of others the row does not keep it.
    """

    version: int
    cause: Cause | None
    committed: Commit | None = None


class Waiting(msgspec.Struct, frozen=True, rename="camel"):
    """A pointer in the feed: appended at ``since`` (epoch ms, the server's clock); ``consumer`` None: not yet read."""

    pointer: str
    position: str
    since: int
    consumer: str | None = None
    delivered: int = 0
    idle_ms: int = 0


class Next(msgspec.Struct, frozen=True):
    """An event behind the row, and the units that handle it."""

    seq: int
    type: str
    time: int
    units: list[str]


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that is known; times in epoch ms. ``lastEvent`` is the feed time of the last projected event.

    ``committed`` is the commit that ``rev`` names; None where no worker has signed it.

    ``waitingCount`` and ``nextCount`` may be more than what is shown; None: too many to be counted.
    """

    session_id: str
    now: int
    standing: str
    tail: str | None
    row: str | None
    rev: str | None
    committed: Commit | None
    last_event: int | None
    foreign: str
    partial: bool
    why: str
    values: dict[str, Value]
    stale: list[Stale]
    waiting: list[Waiting]
    waiting_count: int | None
    next: list[Next]
    next_count: int


class Explainer:
    """Reads what the store tells of a session; raises redis errors."""

    def __init__(self, wire: Wire, keys: Keys, units: Sequence[Unit]) -> None:
        self._wire = wire
        self._keys = keys
        self._units = units

    async def explain(self, session: str) -> Explanation:
        """The explanation now."""
        (look,) = await look_at(self._wire, self._keys, [session])
        row, why = Row(), look.why
        try:
            row = await read_row(self._wire, self._keys, session)
        except CorruptRow as error:
            why = str(error)
        waiting, count = await self._waiting(session)
        recent = self._keys.recent(self._keys.partition(session))
        score, by = await self._wire.pipeline([("ZSCORE", recent, session), ("HGET", self._keys.row(session), "by")])
        committed = None if not row.exists or is_wrong_type(by) else await self._commit(by)
        return Explanation(
            session_id=session,
            now=await server_time(self._wire),
            standing=str(look.standing),
            tail=_text(look.tail),
            row=_text(row.position) if row.exists else None,
            rev=_text(row.rev),
            committed=committed,
            last_event=None if score is None or is_wrong_type(score) else int(float(score)),
            foreign=look.foreign,
            partial=look.partial,
            why=why,
            values=await self._values(session, row, committed),
            stale=await Marks(self._wire, self._keys, self._units).of(session),
            waiting=waiting,
            waiting_count=count,
            next=await self._next(look, row),
            next_count=_next_count(look, row),
        )

    async def _commit(self, by: bytes | None) -> Commit | None:
        found = read_signature((by or b"").decode("utf-8", "replace"))
        if found is None:
            return None
        time, end = found
        names = [name for name in await read_beats(self._wire, self._keys) if name.endswith(end)]
        if len(names) == 1:
            return Commit(time, names[0])
        return Commit(time, end if len(end) > NAME_END else f"…{end}")

    async def _values(self, session: str, row: Row, committed: Commit | None) -> dict[str, Value]:
        at = [(key, cell.at) for key, cell in sorted(row.cells.items())]
        log = self._keys.log(session)
        replies = await self._wire.pipeline(
            [("XRANGE", log, str(place or "0-1"), str(place or "0-1")) for _, place in at]
        )
        values, newest = dict[str, Value](), self._newest(row)
        for (key, place), reply in zip(at, replies, strict=True):
            cause = None
            if place is not None:
                cause = Cause(str(place), None, None, None)
                if not is_wrong_type(reply) and reply:
                    cause = _cause(str(place), reply[0])
            values[key] = Value(row.versions[key], cause, committed if key in newest else None)
        return values

    def _newest(self, row: Row) -> list[str]:
        """The published units that were changed by the last of all events that changed one."""
        cells = {unit.key: row.cells[unit.key] for unit in self._units if unit.published and unit.key in row.cells}
        last = max((cell.at for cell in cells.values() if cell.at is not None), default=None)
        return [key for key, cell in cells.items() if cell.at == last]

    async def _waiting(self, session: str) -> tuple[list[Waiting], int | None]:
        """The session's pointers in its feed, the first of them in full, and how many there are."""
        feed, name = self._keys.feed(self._keys.partition(session)), session.encode()
        found: list[tuple[bytes, str]] = []
        start, looked_at = "-", 0
        while looked_at < POINTERS_LOOKED_AT_MAX:
            (page,) = await self._wire.pipeline([("XRANGE", feed, start, "+", "COUNT", PAGE)])
            if is_wrong_type(page):
                break
            for id, fields in page:
                told = dict(zip(fields[::2], fields[1::2], strict=True))
                if told.get(b"s") == name:
                    found.append((id, told.get(b"i", b"").decode("utf-8", "replace")))
            looked_at += len(page)
            if len(page) < PAGE:
                return await self._delivered(feed, found[:POINTERS_SHOWN_MAX]), len(found)
            start = f"({page[-1][0].decode()}"
        return await self._delivered(feed, found[:POINTERS_SHOWN_MAX]), None

    async def _delivered(self, feed: str, pointers: Sequence[tuple[bytes, str]]) -> list[Waiting]:
        replies = await self._wire.pipeline([("XPENDING", feed, GROUP, id, id, 1) for id, _ in pointers])
        waiting: list[Waiting] = []
        for (id, position), reply in zip(pointers, replies, strict=True):
            one = Waiting(id.decode(), position, int(id.partition(b"-")[0]))
            if not isinstance(reply, Exception) and reply:  # without a group nobody has read it
                _, consumer, idle_ms, times = reply[0]
                one = msgspec.structs.replace(one, consumer=consumer.decode(), delivered=times, idle_ms=idle_ms)
            waiting.append(one)
        return waiting

    async def _next(self, look: Look, row: Row) -> list[Next]:
        if not _next_count(look, row):
            return []
        start = "-" if not _is_on(look, row) else f"({row.position}"
        log = self._keys.log(look.session)
        (reply,) = await self._wire.pipeline([("XRANGE", log, start, "+", "COUNT", NEXT_SHOWN_MAX)])
        events: list[Event] = []
        for id, fields in () if is_wrong_type(reply) else reply:
            try:
                events.append(decode_entry(id, fields).event)
            except Unsound:
                break
        return [Next(one.seq, one.type, one.time, self._handling(one.type)) for one in events]

    def _handling(self, type: str) -> list[str]:
        return [unit.key for unit in self._units if type in unit.handles]


def _cause(position: str, stored: Any) -> Cause:
    try:
        _, op, event = decode_entry(*stored)
    except Unsound:
        return Cause(position, None, None, None)
    return Cause(position, event.type, event.time, op)


def _next_count(look: Look, row: Row) -> int:
    """How many events come next; none of a log that is not folded until an operator adopts it."""
    if look.tail is None:
        return 0
    if row.position is not None and _is_on(look, row):
        return max(0, look.tail.seq - row.position.seq)
    return look.length if look.foldable else 0


def _is_on(look: Look, row: Row) -> bool:
    """Whether the row has events of just this log in it; otherwise all of the log come next."""
    at, tail = row.position, look.tail
    return at is not None and at.seq >= 0 and tail is not None and at.epoch == tail.epoch


def _text(value: object) -> str | None:
    return None if value is None else str(value)
