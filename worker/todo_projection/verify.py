"""Verification: folds a log anew and compares the result with the stored row and the indexes, field by field."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec

from todo_projection.beats import server_time
from todo_projection.change import working_since
from todo_projection.fold import Fold
from todo_projection.frames import Mark
from todo_projection.look import Look, Repair, Standing, look_at, mending
from todo_projection.refold import Refold
from todo_projection.row import Cell, CorruptRow, Row
from todo_projection.rows import is_wrong_type, read_row
from todo_projection.span import Gap
from todo_projection.suspects import Suspects
from todo_projection.unit import Unit
from todo_projection.wire import Wire
from todo_write.events import CANARY, Keys

STEADY_TRIES_MAX = 20
SUSPECTS_MAX = 1_000_000

_marks = msgspec.json.Decoder(dict[str, Mark])


class Difference(msgspec.Struct, frozen=True):
    """What is stored of a unit or in an index, and what the log says should be."""

    stored: str
    folded: str


class Finding(msgspec.Struct, frozen=True):
    """What verification says of one session; ``sound`` when row and log agree, or the row is merely on its way.

    ``differences`` by unit, or by index; ``orphan``: there is no log for what is stored.
    """

    session: str
    sound: bool
    why: str
    differences: dict[str, Difference] = {}
    orphan: bool = False
    repair: Repair | None = None  # what a worker can be asked to do about it

    def told(self) -> dict[str, Any]:
        """What of it is printed."""
        return {name: getattr(self, name) for name in ("session", "sound", "why", "differences", "orphan")}


class Verifier:
    """Compares rows with their logs, without writing; raises redis errors."""

    def __init__(self, wire: Wire, keys: Keys, units: Sequence[Unit]) -> None:
        self._wire = wire
        self._keys = keys
        self._units = units
        self._versions = {unit.key: unit.state_version for unit in units}
        self._refold = Refold(wire, keys, units)
        self._suspects = Suspects(wire, keys, count_max=SUSPECTS_MAX)

    async def verify(self, sessions: Sequence[str]) -> AsyncGenerator[Finding]:
        """A finding for each session; one that changes meanwhile is looked at again."""
        looks = await look_at(self._wire, self._keys, sessions)
        now = await server_time(self._wire)
        for look in looks:
            if look.standing is Standing.BEHIND or look.is_asked:
                self._suspects.add(look, now)
            yield await self._verify(look)

    async def lost(self) -> list[Finding]:
        """Of the sessions verified so far those that wait for a worker, and that nothing in their feed points at."""
        return [self._broken(look) for look in await self._suspects.judge() if look.foldable]

    async def _verify(self, look: Look) -> Finding:
        for _ in range(STEADY_TRIES_MAX):
            if look.standing not in (Standing.EVEN, Standing.BEHIND, Standing.FORKED):
                return self._broken(look)
            if not look.foldable:
                return await self._foreign(look)
            if look.row is None or not look.versions:
                return Finding(look.session, sound=True, why="nothing of it is folded yet")
            finding = await self._compare(look)
            if finding is not None:
                return finding
            (look,) = await look_at(self._wire, self._keys, [look.session])
        return Finding(look.session, sound=True, why="changes too fast to be compared")

    async def _compare(self, look: Look) -> Finding | None:
        """The finding of a session with log and row; None when the row changed meanwhile."""
        session = look.session
        try:
            row = await read_row(self._wire, self._keys, session)
        except CorruptRow as error:
            return Finding(session, sound=False, why=str(error), repair=self._anew(look))
        if row.position is None or row.etag.encode() != look.etag:
            return None
        try:
            folds = await self._refold.up_to(session, row.position, partial=row.partial)
            differences = self._cells(row, folds) | await self._indexes(row, session)
        except Gap as gap:
            row_now = await read_row(self._wire, self._keys, session)
            return Finding(session, sound=False, why=f"can't be folded: {gap}") if row_now.etag == row.etag else None
        except _Moved:
            return None
        if not differences:
            return Finding(session, sound=True, why=f"equal at {row.position}")
        why = f"{len(differences)} of its values, or what indexes say, are not those of its log at {row.position}"
        return Finding(session, False, why, differences, repair=self._anew(look))

    async def _foreign(self, look: Look) -> Finding:
        """The finding of a log that can't be folded: sound when the row's marks say so."""
        try:
            cells = (await read_row(self._wire, self._keys, look.session)).cells
        except CorruptRow as error:
            return Finding(look.session, sound=False, why=str(error))
        why = f"its log is {look.lack}: {look.foreign}"
        if cells and all(cell.mark is not None for cell in cells.values()):
            return Finding(look.session, sound=True, why=f"{why}, as its marks say")
        adopt = f"`rebuild --session {look.session} --partial` takes what is there"
        return Finding(look.session, sound=False, why=f"{why}; {adopt}")

    def _anew(self, look: Look) -> Repair:
        return Repair(look, {**look.versions, **self._versions})

    def _cells(self, row: Row, folds: Sequence[Fold]) -> dict[str, Difference]:
        """What differs in the row; a unit that waits to be folded anew, or is of another version, is passed over."""
        found: dict[str, Difference] = {}
        for fold in folds:
            key = fold.unit.key
            stored, folded = row.cells.get(key), fold.cell()
            if row.versions.get(key) == fold.unit.state_version and stored != folded:
                found[key] = Difference(_shown(stored), _shown(folded))
        return found

    async def _indexes(self, row: Row, session: str) -> dict[str, Difference]:
        """What differs in the indexes; raises _Moved when the row is another than before."""
        keys, partition = self._keys, self._keys.partition(session)
        recent, working, stale, etag = await self._wire.pipeline(
            [
                ("ZSCORE", keys.recent(partition), session),
                ("ZSCORE", keys.working(partition), session),
                ("HGET", keys.stale(partition), session),
                ("HGET", keys.row(session), "etag"),
            ]
        )
        if etag != row.etag.encode():
            raise _Moved
        board = row.cells.get("board")
        found = {
            "index recent": Difference(
                "there" if _score(recent) else "nothing", "nothing" if session == CANARY else "there"
            ),
            "index stale": Difference(_marks_shown(stale), _marks_shown(_marks_of(row))),
        }
        if board is not None and row.versions["board"]:
            since = str(working_since(board) or "nothing")
            found["index working"] = Difference(_score(working) or "nothing", since)
        return {name: one for name, one in found.items() if one.stored != one.folded}

    def _broken(self, look: Look) -> Finding:
        session, repair = look.session, mending(look, self._versions) if look.foldable else None
        match look.standing:
            case Standing.BEHIND:
                why = f"the row at {look.row or 'nothing'} is behind the log at {look.tail}, and nothing points at it"
            case Standing.EVEN:
                why = f"the row at {look.row} is {look.trouble}, and nothing points at it"
            case Standing.AHEAD:
                why = f"the row at {look.row} is ahead of the log at {look.tail}"
            case Standing.ORPHAN:
                return Finding(session, sound=False, why="a row with values, and no log", orphan=True)
            case Standing.NOTHING:
                return Finding(session, sound=True, why="nothing is stored of it")
            case _:
                why = look.why
        return Finding(session, sound=False, why=f"{why}; {look.foreign}" if look.foreign else why, repair=repair)


class _Moved(Exception):
    """The row was written between two reads."""


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "nothing"
    raw = cell.value if cell.state is None else cell.value + b", state " + cell.state
    mark = "" if cell.mark is None else f", marked since {cell.mark.since}: {cell.mark.seq}: {cell.mark.reason}"
    return f"{raw.decode('utf-8', 'replace')} of {cell.at or 'no event'}, version {cell.version}{mark}"


def _marks_of(row: Row) -> bytes | None:
    marks = {key: cell.mark for key, cell in row.cells.items() if cell.mark is not None}
    return msgspec.json.encode(marks) if marks else None


def _marks_shown(raw: Any) -> str:
    if raw is None:
        return "nothing"
    if is_wrong_type(raw):
        return "a key of another type"
    try:
        return str(msgspec.to_builtins(dict(sorted(_marks.decode(raw).items()))))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return str(raw.decode("utf-8", "replace"))


def _score(reply: Any) -> str:
    """A score as text, '' where there is none."""
    if is_wrong_type(reply):
        return "a key of another type"
    return "" if reply is None else str(int(float(reply)))
