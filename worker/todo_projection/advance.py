"""How each row of a batch gets on, by what the row says and what the pointers say. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from todo_projection.fold import Fold
from todo_projection.row import PRESUMED_NEW, WRONG_TYPE, Cell, Row
from todo_projection.span import Span
from todo_projection.unit import Unit, spared

LATEST = 2  # of events that units may spare: one that replaces what was before, and the one that shows it


class Outdated(Exception):
    """A row holds a unit that is not mounted here, or a newer version of one: this worker must step down."""


class Need(NamedTuple):
    """What a fold needs of a log: of all events after seq ``after`` up to the span's last, those at ``seqs``.

    ``seqs`` None: all of them are to be looked at. ``is_part``: those that units may spare are left out.
    """

    span: Span
    after: int
    seqs: Sequence[int] | None
    is_part: bool = False


class Advance(NamedTuple):
    """How a row gets to its span's last event.

    ``after`` is the seq up to which its units are folded (-1: none of this log is); those in ``refolds`` begin from the
    start of the log all the same. ``need`` None: the row is there already, and only pointers are to be acknowledged.
    """

    span: Span
    row: Row
    after: int = -1
    refolds: frozenset[str] = frozenset()
    need: Need | None = None

    @property
    def reads_nothing(self) -> bool:
        """Whether the row gets there without a look at the log: no event in between is handled by any unit."""
        need = self.need
        return need is not None and need.seqs == [] and (need.after >= 0 or self.row is PRESUMED_NEW)

    def refolding(self, key: str) -> "Advance":
        """The same, with one more unit from the start; with all of them where the log has holes."""
        more = {key, *self.row.cells} if self.row.partial else {key}
        return self._replace(refolds=self.refolds | more, need=Need(self.span, -1, None))


class Mounted:
    """The mounted units as a whole: their ``versions`` by key, the types of events that any of them ``handles``.

    Of types in ``spares`` each unit may do with the last events, and tells when it can't.
    ``mandated``: an operator wants rows to hold just these, so a row that is ahead is folded back instead of refused.
    """

    def __init__(self, units: Sequence[Unit]) -> None:
        self.units = units
        self.versions: Mapping[str, int] = {unit.key: unit.state_version for unit in units}
        self.handles = frozenset[str]().union(*(unit.handles for unit in units))
        self.spares = frozenset(
            type for type in self.handles if all(type in spared(unit) for unit in units if type in unit.handles)
        )
        self.mandated = False

    def advance(self, span: Span, row: Row) -> Advance:
        """How the row gets on; raises Outdated."""
        if row is WRONG_TYPE:
            return Advance(span, row)
        lacking = self._lacking(row)
        if _is_forked(row, span):
            lacking = frozenset(self.versions)
        if row.position is not None and row.position >= span.last:
            if not lacking or row.position.epoch != span.last.epoch:
                return Advance(span, row)
            span = span.reaching(row.position)
        if not row.exists or row.position is None or row.position.epoch != span.last.epoch:
            return Advance(span, row, need=Need(span, -1, self._pointed(span, -1)))
        after = row.position.seq
        if lacking:
            need = Need(span, -1, None)
        else:  # past a gap all is looked at: the mark goes only where nothing is missing any more
            need = Need(span, after, None if row.is_gapped else self._pointed(span, after))
        return Advance(span, row, after, lacking, need)

    def folds(self, advance: Advance) -> list[Fold]:
        """A fold of each unit, to begin where the advance says."""
        row, epoch = advance.row, advance.span.last.epoch
        cells = row.cells if row.position is not None and row.position.epoch == epoch else dict[str, Cell]()
        return [
            Fold(unit, None, -1) if unit.key in advance.refolds else Fold(unit, cells.get(unit.key), advance.after)
            for unit in self.units
        ]

    def latest(self, need: Need) -> Need:
        """The part of it to look at first: of types that units may spare, the last events only."""
        seqs, types, spares = need.seqs, need.span.types, self.spares
        if seqs is None or len(seqs) <= LATEST:
            return need
        spared = [seq for seq in seqs if types[seq] in spares]
        if len(spared) <= LATEST:
            return need
        begins = spared[-LATEST]
        return need._replace(seqs=[seq for seq in seqs if seq >= begins or types[seq] not in spares], is_part=True)

    def _pointed(self, span: Span, after: int) -> list[int] | None:
        """Seqs of the handled events after ``after``; None where the pointers leave out some event, of any type."""
        if not span.whole_after(after):
            return None
        handles = self.handles
        return sorted([seq for seq, type in span.types.items() if type in handles and seq > after])

    def _lacking(self, row: Row) -> frozenset[str]:
        """Mounted units that the stored row lacks or holds in a lower version; raises Outdated for the reverse.

        Of a log with holes all or none: a hole is seen by whoever folds past it.
        """
        if not row.exists or row.versions == self.versions:
            return frozenset()
        ahead = {key: version for key, version in row.versions.items() if version > self.versions.get(key, 0)}
        if ahead and self.mandated:
            return frozenset(self.versions)
        if ahead:
            raise Outdated(f"a row holds units {ahead}; mounted here: {dict(self.versions)}")
        lacking = frozenset(key for key, version in self.versions.items() if row.versions.get(key) != version)
        return frozenset(self.versions) if lacking and row.partial else lacking


def _is_forked(row: Row, span: Span) -> bool:
    """Whether a pointer tells of another event where the row stands: the log went back and grew again.

    The pointer may as well be left from the history before; then the row is folded again for nothing.
    """
    at = row.position
    if at is None or at.seq not in span.types or at.epoch != span.last.epoch:
        return False
    return row.op != "" and span.op_at(at) not in ("", row.op)
