"""A look at a session from outside: where its log and its row stand, and whether the two belong together."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from todo_projection.frames import Mark
from todo_projection.row import TOKEN_LENGTH, decode_versions, encode_versions
from todo_projection.wire import Call, Script, Wire, settled
from todo_write.events import Keys, Position, token

_look = Script("look")
_repoint = Script("repoint")
_mark = msgspec.json.Decoder(Mark)


class Standing(StrEnum):
    """What a look says of a session."""

    EVEN = "even"
    BEHIND = "behind"  # the row has yet to reach the log's tail
    AHEAD = "ahead"  # the row stands where the log is not: the log went back, or another one began before it
    FORKED = "forked"  # another event stands where the row does: the log went back, and grew again
    CORRUPT = "corrupt"  # a row that can't be read; a worker that is pointed at it folds it anew
    ORPHAN = "orphan"  # a row with values, and no log
    NOTHING = "nothing"  # neither, or a tombstone
    BROKEN = "broken"  # a key of another type: a person must rename or delete it


_OFF = (Standing.BEHIND, Standing.AHEAD, Standing.FORKED, Standing.CORRUPT)


class Look(msgspec.Struct, frozen=True):
    """Log and row of one session at one moment.

    ``foreign`` says why the log can't be folded whole, '' otherwise; ``partial``: an operator has adopted it as it is.
    ``etag`` is what stands in the row, whoever wrote it; ``length`` the number of entries of the log. ``gapped``: the
    row is marked because of an event behind it that was missing. ``op`` is that of the event at the ``tail``.
    """

    session: str
    standing: Standing
    tail: Position | None = None
    row: Position | None = None
    etag: bytes = b""
    versions: dict[str, int] = {}
    foreign: str = ""
    partial: bool = False
    length: int = 0
    gapped: bool = False
    why: str = ""
    op: bytes = b""

    @property
    def trouble(self) -> str:
        """Why a worker must look at the session, '' where row and log agree or only a person can help."""
        if self.standing in _OFF:
            return str(self.standing)
        if self.standing is Standing.EVEN and self.is_asked:
            return "to be folded anew"
        if self.standing is Standing.EVEN and self.gapped and self.foldable:
            return "marked for what its log does not lack any more"
        return ""

    @property
    def is_asked(self) -> bool:
        """Whether some unit is to be folded anew by whoever gets the next pointer."""
        return 0 in self.versions.values()

    @property
    def lack(self) -> str:
        """The word for a log that can't be folded whole: trimmed at its beginning and sound behind that, or foreign."""
        first = 0 if self.tail is None else self.tail.seq + 1 - self.length
        return "trimmed" if first > 0 and self.foreign == _trimmed(first) else "foreign"

    @property
    def foldable(self) -> bool:
        """Whether the log can be folded from its start, or was adopted with what it lacks."""
        return self.tail is not None and (self.partial or not self.foreign)


class Repair(msgspec.Struct, frozen=True):
    """What a worker is to do with a session.

    ``refold`` names units to be folded from the log's start. ``partial``: take the log as it stands, with its holes,
    from now on; all mounted units are to be folded again then.
    """

    look: Look
    refold: Collection[str] = ()
    partial: bool = False


async def look_at(wire: Wire, keys: Keys, sessions: Sequence[str]) -> list[Look]:
    """A look at each session, in one round trip; raises redis errors but those that concern one session."""
    calls: list[Call] = [([keys.log(session), keys.row(session)], []) for session in sessions]
    replies = await _look.call_all(wire, calls)
    return [_seen(session, reply) for session, reply in zip(sessions, replies, strict=True)]


async def point_again(wire: Wire, keys: Keys, repairs: Sequence[Repair]) -> list[bool]:
    """Have workers look at these sessions again, in one round trip; raises redis errors.

    False for one whose row has changed since the look, or that has no log: nothing was done there.
    """
    calls: list[Call] = []
    for repair in repairs:
        session = repair.look.session
        names = [keys.log(session), keys.feed(keys.partition(session)), keys.row(session)]
        calls.append((names, [session, repair.look.etag, *_fields(repair)]))
    return [reply[0] == b"ok" for reply in settled(await _repoint.call_all(wire, calls))]


def mending(look: Look, mounted: Mapping[str, int]) -> Repair:
    """What brings the row of a look to where its log is: a pointer, and where that is not enough all units anew."""
    anew = look.standing in (Standing.AHEAD, Standing.FORKED, Standing.CORRUPT)
    anew = anew or (look.standing is Standing.EVEN and look.gapped)
    return Repair(look, {**look.versions, **mounted} if anew else ())


def _fields(repair: Repair) -> list[str]:
    """Fields to be set on the row, name and value in turn."""
    look = repair.look
    if not repair.refold:
        return []
    fields = ["etag", token(), "units", encode_versions({**look.versions, **dict.fromkeys(repair.refold, 0)})]
    if look.tail is not None and (repair.partial or look.row is None or look.row > look.tail):
        fields += ["pos", str(Position(look.tail.epoch, -1))]
    return [*fields, "partial", "1"] if repair.partial else fields


def _seen(session: str, reply: Any) -> Look:
    if isinstance(reply, Exception):
        if not str(reply).startswith("WRONGTYPE"):
            raise reply
        return Look(session, Standing.BROKEN, why=str(reply))
    tail_id, first_id, length, etag, pos, units, partial, op, lacks, marks, last = reply
    tail, foreign = None, ""
    try:
        tail = Position.parse(tail_id) if tail_id else None
        foreign = "" if tail is None else _foreign(Position.parse(first_id), tail, int(length))
    except ValueError as error:
        foreign = str(error)
    try:
        row = Position.parse(pos) if pos or etag else None
        versions = decode_versions(units)
        missing = [_mark.decode(raw).seq for raw in marks]
        if lacks:
            raise ValueError(f"{lacks.decode()} is missing")
    except (ValueError, msgspec.MsgspecError) as error:
        why = f"its row can't be read: {error}"
        return Look(session, Standing.CORRUPT, tail, None, etag, {}, foreign, bool(partial), int(length), why=why)
    standing = _standing(tail, row, exists=bool(versions), there=bool(tail_id))
    folded = etag[TOKEN_LENGTH:]  # the op of the event folded last
    if standing in (Standing.EVEN, Standing.BEHIND) and folded and op and folded != op:
        standing = Standing.FORKED
    gapped = row is not None and max(missing, default=-1) > row.seq
    return Look(session, standing, tail, row, etag, versions, foreign, bool(partial), int(length), gapped, op=last)


def _standing(tail: Position | None, row: Position | None, *, exists: bool, there: bool) -> Standing:
    if not there:
        return Standing.ORPHAN if exists else Standing.NOTHING
    if tail is None or row is None or (not exists and row.epoch < tail.epoch):
        return Standing.BEHIND
    if row > tail or not exists:
        return Standing.AHEAD
    return Standing.EVEN if row == tail else Standing.BEHIND


def _trimmed(first: int) -> str:
    return f"it begins with event {first}, what stood before is gone"


def _foreign(first: Position, tail: Position, length: int) -> str:
    if first.epoch != tail.epoch:
        return f"entries of several epochs, {first} to {tail}"
    if first.seq != 0 and length == tail.seq + 1 - first.seq:
        return _trimmed(first.seq)
    if length != tail.seq + 1:
        return f"{tail.seq + 1 - length} of its {tail.seq + 1} events are missing"
    return ""
