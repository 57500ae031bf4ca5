"""Suspects: sessions whose row was not where their log is, looked at again before anybody says that it is lost."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from todo_projection.beats import server_time
from todo_projection.look import Look, Standing, look_at
from todo_projection.rows import is_wrong_type
from todo_projection.wire import Wire
from todo_write.events import Keys, Position

LOOKS_PER_TRIP = 500


class _First(NamedTuple):
    """The first look: where the log ended and with what, and a server time (epoch ms) by which that was pointed at."""

    tail: Position | None
    op: bytes
    seen_ms: int


class Suspects:
    """Raises redis errors, after which those not looked at again are still suspects; at most ``count_max`` are kept.

    A row that is behind may have its pointer waiting: it is behind for good only where its feed holds nothing older
    than the first look, and the row has still not got where the log ended then. A log that lost that end with a
    fail-over goes on with other events, whose pointers are newer: it is looked at as if for the first time.
    """

    def __init__(self, wire: Wire, keys: Keys, *, count_max: int) -> None:
        self._wire = wire
        self._keys = keys
        self._count_max = count_max
        self._first: dict[str, _First] = {}

    def add(self, look: Look, now_ms: int) -> None:
        """Suspect a session that is in trouble; ``now_ms`` is a time of the server's after the look."""
        if look.trouble and len(self._first) < self._count_max:
            first = self._first.get(look.session)
            if first is None or first.seen_ms > now_ms:  # the clock was stepped back
                self._first[look.session] = _First(look.tail, look.op, now_ms)

    async def judge(self) -> list[Look]:
        """Those that are off for good, as they now stand; they and those that came right are no suspects any more."""
        due = await self._due()
        lost: list[Look] = []
        behind: list[tuple[Look, _First]] = []
        for start in range(0, len(due), LOOKS_PER_TRIP):
            looks = await look_at(self._wire, self._keys, due[start : start + LOOKS_PER_TRIP])
            now = await server_time(self._wire)
            for look in looks:
                first = self._first.pop(look.session)
                if look.trouble and _is_other(look.tail, first.tail):
                    self.add(look, now)
                elif look.standing is not Standing.BEHIND or look.row is None or first.tail is None:
                    lost += [look] if look.trouble else []
                elif look.row < first.tail:
                    behind.append((look, first))
        return lost + (await self._of_the_same_log(behind) if behind else [])

    async def _of_the_same_log(self, behind: Sequence[tuple[Look, _First]]) -> list[Look]:
        """Those whose log still has the event that it ended with; the others are suspects anew."""
        ends = [("XRANGE", self._keys.log(look.session), str(first.tail), str(first.tail)) for look, first in behind]
        found, now = await self._wire.pipeline(ends), await server_time(self._wire)
        lost: list[Look] = []
        for (look, first), entries in zip(behind, found, strict=True):
            if not is_wrong_type(entries) and _op_of(entries) == first.op:
                lost.append(look)
            else:
                self.add(look, now)
        return lost

    async def _due(self) -> list[str]:
        """Those whose feed holds nothing from before their first look."""
        partitions = sorted({self._keys.partition(session) for session in self._first})
        heads = await self._wire.pipeline([("XRANGE", self._keys.feed(p), "-", "+", "COUNT", 1) for p in partitions])
        oldest = {p: _ms(head) for p, head in zip(partitions, heads, strict=True) if not is_wrong_type(head)}
        return [session for session, first in self._first.items() if self._is_past(session, first, oldest)]

    def _is_past(self, session: str, first: _First, oldest: dict[int, int | None]) -> bool:
        partition = self._keys.partition(session)
        if partition not in oldest:
            return False  # a feed of another type: nobody can be pointed at
        ms = oldest[partition]
        return ms is None or ms > first.seen_ms


def _is_other(tail: Position | None, before: Position | None) -> bool:
    """Whether the log is another than at the first look, so that its pointers are others too."""
    return tail is not None and before is not None and tail.epoch != before.epoch


def _op_of(entries: Any) -> bytes:
    fields: list[bytes] = entries[0][1] if entries else []
    return dict(zip(fields[::2], fields[1::2], strict=True)).get(b"op", b"")


def _ms(head: Any) -> int | None:
    return int(head[0][0].partition(b"-")[0]) if head else None
