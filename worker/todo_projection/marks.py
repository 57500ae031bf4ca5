"""Marks: which values may be wrong, since when, because of which event, and what makes them right again."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import msgspec

from todo_projection.frames import Mark
from todo_projection.look import Look, Standing, look_at
from todo_projection.rows import is_wrong_type
from todo_projection.unit import Unit
from todo_projection.wire import Wire
from todo_write.events import Keys, Unsound, decode_entry

MARKS_PER_TRIP = 200

_marks = msgspec.json.Decoder(dict[str, Mark])


class Stale(msgspec.Struct, frozen=True, rename="camel"):
    """One mark, explained: ``unit`` '' and ``seq`` -1 where no row could carry it; ``since`` in epoch ms.

    ``type`` is that of the event at ``seq``, None when it is not in the log.
    """

    session_id: str
    unit: str
    seq: int
    type: str | None
    since: int | None
    reason: str
    heals: str


class Marks:
    """Reads the indexes of marked sessions; raises redis errors."""

    def __init__(self, wire: Wire, keys: Keys, units: Sequence[Unit]) -> None:
        self._wire = wire
        self._keys = keys
        self._units = {unit.key: unit for unit in units}

    async def all(self) -> AsyncGenerator[list[Stale]]:
        """Every mark, a page at a time."""
        for partition in range(self._keys.partitions):
            cursor = b"0"
            while True:
                (reply,) = await self._wire.pipeline(
                    [("HSCAN", self._keys.stale(partition), cursor, "COUNT", MARKS_PER_TRIP)]
                )
                if is_wrong_type(reply):
                    break
                cursor, flat = reply
                page = await self._explain(dict(zip(flat[::2], flat[1::2], strict=True)))
                if page:
                    yield page
                if cursor == b"0":
                    break

    async def of(self, session: str) -> list[Stale]:
        """The marks of one session, none when it has none."""
        index = self._keys.stale(self._keys.partition(session))
        (raw,) = await self._wire.pipeline([("HGET", index, session)])
        return [] if raw is None or is_wrong_type(raw) else await self._explain({session.encode(): raw})

    async def _explain(self, found: Mapping[bytes, bytes]) -> list[Stale]:
        sessions = [name.decode("utf-8", "replace") for name in found]
        looks = await look_at(self._wire, self._keys, sessions)
        marks = [pair for look, raw in zip(looks, found.values(), strict=True) for pair in _of_session(look, raw)]
        types = await self._types([(look, mark) for look, _, mark in marks])
        return [
            Stale(
                look.session,
                unit,
                mark.seq,
                type,
                mark.since if unit else None,
                mark.reason,
                self._heals(look, unit),
            )
            for (look, unit, mark), type in zip(marks, types, strict=True)
        ]

    async def _types(self, marks: Sequence[tuple[Look, Mark]]) -> list[str | None]:
        epochs = [(look.row or look.tail, look, mark) for look, mark in marks]
        ids = [(look, f"{place.epoch if place else 0}-{max(mark.seq, 0)}") for place, look, mark in epochs]
        replies = await self._wire.pipeline([("XRANGE", self._keys.log(look.session), id, id) for look, id in ids])
        return [None if is_wrong_type(reply) or not reply else _type(reply[0]) for reply in replies]

    def _heals(self, look: Look, unit: str) -> str:
        if look.standing is Standing.BROKEN:
            return "rename or delete the key of another type; the next event or the audit folds the session"
        if look.standing in (Standing.ORPHAN, Standing.NOTHING):
            return "nothing: its log is gone; `verify --all --remove-orphans` removes what is left"
        if not look.foldable:
            return f"its log is {look.lack} ({look.foreign}): `rebuild --session {look.session} --partial` adopts it"
        mounted = self._units.get(unit)
        if mounted is None:
            return f"`rebuild --session {look.session}`, once a worker has the unit"
        events = " or ".join(sorted(mounted.heals_on))
        again = f"`rebuild --session {look.session}`, once the unit's code takes the event"
        return f"the next {events}; or {again}" if events else again


def _of_session(look: Look, raw: bytes) -> list[tuple[Look, str, Mark]]:
    try:
        marks = _marks.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return [(look, "", Mark(-1, raw.decode("utf-8", "replace"), 0))]
    return [(look, unit, mark) for unit, mark in sorted(marks.items())]


def _type(stored: Any) -> str | None:
    try:
        return decode_entry(*stored).event.type
    except Unsound:
        return None
