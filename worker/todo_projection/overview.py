"""All sessions as a board shows them: read once for a whole process, and kept up to date while somebody looks."""

import heapq
from itertools import islice

import msgspec

from todo_projection.recency import Recency
from todo_projection.sessions import Entry, Query, read_entries
from todo_projection.state import judge
from todo_projection.wire import Wire
from todo_write.events import Keys

SETTLE_MS = 2000  # a second event of the same millisecond leaves its index as it was: a young row is read again
TURN_ROWS = 100  # rows read anew with each sweep: a refold or a repair changes one without an event
ROWS_PER_TRIP = 200

Changes = dict[str, Entry | None]  # by session, None: it is gone


class Overview:
    """The entries of all sessions of a namespace, by id. Raises redis errors, retried by the caller."""

    def __init__(self, wire: Wire, *, stuck_ms: int, quiet_ms: int) -> None:
        self.entries: dict[str, Entry] = {}
        self.recency = Recency(wire)
        self._wire = wire
        self._bounds = Query(stuck_ms, quiet_ms)
        self._unread: dict[str, None] = {}
        self._young: set[str] = set()
        self._turn: list[str] = []
        self._due: list[tuple[int, str]] = []  # when time alone may change a state
        self._due_at: dict[str, int] = {}
        self._changes: Changes = {}

    def take_changes(self) -> Changes:
        """What has changed since this was called last."""
        changes, self._changes = self._changes, {}
        return changes

    async def look(self, keys: Keys) -> None:
        """Take in what had an event within the last moments, and what time has changed."""
        moved = await self.recency.look(keys)
        self._unread |= dict.fromkeys(moved.changed)
        await self._read(keys)

    async def sweep(self, keys: Keys) -> None:
        """Take in everything that has changed."""
        moved = await self.recency.sweep(keys)
        for session in moved.gone:
            self._forget(session)
        young, self._young = self._young, set()
        self._turn = self._turn or list(self.entries)
        turn = [self._turn.pop() for _ in range(min(TURN_ROWS, len(self._turn)))]
        again = [*young, *turn]
        self._unread |= dict.fromkeys(moved.changed)
        self._unread |= dict.fromkeys(session for session in again if session in self.entries)
        await self._read(keys)

    async def _read(self, keys: Keys) -> None:
        while page := list(islice(self._unread, ROWS_PER_TRIP)):
            # Of a row that can't be read its entry says why.
            for entry in await read_entries(self._wire, keys, self._bounds, page, self.recency.now, []):
                self._take(entry)
            for session in page:
                self._unread.pop(session, None)
        self._let_time_pass()

    def _take(self, entry: Entry) -> None:
        session, before = entry.session_id, self.entries.get(entry.session_id)
        self.entries[session] = entry
        if before is None or _visible(before) != _visible(entry):
            self._changes[session] = entry
        if entry.last_event is not None and self.recency.now - entry.last_event < SETTLE_MS:
            self._young.add(session)
        self._schedule(entry)

    def _forget(self, session: str) -> None:
        if self.entries.pop(session, None) is not None:
            self._changes[session] = None
        self._unread.pop(session, None)
        self._due_at.pop(session, None)

    def _schedule(self, entry: Entry) -> None:
        """Note when the entry's state is another by time alone."""
        if entry.state not in ("active", "quiet"):
            return
        since = entry.board.since if entry.board else None
        bounds = (since, self._bounds.stuck_ms), (entry.last_event, self._bounds.quiet_ms)
        turns = [begin + length + 1 for begin, length in bounds if begin is not None]
        due = min((turn for turn in turns if turn > self.recency.now), default=None)
        if due is not None and due < self._due_at.get(entry.session_id, due + 1):
            self._due_at[entry.session_id] = due
            heapq.heappush(self._due, (due, entry.session_id))

    def _let_time_pass(self) -> None:
        now = self.recency.now
        while self._due and self._due[0][0] <= now:
            due, session = heapq.heappop(self._due)
            entry = self.entries.get(session)
            if self._due_at.get(session) != due or entry is None:
                continue
            del self._due_at[session]
            stuck_ms, quiet_ms = self._bounds.stuck_ms, self._bounds.quiet_ms
            judged = judge(entry.board, now_ms=now, last_ms=entry.last_event, stuck_ms=stuck_ms, quiet_ms=quiet_ms)
            self._take(msgspec.structs.replace(entry, state=judged.state, why=judged.why))


def _visible(entry: Entry) -> Entry:
    """What makes an entry another one: not its why, which grows older by itself."""
    return msgspec.structs.replace(entry, why="")
