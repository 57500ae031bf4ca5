"""Folding a log anew, from where it begins up to a position, for whoever compares or looks back. Nothing is written."""

from collections.abc import Sequence

from todo_projection.fold import Fold, adopt
from todo_projection.history import History
from todo_projection.span import Pointer, Span
from todo_projection.unit import Unit
from todo_projection.wire import Wire
from todo_write.events import Keys, Position


class Refold:
    """Reads logs in pages of bounded size; raises redis errors."""

    def __init__(self, wire: Wire, keys: Keys, units: Sequence[Unit]) -> None:
        self._units = units
        self._history = History(wire, keys)

    async def up_to(self, session: str, position: Position, *, partial: bool = False) -> list[Fold]:
        """A fold of each unit up to the position. ``partial``: with holes, which mark; otherwise raises Gap for one."""
        span = Span(session, [Pointer(b"0-0", session, *position, b"", "")])
        folds = [Fold(unit, None, -1) for unit in self._units]
        if partial:
            async for standing in self._history.standing(span):
                adopt(folds, standing)
            return folds
        async for page in self._history.pages(span, -1):
            for event in page:
                for fold in folds:
                    fold.take(position.epoch, event)
        return folds
