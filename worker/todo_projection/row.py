"""The row of a session as stored: one hash, all units cut at one position. Pure."""

from collections.abc import Mapping

import msgspec

from todo_projection.frames import Baseline, Mark, Rev
from todo_write.events import Position

TOKEN_LENGTH = 8

_mark = msgspec.json.Decoder(Mark)


class CorruptRow(ValueError):
    """A row holds what no worker writes; the message names the session, the field and its value."""


class Cell(msgspec.Struct, frozen=True):
    """What a row holds of one unit.

    The value as JSON, the position that caused it (None: the value of an empty log), the state where the value does not
    say it all, and the mark of a skipped event.
    """

    value: bytes
    at: Position | None
    version: int
    state: bytes | None = None
    mark: Mark | None = None


class Row(msgspec.Struct, frozen=True):
    """A stored row. ``etag`` '' and ``position`` None: none is stored. A tombstone has a position and no units.

    A unit of version 0 in ``versions`` is to be folded again from the start of the log, by whoever gets the next
    pointer. ``partial``: an operator has adopted the log with its holes.

    The etag is new at every write: a token, and behind it the op of the event at ``position`` where the writer of the
    row knew it. A position alone does not say which event was folded last, and this way its op costs no field.
    """

    etag: str = ""
    position: Position | None = None
    rev: Rev | None = None
    cells: Mapping[str, Cell] = msgspec.field(default_factory=dict[str, Cell])
    versions: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    partial: bool = False

    @property
    def exists(self) -> bool:
        """Whether values are stored: neither a missing row nor a tombstone."""
        return bool(self.versions)

    @property
    def op(self) -> str:
        """The op of the last event folded, '' where the row does not tell it."""
        return self.etag[TOKEN_LENGTH:]

    @property
    def is_gapped(self) -> bool:
        """Whether a mark says that the row could not get on, because of an event that was missing."""
        for cell in self.cells.values():  # once an event, and nearly always there is no mark
            if cell.mark is not None and self.position is not None and cell.mark.seq > self.position.seq:
                return True
        return False

    def baseline(self, session: str) -> Baseline:
        """What readers get of this row."""
        if self.position is None or not self.exists:
            return Baseline.unknown(session)
        return Baseline(
            session_id=session,
            as_of_seq=self.position.seq,
            epoch=self.position.epoch,
            rev=None if self.rev is None else str(self.rev),
            values={key: msgspec.Raw(cell.value) for key, cell in self.cells.items()},
            at={key: cell.at.seq for key, cell in self.cells.items() if cell.at is not None},
            stale={key: cell.mark for key, cell in self.cells.items() if cell.mark is not None},
        )


# Stands for a key of another type. No etag is ever this one, so a commit over it tells the type, or is a conflict.
WRONG_TYPE = Row(etag="-")

# Stands for the row of a log whose first event is new, unread: there is none. A commit over a key is a conflict.
PRESUMED_NEW = Row(etag="*")


def decode_row(session: str, fields: Mapping[bytes, bytes]) -> Row:
    """A row from its hash fields; raises CorruptRow."""
    if not fields:
        return Row()
    try:
        named = {name.decode(): raw for name, raw in fields.items()}
        versions = decode_versions(named.get("units", b""))
        rev = named.get("rev")
        return Row(
            etag=named["etag"].decode(),
            position=Position.parse(named["pos"]),
            rev=None if rev is None else Rev.parse(rev),
            cells={key: _cell(key, named) for key, version in versions.items() if version or key in named},
            versions=versions,
            partial="partial" in named,
        )
    except (KeyError, ValueError, msgspec.MsgspecError) as error:
        raise CorruptRow(f"row of session {session!r} can't be read: {error!r}; rebuild the session") from None


def decode_versions(raw: bytes) -> dict[str, int]:
    """The ``units`` field, ``board:1,todos:2``, as versions by key; raises ValueError."""
    if not raw:
        return {}
    pairs = (pair.rpartition(":") for pair in raw.decode().split(","))
    return {key: int(version) for key, _, version in pairs}


def encode_versions(versions: Mapping[str, int]) -> str:
    """Versions by key as the ``units`` field, in order of key."""
    return ",".join(f"{key}:{versions[key]}" for key in sorted(versions))


def cell_changes(key: str, before: Cell | None, cell: Cell) -> tuple[dict[str, bytes], list[str]]:
    """The hash fields that differ from the cell before: those to set, and the names of those to remove.

    Where nothing is known of what was before, every field a cell does not have is to be removed.
    """
    set: dict[str, bytes] = {}
    remove: list[str] = []
    stored = {} if before is None else _fields(key, before)
    for name, raw in _fields(key, cell).items():
        if raw is None:
            if stored.get(name, b"") is not None:
                remove.append(name)
        elif stored.get(name) != raw:
            set[name] = raw
    return set, remove


def cell_names(key: str, cell: Cell) -> list[str]:
    """The hash fields that hold the cell, of a unit that is to be there no longer."""
    return [name for name, raw in _fields(key, cell).items() if raw is not None]


def _fields(key: str, cell: Cell) -> dict[str, bytes | None]:
    return {
        key: cell.value,
        f"{key}.ver": b"%d" % cell.version,
        f"{key}.at": None if cell.at is None else b"%d-%d" % cell.at,
        f"{key}.state": cell.state,
        f"{key}.stale": None if cell.mark is None else msgspec.json.encode(cell.mark),
    }


def _cell(key: str, named: Mapping[str, bytes]) -> Cell:
    at, stale = named.get(f"{key}.at"), named.get(f"{key}.stale")
    return Cell(
        value=named[key],
        at=None if at is None else Position.parse(at),
        version=int(named[f"{key}.ver"]),
        state=named.get(f"{key}.state"),
        mark=None if stale is None else _mark.decode(stale),
    )
