"""What a fold changes: fields of the row, frames, entries of the indexes. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from todo_projection.fold import Fold, marked
from todo_projection.frames import Frame, Mark, Rev, encode
from todo_projection.row import PRESUMED_NEW, WRONG_TYPE, Cell, Row, cell_changes, cell_names, encode_versions
from todo_projection.span import Gap, Pointer, Span
from todo_projection.unit import Unit
from todo_write.events import CANARY, Position


class Change(msgspec.Struct, frozen=True):
    """What is to be written for one session, provided that its row's etag is still ``etag``.

    ``recent_ms``, ``working`` and ``mark`` leave their index alone when ''; '-' removes the session from it. ``after``
    is the row as it will stand; None when only pointers are acknowledged.
    """

    session: str
    etag: str
    pointers: Sequence[Pointer]
    after: Row | None = None
    recent_ms: str = ""
    working: str = ""
    mark: str = ""
    set: Mapping[str, bytes] = msgspec.field(default_factory=dict[str, bytes])
    remove: Sequence[str] = ()
    frames: Sequence[bytes] = ()
    warning: str = ""  # to be logged once it is committed


def acknowledged(span: Span, row: Row) -> Change:
    """Nothing but the pointers: the row is where they point, or beyond."""
    return Change(span.session, row.etag, span.pointers)


def advanced(span: Span, row: Row, etag: str) -> Change:
    """Nothing but the position of a row, and its new etag: no unit handles what came."""
    etag += span.op
    after = Row(etag, span.last, row.rev, row.cells, row.versions, row.partial)
    fields = {"etag": etag.encode(), "pos": b"%d-%d" % span.last}
    return Change(span.session, row.etag, span.pointers, after, recent_ms=_recent_ms(span, span.time_ms), set=fields)


def _recent_ms(span: Span, ms: int) -> str:
    """What the index of sessions says; lists and boards are made of it, and the canary is in none."""
    return "" if span.session == CANARY else str(ms)


class Beginning:
    """The first row of a session without an event that a unit handles: the same for all but for position and etag."""

    def __init__(self, units: Sequence[Unit], versions: Mapping[str, int]) -> None:
        self._units = units
        self._versions = versions
        self._cells = _initial(units)
        row = Row("", None, None, self._cells, versions)
        self._set, _ = _fields(Row(), row)
        self._working = _working(Row(), row)
        self._is_told = any(unit.published and _is_news(Row(), unit.key, self._cells[unit.key]) for unit in units)

    def change(self, span: Span, etag: str, *, by: bytes) -> Change:
        """That row, made by a fold only where a frame goes with it.

        With neither row nor log read for it, and new rows looked for all at once: 40 000 events of 60 000 sessions took
        less than half of the worker's time and two thirds of the server's.
        """
        if self._is_told:
            folds = [Fold(unit, None, -1) for unit in self._units]
            change = folded(span, PRESUMED_NEW, folds, self._versions, etag)
            return msgspec.structs.replace(change, set={**change.set, "by": by}) if by else change
        after = Row(etag + span.op, span.last, Rev(1, etag), self._cells, self._versions)
        raw = etag.encode()
        fields = {**self._set, "etag": raw + span.op.encode(), "pos": b"%d-%d" % span.last, "rev": b"1-" + raw}
        if by:
            fields["by"] = by
        return Change(
            span.session,
            PRESUMED_NEW.etag,
            span.pointers,
            after,
            recent_ms=_recent_ms(span, span.time_ms),
            working=self._working,
            mark="-",
            set=fields,
        )


def folded(
    span: Span,
    row: Row,
    folds: Sequence[Fold],
    versions: Mapping[str, int],
    etag: str,
    *,
    anew_ms: int | None = None,
) -> Change:
    """What folds up to the span's last event make of a row; ``versions`` of all mounted units. Raises CorruptCell.

    ``anew_ms``: some unit was folded from the start of the log, whose last event is of that time (epoch ms). Then the
    indexes are written anew as well, and no pointer of now makes the session look as if it had just had an event.
    """
    turned = [_Turned(fold.unit, fold.cell(), fold.time) for fold in folds]
    change = _change(span, row, turned, _Reached(span.last, span.op), versions, etag)
    if anew_ms is None or change.after is None:
        return change
    return msgspec.structs.replace(change, recent_ms=_recent_ms(span, anew_ms), mark=_marks_text(change.after))


def unfoldable(span: Span, row: Row, units: Sequence[Unit], versions: Mapping[str, int], etag: str, gap: Gap) -> Change:
    """A mark on every stored unit, for a log that can't be folded; position and values stay where they are.

    A row that is not there yet is made, without a value of any event.
    """
    if row.exists and row.position is not None:
        turned = _all_marked(span, row.cells, units, gap)
        if all(row.cells[one.unit.key] == one.cell for one in turned):
            return acknowledged(span, row)
        change = _change(span, row, turned, _Reached(row.position, row.op), row.versions, etag)
    else:
        turned = _all_marked(span, _initial(units), units, gap)
        change = _change(span, row, turned, _Reached(Position(span.last.epoch, -1), ""), versions, etag)
    return msgspec.structs.replace(change, warning=f"is not folded: {gap}")


def skipped(span: Span, row: Row, units: Sequence[Unit], versions: Mapping[str, int], etag: str, reason: str) -> Change:
    """A mark on every unit for events that are not even to be tried; the position goes past them, values stay."""
    if row is WRONG_TYPE or (row.position is not None and row.position >= span.last):
        return acknowledged(span, row)
    gap, reached = Gap(min(span.types), reason), _Reached(span.last, span.op)
    if row.exists and row.position is not None and row.position.epoch == span.last.epoch:
        return _change(span, row, _all_marked(span, row.cells, units, gap), reached, row.versions, etag)
    return _change(span, row, _all_marked(span, _initial(units), units, gap), reached, versions, etag)


def _initial(units: Sequence[Unit]) -> dict[str, Cell]:
    return {unit.key: Fold(unit, None, -1).cell() for unit in units}


def _all_marked(span: Span, cells: Mapping[str, Cell], units: Sequence[Unit], gap: Gap) -> "list[_Turned]":
    return [
        _Turned(unit, _with_mark(cells[unit.key], gap, span.time_ms), span.time_ms)
        for unit in units
        if unit.key in cells
    ]


class _Reached(NamedTuple):
    """The last event a row covers: its position, and its op ('' where nothing tells it)."""

    position: Position
    op: str


class _Turned(NamedTuple):
    """A unit, its cell as it will stand, and the time (epoch ms) of what made it so."""

    unit: Unit
    cell: Cell
    time: int


def _with_mark(cell: Cell, gap: Gap, time: int) -> Cell:
    return msgspec.structs.replace(cell, mark=marked(cell.mark, gap.seq, str(gap), time))


def _change(
    span: Span, row: Row, turned: Sequence[_Turned], reached: _Reached, versions: Mapping[str, int], etag: str
) -> Change:
    position = reached.position
    told = [one for one in turned if one.unit.published and _is_news(row, one.unit.key, one.cell)]
    rev = row.rev
    if told or not row.exists:
        rev = Rev(1 if rev is None else rev.n + 1, etag)
    partial = row.partial and (row.position is None or row.position.epoch == position.epoch)
    after = Row(etag + reached.op, position, rev, {one.unit.key: one.cell for one in turned}, versions, partial)
    set, remove = _fields(row, after)
    return Change(
        span.session,
        row.etag,
        span.pointers,
        after,
        recent_ms=_recent_ms(span, span.time_ms),
        working=_working(row, after),
        mark=_mark(row, after),
        set=set,
        remove=remove,
        frames=[encode(_frame(span, one, after)) for one in told],
    )


def _is_news(row: Row, key: str, cell: Cell) -> bool:
    """Whether readers must be told: value or mark is another, or an equal value was written by a newer event."""
    before = row.cells.get(key)
    if cell is before:
        return False
    value, mark, at = (b"null", None, None) if before is None else (before.value, before.mark, before.at)
    if (cell.value, cell.mark) != (value, mark):
        return True
    if value == b"null" or cell.at is None or cell.at == at:
        return False
    return row.position is None or cell.at > row.position


def _fields(row: Row, after: Row) -> tuple[dict[str, bytes], list[str]]:
    """Fields of the row to set, and those to remove."""
    set = {"etag": after.etag.encode(), "pos": str(after.position).encode()}
    remove: list[str] = ["partial"] if row.partial and not after.partial else []
    if after.rev is not None and after.rev != row.rev:
        set["rev"] = str(after.rev).encode()
    if after.versions != row.versions:
        set["units"] = encode_versions(after.versions).encode()
    for key in row.cells.keys() - after.cells.keys():
        remove += cell_names(key, row.cells[key])
    for key, cell in after.cells.items():
        before = row.cells.get(key)
        if cell is not before:
            changed, absent = cell_changes(key, before, cell)
            set |= changed
            remove += absent
    return set, remove


def _frame(span: Span, turned: _Turned, row: Row) -> Frame:
    assert row.position is not None and row.rev is not None  # noqa: PT018, S101 - a change is always somewhere
    cell = turned.cell
    return Frame(
        session_id=span.session,
        key=turned.unit.key,
        value=msgspec.Raw(cell.value),
        seq=(cell.at or row.position).seq,
        epoch=row.position.epoch,
        rev=str(row.rev),
        state_version=cell.version,
        time=turned.time or span.time_ms,  # no event did it: the log that held the last value is gone
        stale=msgspec.UNSET if cell.mark is None else cell.mark,
    )


def _working(row: Row, after: Row) -> str:
    """Since when an item is in progress, for the index, as the unit ``board`` tells."""
    cell = after.cells.get("board")
    if cell is None or cell is row.cells.get("board"):
        return ""
    since = working_since(cell)
    return "-" if since is None else str(since)


def working_since(board: Cell) -> int | None:
    """Since when (epoch ms) an item is in progress, as the unit ``board`` tells; None when none is."""
    return _since.decode(board.value).since


def _mark(row: Row, after: Row) -> str:
    """What the index of stale sessions says; of a row that was not there, it may say anything so far."""
    return "" if row.exists and _marks(after) == _marks(row) else _marks_text(after)


def _marks_text(row: Row) -> str:
    marks = _marks(row)
    return msgspec.json.encode(marks).decode() if marks else "-"


def _marks(row: Row) -> dict[str, Mark]:
    return {key: cell.mark for key, cell in row.cells.items() if cell.mark is not None}


class _Since(msgspec.Struct):
    since: int | None = None


_since = msgspec.json.Decoder(_Since)
