"""Folding a log anew, from where it begins up to a position, for whoever compares or looks back. Nothing is written."""

from collections.abc import Sequence
from contextlib import aclosing

from todo_projection.fold import Fold, adopt
from todo_projection.frames import Baseline
from todo_projection.history import History
from todo_projection.look import look_at
from todo_projection.row import Row
from todo_projection.span import Gap, Pointer, Span
from todo_projection.unit import Unit
from todo_projection.wire import Wire
from todo_write.events import Keys, Position


class NotThere(LookupError):
    """There is no such event in the log; the message says what there is."""


class Refold:
    """Reads logs in pages of bounded size; raises redis errors."""

    def __init__(self, wire: Wire, keys: Keys, units: Sequence[Unit]) -> None:
        self._wire = wire
        self._keys = keys
        self._units = units
        self._handles = frozenset[str]().union(*(unit.handles for unit in units))
        self._history = History(wire, keys)

    async def up_to(self, session: str, position: Position, *, partial: bool = False) -> list[Fold]:
        """A fold of each unit up to the position. ``partial``: with holes, which mark; otherwise raises Gap for one."""
        span = Span(session, [Pointer(b"0-0", session, *position, b"", "")])
        folds = [Fold(unit, None, -1) for unit in self._units]
        if partial:
            async for standing in self._history.standing(span):
                adopt(folds, standing)
            return folds
        async with aclosing(self._history.pages(span, -1, self._handles)) as pages:
            async for page in pages:
                for event in page:
                    for fold in folds:
                        fold.take(position.epoch, event)
        return folds

    async def baseline_at(self, session: str, seq: int) -> Baseline:
        """The values as they were after the event at ``seq``; raises NotThere.

        Of a log that does not hold all events before it, every value says so by a mark.
        """
        (look,) = await look_at(self._wire, self._keys, [session])
        if look.tail is None:
            raise NotThere(f"session {session!r} has no log that can be folded: {look.why or look.foreign or 'none'}")
        if seq > look.tail.seq:
            raise NotThere(f"session {session!r}: there is no event {seq}; its log ends with {look.tail.seq}")
        end = Position(look.tail.epoch, seq)
        try:
            folds = await self.up_to(session, end)
        except Gap:
            folds = await self.up_to(session, end, partial=True)
        cells = {fold.unit.key: fold.cell() for fold in folds}
        versions = {unit.key: unit.state_version for unit in self._units}
        return Row("", end, None, cells, versions).baseline(session)
