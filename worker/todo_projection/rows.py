"""Rows in Redis: read many at once, and the hot ones kept."""

import logging
from collections import OrderedDict
from collections.abc import Container, Iterable, Mapping
from typing import Any

from redis.exceptions import ResponseError

from todo_projection.frames import Baseline, Rev
from todo_projection.row import PRESUMED_NEW, WRONG_TYPE, CorruptRow, Row, decode_row
from todo_projection.wire import Wire
from todo_write.events import Keys

HOT_BYTES_MAX = 64 * 1024 * 1024
ROW_OVERHEAD_BYTES = 1024

logger = logging.getLogger(__name__)


class Rows:
    """Stored rows, and a bounded memory of those this worker committed last.

    A remembered row may be old: the commit compares its etag and says so, and the caller forgets it.
    """

    def __init__(self, wire: Wire, keys: Keys, *, hot_bytes_max: int = HOT_BYTES_MAX) -> None:
        self._wire = wire
        self._keys = keys
        self._hot: OrderedDict[str, Row] = OrderedDict()
        self._hot_bytes = 0
        self._hot_bytes_max = hot_bytes_max

    async def load(self, sessions: Iterable[str], *, new: Container[str] = ()) -> dict[str, Row]:
        """The rows of these sessions, from memory or in one round trip; raises redis errors, retried by the caller.

        Those of ``new`` sessions are not looked for where none is remembered: see ``Beginning``.
        """
        found: dict[str, Row] = {}
        cold: list[str] = []
        for session in sessions:
            row = self._hot.get(session)
            if row is not None:
                found[session] = row
            elif session in new:
                found[session] = PRESUMED_NEW
            else:
                cold.append(session)
        if cold:
            replies = await self._wire.pipeline([("HGETALL", self._keys.row(session)) for session in cold])
            found.update((session, row_of(session, reply)) for session, reply in zip(cold, replies, strict=True))
        return found

    def keep(self, session: str, row: Row) -> None:
        """Remember a row as it was just committed."""
        before = self._hot.pop(session, None)
        self._hot[session] = row
        if before is None or before.cells is not row.cells:
            self._hot_bytes += _size(row) - (0 if before is None else _size(before))
        while self._hot_bytes > self._hot_bytes_max:
            self._hot_bytes -= _size(self._hot.popitem(last=False)[1])

    def forget(self, session: str) -> None:
        """Read this row anew next time."""
        row = self._hot.pop(session, None)
        if row is not None:
            self._hot_bytes -= _size(row)

    def forget_all(self) -> None:
        """Read every row anew next time."""
        self._hot.clear()
        self._hot_bytes = 0


async def read_row(wire: Wire, keys: Keys, session: str) -> Row:
    """One row as stored; raises CorruptRow, or redis errors, retried by the caller."""
    (reply,) = await wire.pipeline([("HGETALL", keys.row(session))])
    return stored_row(keys, session, reply)


def stored_row(keys: Keys, session: str, reply: Any) -> Row:
    """One row as stored, from a pipeline's reply; raises as ``read_row``."""
    if is_wrong_type(reply):
        raise CorruptRow(f"session {session!r}: key {keys.row(session)} is no hash; rename or delete that key")
    return decode_row(session, _fields(reply))


async def read_baseline(wire: Wire, keys: Keys, session: str) -> Baseline:
    """All values of a session from one HGETALL, cut at one position; raises as ``read_row``."""
    return (await read_row(wire, keys, session)).baseline(session)


def row_of(session: str, reply: Any) -> Row:
    """A row from a pipeline's reply, WRONG_TYPE for a key of another type; raises redis errors.

    Of a row that can't be read only etag, rev and adoption are known: it is folded again, its rev goes on rising.
    """
    if is_wrong_type(reply):
        return WRONG_TYPE
    fields = _fields(reply)
    try:
        return decode_row(session, fields)
    except CorruptRow as error:
        logger.warning("%s; its units are folded again from the start of the log", error)
        return Row(etag=_text(fields, b"etag"), rev=_rev(fields), partial=b"partial" in fields)


def is_wrong_type(reply: Any, *, raising: bool = True) -> bool:
    """Whether a key is of another type than ours; raises any other error that stands in the place of a reply."""
    if isinstance(reply, ResponseError) and str(reply).startswith("WRONGTYPE"):
        return True
    if raising and isinstance(reply, Exception):
        raise reply
    return False


def _fields(reply: Any) -> dict[bytes, bytes]:
    """A hash reply, flat (RESP2), as a mapping."""
    return dict(zip(reply[::2], reply[1::2], strict=True))


def _rev(fields: Mapping[bytes, bytes]) -> Rev | None:
    try:
        return Rev.parse(fields.get(b"rev", b""))
    except ValueError:
        return None


def _text(fields: Mapping[bytes, bytes], name: bytes) -> str:
    return fields.get(name, b"").decode("utf-8", "surrogateescape")


def _size(row: Row) -> int:
    return ROW_OVERHEAD_BYTES + sum(len(cell.value) + len(cell.state or b"") for cell in row.cells.values())
