"""One unit of one session while events pass by: the fold, with the rule for an event it cannot take. Pure."""

from typing import Any

import msgspec

from todo_projection.frames import Mark
from todo_projection.row import Cell
from todo_projection.unit import Unit
from todo_write.events import Event, Position

REASON_LENGTH_MAX = 200


class Fold:
    """Folds events after ``after`` (a seq; -1 from the start) into a unit's cell.

    An event the unit refuses is skipped and marks the cell; the last good value stays. ``changed`` tells whether value
    or mark is another than before, ``time`` (epoch ms) is that of the event that did it.
    """

    __slots__ = ("_at", "_before", "_mark", "_state", "after", "changed", "time", "unit")

    def __init__(self, unit: Unit, before: Cell | None, after: int) -> None:
        self.unit = unit
        self.after = after
        self.changed = False
        self.time = 0
        self._before = before
        self._state: Any = _UNREAD
        self._at = before.at if before else None
        self._mark = before.mark if before else None

    def take(self, epoch: int, event: Event) -> None:
        """Fold one event; events come in the order of the log, those already folded or not handled are passed over."""
        if event.seq <= self.after or event.type not in self.unit.handles:
            return
        state = self.state
        try:
            after = self.unit.apply(state, event)
        except Exception as error:  # noqa: BLE001 - whatever a unit raises, the event is poison to it
            since = event.time if self._mark is None else self._mark.since
            self.mark(Mark(event.seq, str(error)[:REASON_LENGTH_MAX] or type(error).__name__, since), event.time)
            self._at = Position(epoch, event.seq)
            return
        heals = self._mark is not None and event.type in self.unit.heals_on
        if after is state and not heals:
            return
        self._state, self._at = after, Position(epoch, event.seq)
        self._mark = None if heals else self._mark
        self.changed, self.time = True, event.time

    def mark(self, mark: Mark, time: int) -> None:
        """Mark the cell at ``time`` (epoch ms); its value stays."""
        self._mark, self.changed, self.time = mark, True, time

    @property
    def state(self) -> Any:
        """The unit's state so far, read from the cell when first needed."""
        if self._state is _UNREAD:
            before = self._before
            self._state = self.unit.init() if before is None else self.unit.decode(before.state or before.value)
        return self._state

    def cell(self) -> Cell:
        """The cell as it is to be stored; the very one it began with when nothing changed."""
        if self._before is not None and not self.changed:
            return self._before
        value, state = msgspec.json.encode(self.unit.view(self.state)), self.unit.encode(self.state)
        return Cell(value, self._at, self.unit.state_version, None if state == value else state, self._mark)


_UNREAD = object()
