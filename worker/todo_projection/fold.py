"""One unit of one session while events pass by: the fold, with the rule for an event it cannot take. Pure."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from todo_projection.frames import Mark
from todo_projection.row import Cell
from todo_projection.unit import Unit, needed
from todo_write.events import Entry, Event, Position

REASON_LENGTH_MAX = 200

logger = logging.getLogger(__name__)


class CorruptCell(ValueError):
    """A stored value or state that its unit can't read back; ``key`` names the unit, to be folded from the start."""

    def __init__(self, key: str, error: Exception) -> None:
        super().__init__(f"unit {key} can't read what is stored ({type(error).__name__})")  # its words may quote a plan
        self.key = key


class Fold:
    """Folds events after ``after`` (a seq; -1 from the start) into a unit's cell.

    An event the unit refuses is skipped and marks the cell; the last good value stays. ``changed`` tells whether value
    or mark is another than before, ``time`` (epoch ms) is that of the event that did it.
    """

    __slots__ = ("_at", "_before", "_mark", "_next", "_state", "after", "changed", "time", "unit")

    def __init__(self, unit: Unit, before: Cell | None, after: int) -> None:
        self.unit = unit
        self.after = after
        self.changed = False
        self.time = 0
        self._before = before
        self._state: Any = _UNREAD
        self._at = before.at if before else None
        self._mark = before.mark if before else None
        if self._mark is not None and self._mark.seq > after:  # what was missing is there: else nobody folds past it
            self._mark, self.changed = None, True
        self._next: Position | None = None

    def take(self, epoch: int, event: Event) -> None:
        """Fold one event; events come in the order of the log, those already folded or not handled are passed over.

        Raises CorruptCell when the cell it began with can't be read.
        """
        if event.seq <= self.after or event.type not in self.unit.handles:
            return
        state = self.state
        try:
            after = self.unit.apply(state, event)
        except Exception as error:  # noqa: BLE001 - whatever a unit raises, the event is poison to it
            self._skip(event.seq, error, event.time)
            self._at = Position(epoch, event.seq)
            return
        heals = self._mark is not None and event.type in self.unit.heals_on
        if after is state and not heals:
            return
        self._state, self._at = after, Position(epoch, event.seq)
        self._mark = None if heals else self._mark
        self.changed, self.time = True, event.time

    def take_all(self, epoch: int, events: Sequence[Event], *, is_part: bool = False) -> bool:
        """Fold these in the order of the log, as ``take`` would one by one, but past those the unit has no need of.

        False, and nothing is folded, where they are a part (spared types are left out before the first) that does not
        tell the unit enough. Raises CorruptCell.
        """
        handles, after = self.unit.handles, self.after
        handled = [event for event in events if event.type in handles and event.seq > after]
        told = self._needed(handled) if is_part or len(handled) > 1 else handled
        if told is None and is_part:
            return False
        for event in handled if told is None else told:
            self.take(epoch, event)
        return True

    def _needed(self, events: Sequence[Event]) -> Sequence[Event] | None:
        try:
            return needed(self.unit, events)
        except Exception as error:  # noqa: BLE001 - whatever a unit raises: then it is shown all of them
            told = "unit %s can't tell which events it needs (%s), and is shown all of them"
            logger.warning(told, self.unit.key, type(error).__name__)  # its words may quote a plan
            return None

    def reach(self, position: Position, time: int) -> None:
        """Go on at ``position``, of an event at ``time`` (epoch ms); what is missing before it marks the cell."""
        expected, self._next = self._next, position._replace(seq=position.seq + 1)
        begins = position.seq == 0 and expected is None
        if not begins and position != expected:
            missing = 0 if expected is None else expected.seq
            reason = f"partial: what stood before {position} is missing from the log"
            self._mark, self.changed, self.time = marked(self._mark, missing, reason, time), True, time

    @property
    def state(self) -> Any:
        """The unit's state so far, read from the cell when first needed; raises CorruptCell."""
        if self._state is _UNREAD:
            self._state = self._stored_state()
        return self._state

    def cell(self) -> Cell:
        """The cell as it is to be stored; the very one it began with when nothing changed. Raises CorruptCell.

        A state that can't be written down is as poison as an event that can't be applied: the stored one stays, marked.
        """
        if self._before is not None and not self.changed:
            return self._before
        state = self.state
        try:
            return self._encoded(state)
        except Exception as error:  # noqa: BLE001 - whatever a unit raises
            self._skip(self._at.seq if self._at else -1, error, self.time)
        if self._before is None:
            return self._encoded(self.unit.init())
        return msgspec.structs.replace(self._before, at=self._at, mark=self._mark)

    def _skip(self, seq: int, error: Exception, time: int) -> None:
        reason = str(error)[:REASON_LENGTH_MAX] or type(error).__name__
        self._mark, self.changed, self.time = marked(self._mark, seq, reason, time), True, time

    def _stored_state(self) -> Any:
        if self._before is None:
            return self.unit.init()
        try:
            stored = self._before.value if self._before.state is None else self._before.state
            return self.unit.decode(stored)
        except Exception as error:
            raise CorruptCell(self.unit.key, error) from error

    def _encoded(self, state: Any) -> Cell:
        view, raw = self.unit.view(state), self.unit.encode(state)
        value = raw if view is state else msgspec.json.encode(view)
        return Cell(value, self._at, self.unit.state_version, None if raw == value else raw, self._mark)


def marked(before: Mark | None, seq: int, reason: str, time: int) -> Mark:
    """A mark for what is missing at ``seq``, found at ``time`` (epoch ms), in the place of one that may stand."""
    return Mark(seq, reason, time if before is None else before.since)


def adopt(folds: Sequence[Fold], entries: Iterable[Entry]) -> None:
    """Fold what stands in a log with holes; each hole marks, and heals as a skipped event does."""
    for position, _, event in entries:
        for fold in folds:
            fold.reach(position, event.time)
            fold.take(position.epoch, event)


_UNREAD = object()
