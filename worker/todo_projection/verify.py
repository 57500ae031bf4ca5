"""Verification: folds a log anew and compares the result with the stored row, field by field."""

from collections.abc import Mapping, Sequence

import msgspec

from todo_projection.advance import Mounted
from todo_projection.fold import Fold, adopt
from todo_projection.history import History
from todo_projection.look import Look, Standing, look_at, point_again
from todo_projection.row import Cell, Row
from todo_projection.rows import read_row
from todo_projection.span import Gap, Pointer, Span
from todo_projection.unit import Unit
from todo_projection.wire import Wire
from todo_write.events import Keys, Position

STEADY_TRIES_MAX = 20


class Difference(msgspec.Struct, frozen=True):
    """What a row holds of a unit, and what its log says."""

    stored: str
    folded: str


class Finding(msgspec.Struct, frozen=True):
    """What verification says of one session; ``sound`` when row and log agree, or the row is merely on its way."""

    session: str
    sound: bool
    why: str
    differences: dict[str, Difference] = {}


class Verifier:
    """Compares rows with their logs, without writing; raises redis errors and CorruptRow."""

    def __init__(self, wire: Wire, keys: Keys, units: Sequence[Unit]) -> None:
        self._wire = wire
        self._keys = keys
        self._mounted = Mounted(units)
        self._history = History(wire, keys)

    async def verify(self, session: str) -> Finding:
        """The finding of one session; a row that changes meanwhile is looked at again."""
        for _ in range(STEADY_TRIES_MAX):
            (look,) = await look_at(self._wire, self._keys, [session])
            if look.standing is not Standing.EVEN and look.standing is not Standing.BEHIND:
                return _unequal(look)
            row = await read_row(self._wire, self._keys, session)
            if not row.exists or row.position is None:
                return Finding(session, look.standing is Standing.BEHIND, f"nothing is folded yet of {look.tail}")
            try:
                folds = await self._fold(session, row, row.position)
            except Gap as gap:
                marked = bool(row.cells) and all(cell.mark is not None for cell in row.cells.values())
                return Finding(session, marked, f"can't be folded: {gap}" + (", as its mark says" if marked else ""))
            if (await read_row(self._wire, self._keys, session)).etag == row.etag:
                return _compare(session, row, folds)
        return Finding(session, sound=True, why="changes too fast to be compared")

    async def repair(self, session: str) -> bool:
        """Have the session folded again by a worker; False when its row changed meanwhile or there is no log."""
        (look,) = await look_at(self._wire, self._keys, [session])
        return await point_again(self._wire, self._keys, look, refold=self._mounted.versions)

    async def _fold(self, session: str, row: Row, position: Position) -> Mapping[str, Fold]:
        span = Span(session, [Pointer(b"0-0", session, *position, b"", "")])
        folds = {unit.key: Fold(unit, None, -1) for unit in self._mounted.units}
        if row.partial:
            async for standing in self._history.standing(span):
                adopt(list(folds.values()), standing)
            return folds
        async for page in self._history.pages(span, -1):
            for event in page:
                for fold in folds.values():
                    fold.take(position.epoch, event)
        return folds


def _unequal(look: Look) -> Finding:
    match look.standing:
        case Standing.AHEAD:
            return Finding(look.session, sound=False, why=f"the row at {look.row} is ahead of the log at {look.tail}")
        case Standing.ORPHAN:
            return Finding(look.session, sound=False, why="a row with values, and no log")
        case Standing.BROKEN:
            return Finding(look.session, sound=False, why=look.why)
        case _:
            return Finding(look.session, sound=True, why="nothing stored")


def _compare(session: str, row: Row, folds: Mapping[str, Fold]) -> Finding:
    differences: dict[str, Difference] = {}
    for key, fold in folds.items():
        stored, folded = row.cells.get(key), fold.cell()
        if row.versions.get(key) == fold.unit.state_version and stored != folded:
            differences[key] = Difference(_shown(stored), _shown(folded))
    why = f"{len(differences)} units differ at {row.position}" if differences else f"equal at {row.position}"
    return Finding(session, sound=not differences, why=why, differences=differences)


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "nothing"
    raw = cell.value if cell.state is None else cell.state
    mark = "" if cell.mark is None else f", marked: {cell.mark.reason}"
    return f"{raw.decode('utf-8', 'replace')} of {cell.at or 'no event'}{mark}"
