"""The list of sessions: read from the indexes and the rows, never by looking through all keys."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from redis.exceptions import ResponseError

from todo_projection.beats import server_time
from todo_projection.board import Board
from todo_projection.frames import Mark
from todo_projection.grant import EVERYTHING, Scope
from todo_projection.ranking import Ranking
from todo_projection.state import State, judge
from todo_projection.wire import Wire
from todo_write.events import Keys, Position

ROWS_PER_TRIP = 200

Sort = Literal["recent", "longest"]

_board = msgspec.json.Decoder(Board)
_marks = msgspec.json.Decoder(dict[str, Mark])


class Entry(msgspec.Struct, frozen=True, rename="camel"):
    """A session in a list: its board, its state and why; times in epoch ms by the server's clock, None if not known."""

    session_id: str
    state: State
    why: str
    board: Board | None
    as_of_seq: int
    epoch: int | None
    last_event: int | None
    stale: dict[str, Mark]


class Query(msgspec.Struct, frozen=True):
    """Which sessions, in which order, and how many; ``stuck_ms`` and ``quiet_ms`` bound the states.

    ``parent`` asks for the children of a session, ``family`` for a session and its children.
    """

    stuck_ms: int
    quiet_ms: int
    state: State | None = None
    text: str = ""
    sort: Sort = "recent"
    limit: int = 50
    scope: Scope = EVERYTHING
    parent: str = ""
    family: str = ""

    def takes(self, entry: Entry) -> bool:
        """Whether the entry is one of those asked for."""
        if not self.scope.holds(entry.session_id):
            return False
        if self.state is not None and entry.state != self.state:
            return False
        board = entry.board or Board()
        if self.parent and board.parent != self.parent:
            return False
        if self.family and self.family not in (entry.session_id, board.parent):
            return False
        told = (entry.session_id, board.title, board.label, board.current)
        return not self.text or any(self.text.casefold() in text.casefold() for text in told if text)


class Listing(msgspec.Struct, frozen=True):
    """What was found at ``now`` (epoch ms, the server's clock), and what could not be read."""

    now: int
    sessions: list[Entry]
    problems: list[str]


async def read_sessions(wire: Wire, keys: Keys, query: Query) -> Listing:
    """The sessions a query asks for; raises redis errors, retried by the caller.

    ``recent`` lists every session by its last event, the newest first; ``longest`` those with an item in progress, the
    longest first. A key of another type is a problem told, the others are listed.
    """
    now = await server_time(wire)
    ranking = _ranking(wire, keys, query)
    found: list[Entry] = []
    problems: list[str] = []
    async for chunk in ranking.chunks():
        for start in range(0, len(chunk), ROWS_PER_TRIP):
            sessions = [session for session, _ in chunk[start : start + ROWS_PER_TRIP]]
            entries = await read_entries(wire, keys, query, sessions, now, problems)
            found += filter(query.takes, entries)
            if len(found) >= query.limit:
                return Listing(now, found[: query.limit], ranking.problems + problems)
    return Listing(now, found, ranking.problems + problems)


def _ranking(wire: Wire, keys: Keys, query: Query) -> Ranking:
    partitions = range(keys.partitions)
    page = max(16, 2 * query.limit // keys.partitions)
    if query.sort == "recent":
        return Ranking(wire, [keys.recent(p) for p in partitions], page=page, highest_first=True)
    return Ranking(wire, [keys.working(p) for p in partitions], page=page, highest_first=False)


async def read_entries(
    wire: Wire, keys: Keys, query: Query, sessions: Sequence[str], now: int, problems: list[str]
) -> list[Entry]:
    """These sessions as they are listed at ``now``, in one round trip; adds to ``problems`` what could not be read.

    Of the query only the bounds of the states matter. Raises redis errors, retried by the caller.
    """
    commands: list[tuple[Any, ...]] = []
    for session in sessions:
        partition = keys.partition(session)
        commands += (
            ("HMGET", keys.row(session), "pos", "units", "board"),
            ("ZSCORE", keys.recent(partition), session),
            ("HGET", keys.stale(partition), session),
        )
    replies = await wire.pipeline(commands)
    thirds = zip(replies[::3], replies[1::3], replies[2::3], strict=True)
    return [
        _entry(session, *three, query=query, now=now, problems=problems)
        for session, three in zip(sessions, thirds, strict=True)
    ]


def _entry(session: str, row: Any, score: Any, mark: Any, *, query: Query, now: int, problems: list[str]) -> Entry:
    why, position, board = _board_of(row)
    last_ms = None if _wrong_type(score) or score is None else int(float(score))
    marks, reason = _marks_of(mark)
    judged = judge(board, now_ms=now, last_ms=last_ms, stuck_ms=query.stuck_ms, quiet_ms=query.quiet_ms)
    why = why or (reason if board is None else None)
    if why:
        problems.append(f"session {session!r}: {why}")
    return Entry(
        session_id=session,
        state=judged.state,
        why=why or judged.why,
        board=board,
        as_of_seq=-1 if board is None or position is None else position.seq,
        epoch=None if board is None or position is None else position.epoch,
        last_event=last_ms,
        stale=marks,
    )


def _board_of(row: Any) -> tuple[str | None, Position | None, Board | None]:
    """What is wrong with a row, its position, its board; None where there is nothing."""
    if _wrong_type(row):
        return "the key of its row holds another type; rename or delete that key", None, None
    pos, units, board = row
    if pos is None or not units:
        return None, None, None
    try:
        position = Position.parse(pos)
        if board is None:
            return "its row has no board; a worker with the unit `board` adds it", position, None
        return None, position, _board.decode(board)
    except (ValueError, msgspec.MsgspecError) as error:
        return f"its row can't be read: {error}; rebuild the session", None, None


def _marks_of(raw: Any) -> tuple[dict[str, Mark], str | None]:
    """Marks by unit, or the text the index holds where a row could not carry a mark."""
    if raw is None or _wrong_type(raw):
        return {}, None
    try:
        return _marks.decode(raw), None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}, raw.decode("utf-8", "replace")


def _wrong_type(reply: Any) -> bool:
    """Whether a key of ours is of another type; raises any other error that stands in the place of a reply."""
    if isinstance(reply, ResponseError) and str(reply).startswith("WRONGTYPE"):
        return True
    if isinstance(reply, Exception):
        raise reply
    return False
