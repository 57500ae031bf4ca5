"""One step of the projection: read what a batch points at, fold it, commit it. No loops around it, no waiting."""

import logging
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from todo_projection.commit import Change, commit_call, script
from todo_projection.fold import Fold
from todo_projection.frames import Frame, Mark, Rev, encode
from todo_projection.history import Gap, History
from todo_projection.row import Cell, Row, cell_fields, encode_versions
from todo_projection.rows import Rows
from todo_projection.span import Pointer, Span, spans_of
from todo_projection.unit import Unit
from todo_projection.wire import Wire
from todo_write.events import Event, Keys, Position, token

logger = logging.getLogger(__name__)

Batches = Mapping[int, Sequence[Pointer]]


class Outdated(Exception):
    """A row holds a unit that is not mounted here, or a newer version of one: this worker must step down."""


@dataclass(slots=True)
class Outcome:
    """What became of a step: events committed, and the pointers whose session changed under the fold."""

    committed: int = 0
    published: int = 0
    conflicts: dict[int, list[Pointer]] = field(default_factory=dict[int, list[Pointer]])
    rewound: bool = False


class Projector:
    """Folds batches of pointers into rows with the mounted units.

    A commit whose row changed since it was read writes nothing; its pointers come back as conflicts, to be projected
    again from the row as it is then.
    """

    def __init__(self, wire: Wire, keys: Keys, units: Sequence[Unit], rows: Rows, *, publish: str = "PUBLISH") -> None:
        self._wire = wire
        self._keys = keys
        self._units = units
        self._versions = {unit.key: unit.state_version for unit in units}
        self._handled = frozenset[str]().union(*(unit.handles for unit in units))
        self._rows = rows
        self._history = History(wire, keys)
        self._publish = publish

    async def project(self, batches: Batches) -> Outcome:
        """Read, fold and commit; raises Outdated, or redis errors after which every pointer counts as pending."""
        spans = {partition: spans_of(batch) for partition, batch in batches.items()}
        rows = await self._rows.load(session for sessions in spans.values() for session in sessions)
        flat = [span for sessions in spans.values() for span in sessions.values()]
        events = await self._history.fetch((span, self._wanted(span, rows[span.session])) for span in flat)
        changes = {
            partition: [await self._fold(span, rows[span.session], events[span.session]) for span in sessions.values()]
            for partition, sessions in spans.items()
        }
        return await self._commit(changes)

    def _wanted(self, span: Span, row: Row) -> list[int]:
        """Seqs to fetch one by one: handled and pointed at, where the pointers reach from the row on without a gap."""
        after = _after(span, row)
        if after is None or self._stale_units(row) or not span.whole_after(after):
            return []
        return sorted(seq for seq, type in span.types.items() if seq > after and type in self._handled)

    def _stale_units(self, row: Row) -> list[Unit]:
        """Mounted units that the stored row lacks or holds in a lower version; raises Outdated for the reverse."""
        ahead = {key: version for key, version in row.versions.items() if version > self._versions.get(key, 0)}
        if ahead:
            raise Outdated(f"a row holds units {ahead}; mounted here: {self._versions}")
        return [unit for unit in self._units if row.exists and row.versions.get(unit.key) != unit.state_version]

    async def _fold(self, span: Span, row: Row, events: list[Event]) -> Change:
        after = _after(span, row)
        if after is None:
            return Change(span.session, row.etag, span.pointers)
        cells = (
            row.cells if row.exists and row.position and row.position.epoch == span.last.epoch else dict[str, Cell]()
        )
        refolded = {unit.key for unit in self._stale_units(row)} if cells else set[str]()
        folds = [
            Fold(unit, None, -1) if unit.key in refolded else Fold(unit, cells.get(unit.key), after)
            for unit in self._units
        ]
        position = span.last
        try:
            async for event in self._events(span, row, events, min(fold.after for fold in folds)):
                for fold in folds:
                    fold.take(position.epoch, event)
        except Gap as gap:
            logger.warning("session %s is not folded: %s", span.session, gap)
            position = Position(span.last.epoch, after)
            folds = [_marked(unit, cells.get(unit.key), gap, span) for unit in self._units]
        return self._change(span, row, folds, position, refolded)

    async def _events(self, span: Span, row: Row, events: list[Event], after: int) -> AsyncIterator[Event]:
        """The events to fold: those fetched with the batch, or the log itself where the pointers leave a gap."""
        wanted = self._wanted(span, row)
        if wanted or (_after(span, row) == after and span.whole_after(after)):
            self._history.check(span, events, wanted)
            for event in events:
                yield event
            return
        async for event in self._history.events(span, after):
            yield event

    def _change(
        self, span: Span, row: Row, folds: Sequence[Fold], position: Position, refolded: Collection[str]
    ) -> Change:
        etag = token()
        before = row.cells
        cells = {fold.unit.key: fold.cell() for fold in folds}
        told = [
            fold
            for fold in folds
            if fold.unit.published
            and _is_news(fold, before.get(fold.unit.key), cells[fold.unit.key], fold.unit.key in refolded)
        ]
        rev = row.rev
        if told or not row.exists:
            rev = Rev(1 if rev is None else rev.n + 1, etag)
        after = Row(etag, position, rev, cells, self._versions)
        change = Change(span.session, row.etag, span.pointers, after, recent_ms=str(span.time_ms))
        self._fields(change, row, after)
        change.frames = [encode(self._frame(span.session, fold, cells[fold.unit.key], after)) for fold in told]
        change.working = _working(before.get("board"), cells.get("board"))
        change.mark = _mark(before, cells)
        return change

    def _fields(self, change: Change, row: Row, after: Row) -> None:
        change.set = {"etag": after.etag.encode(), "pos": str(after.position).encode()}
        if after.rev is not None and after.rev != row.rev:
            change.set["rev"] = str(after.rev).encode()
        if row.versions != after.versions:
            change.set["units"] = encode_versions(after.versions).encode()
        remove: list[str] = []
        for key, cell in after.cells.items():
            old = row.cells.get(key)
            if cell is old:
                continue
            fields, absent = cell_fields(key, cell)
            stored = cell_fields(key, old)[0] if old is not None else {}
            change.set.update((name, raw) for name, raw in fields.items() if stored.get(name) != raw)
            remove += absent if not row.versions else [name for name in absent if name in stored]
        change.remove = remove

    def _frame(self, session: str, fold: Fold, cell: Cell, row: Row) -> Frame:
        assert row.position is not None and row.rev is not None  # noqa: PT018, S101 - a change is always somewhere
        at = cell.at or row.position
        return Frame(
            session_id=session,
            key=fold.unit.key,
            value=msgspec.Raw(cell.value),
            seq=at.seq,
            epoch=row.position.epoch,
            rev=str(row.rev),
            state_version=cell.version,
            time=fold.time,
            stale=msgspec.UNSET if cell.mark is None else cell.mark,
        )

    async def _commit(self, changes: Mapping[int, Sequence[Change]]) -> Outcome:
        outcome = Outcome()
        calls = {p: commit_call(self._keys, p, self._publish, found) for p, found in changes.items() if found}
        replies = await script.call_all(self._wire, list(calls.values()))
        failed: Exception | None = None
        for partition, reply in zip(calls, replies, strict=True):
            if isinstance(reply, Exception):
                failed = failed or reply
                self._forget(changes[partition])
            elif reply == [b"rewound"]:
                outcome.rewound = True
                self._forget(changes[partition])
            else:
                self._settle(partition, changes[partition], reply, outcome)
        if failed is not None:
            raise failed
        return outcome

    def _settle(self, partition: int, changes: Sequence[Change], words: Sequence[bytes], outcome: Outcome) -> None:
        for change, word in zip(changes, words, strict=True):
            kind, _, why = word.decode("utf-8", "replace").partition(" ")
            if kind == "conflict":
                outcome.conflicts.setdefault(partition, []).extend(change.pointers)
                self._rows.forget(change.session)
                continue
            if kind == "broken":
                logger.error("session %s can't be projected: %s", change.session, why)
                self._rows.forget(change.session)
                continue
            if kind == "unpublished":
                logger.error("session %s: stored, but its frame was refused: %s", change.session, why)
            outcome.committed += len(change.pointers)
            outcome.published += len(change.frames)
            if change.after is not None:
                self._rows.keep(change.session, change.after)

    def _forget(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._rows.forget(change.session)


def _after(span: Span, row: Row) -> int | None:
    """The seq after which the span's log is to be folded, None when the row is already there."""
    if row.position is None or row.position.epoch < span.last.epoch:
        return -1
    return None if row.position >= span.last else row.position.seq


def _marked(unit: Unit, cell: Cell | None, gap: Gap, span: Span) -> Fold:
    """The unit's cell as it is, with a mark that its log can't be folded."""
    fold = Fold(unit, cell, -1)
    if cell is None or cell.mark is None or cell.mark.reason != str(gap):
        fold.mark(Mark(gap.seq, str(gap), span.time_ms), span.time_ms)
    return fold


def _is_news(fold: Fold, before: Cell | None, cell: Cell, refolded: bool) -> bool:
    """Whether readers must be told: value or mark changed, or an equal value was written; not a refold to the same."""
    if cell is before:
        return False
    value, mark = (before.value, before.mark) if before is not None else (b"null", None)
    differs = cell.value != value or cell.mark != mark
    return differs or (fold.changed and not refolded and value != b"null")


def _working(before: Cell | None, after: Cell | None) -> str:
    """Since when an item is in progress, for the index: '' leaves it, '-' removes."""
    if after is None or after is before:
        return ""
    since = msgspec.json.decode(after.value).get("since")
    return "-" if since is None else str(since)


def _mark(before: Mapping[str, Cell], after: Mapping[str, Cell]) -> str:
    """What the index of stale sessions says: '' leaves it, '-' removes."""
    marks = {key: cell.mark for key, cell in after.items() if cell.mark is not None}
    if marks == {key: cell.mark for key, cell in before.items() if cell.mark is not None}:
        return ""
    return msgspec.json.encode(marks).decode() if marks else "-"
