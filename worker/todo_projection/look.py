"""A look at a session from outside: where its log and its row stand, and whether the two belong together."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from todo_projection.row import decode_versions, encode_versions
from todo_projection.wire import Call, Script, Wire, settled
from todo_write.events import Keys, Position, token

_look = Script("look")
_repoint = Script("repoint")


class Standing(StrEnum):
    """What a look says of a session."""

    EVEN = "even"
    BEHIND = "behind"  # the row has yet to reach the log's tail
    AHEAD = "ahead"  # the row stands where the log is not: the log went back, or another one began before it
    ORPHAN = "orphan"  # a row with values, and no log
    NOTHING = "nothing"  # neither, or a tombstone
    BROKEN = "broken"  # a key of another type, or a position that is none


class Look(msgspec.Struct, frozen=True):
    """Log and row of one session at one moment; ``foreign`` says why the log can't be folded whole, '' otherwise."""

    session: str
    standing: Standing
    tail: Position | None = None
    row: Position | None = None
    etag: str = ""
    versions: dict[str, int] = {}
    foreign: str = ""
    why: str = ""


async def look_at(wire: Wire, keys: Keys, sessions: Sequence[str]) -> list[Look]:
    """A look at each session, in one round trip; raises redis errors but those that concern one session."""
    calls: list[Call] = [([keys.log(session), keys.row(session)], []) for session in sessions]
    replies = await _look.call_all(wire, calls)
    return [_seen(session, reply) for session, reply in zip(sessions, replies, strict=True)]


async def point_again(
    wire: Wire, keys: Keys, look: Look, *, refold: Collection[str] = (), partial: bool = False
) -> bool:
    """Have a worker look at the session; False when the row has changed since the look, or there is no log.

    ``refold`` names units to be folded from the log's start; where the row is ahead of the log, that must be all of
    them. ``partial``: take the log as it stands from now on, with its holes. Raises redis errors.
    """
    fields: list[str] = []
    if refold:
        fields = ["etag", token(), "units", encode_versions({**look.versions, **dict.fromkeys(refold, 0)})]
        if look.tail is not None and (partial or look.row is None or look.row > look.tail):
            fields += ["pos", str(Position(look.tail.epoch, -1))]
        if partial:
            fields += ["partial", "1"]
    names = [keys.log(look.session), keys.feed(keys.partition(look.session)), keys.row(look.session)]
    (reply,) = settled(await _repoint.call_all(wire, [(names, [look.session, look.etag, *fields])]))
    return bool(reply[0] == b"ok")


def _seen(session: str, reply: Any) -> Look:
    if isinstance(reply, Exception):
        if not str(reply).startswith("WRONGTYPE"):
            raise reply
        return Look(session, Standing.BROKEN, why=str(reply))
    try:
        return _look_of(session, [part.decode() for part in reply])
    except ValueError as error:
        return Look(session, Standing.BROKEN, why=str(error))


def _look_of(session: str, parts: Sequence[str]) -> Look:
    tail_text, _, first_text, length, pos, etag, units = parts
    tail = Position.parse(tail_text) if tail_text else None
    row = Position.parse(pos) if pos else None
    versions = decode_versions(units.encode())
    foreign = "" if tail is None else _foreign(Position.parse(first_text), tail, int(length))
    return Look(session, _standing(tail, row, exists=bool(versions)), tail, row, etag, versions, foreign)


def _standing(tail: Position | None, row: Position | None, *, exists: bool) -> Standing:
    if tail is None:
        return Standing.ORPHAN if exists else Standing.NOTHING
    if row is None or (not exists and row.epoch < tail.epoch):
        return Standing.BEHIND
    if row > tail:
        return Standing.AHEAD
    return Standing.EVEN if row == tail and exists else Standing.BEHIND


def _foreign(first: Position, tail: Position, length: int) -> str:
    if first.epoch != tail.epoch:
        return f"entries of several epochs, {first} to {tail}"
    if first.seq != 0:
        return f"it begins with {first}, what stood before is gone"
    if length != tail.seq + 1:
        return f"{tail.seq + 1 - length} of its {tail.seq + 1} events are missing"
    return ""
