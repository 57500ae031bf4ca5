"""A board's window: the first sessions of one query, kept up to date, and what each of its clients has yet to see."""

import asyncio
import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from todo_projection.sessions import Entry, Query
from todo_projection.sse import block
from todo_projection.state import STATES, State

Changes = Mapping[str, Entry | None]  # by session, None: it is gone
Rank = tuple[int, str]


class Gone(msgspec.Struct, frozen=True, rename="camel"):
    """The session is not in the window any more."""

    session_id: str


def rank(query: Query, entry: Entry) -> Rank | None:
    """Where the entry stands in the query's order, the smallest first; None when it is not asked for."""
    if not query.takes(entry):
        return None
    if query.sort == "recent":
        return -(entry.last_event or 0), entry.session_id
    since = entry.board.since if entry.board else None
    return None if since is None else (since, entry.session_id)


class Window:
    """The sessions in a window as blocks of an event stream, each made once for all clients."""

    def __init__(self, query: Query, entries: Mapping[str, Entry]) -> None:
        self.query = query
        self.readers: set[WindowReader] = set()
        self.rows: dict[str, bytes] = {}
        self._entries = entries
        self._any_state = msgspec.structs.replace(query, state=None)
        self._ranks: dict[str, Rank] = {}
        self._states: dict[str, State] = {}
        self._counts: Counter[State] = Counter()
        self._parent: str | None = None
        self.take(entries)

    @property
    def counts(self) -> bytes:
        """How many sessions are in each state, of those that the query's text fits."""
        return block("counts", msgspec.json.encode({state: self._counts[state] for state in STATES}))

    def take(self, changes: Changes) -> None:
        """Take what has changed, and let the clients know what they have to see of it."""
        before = self.counts
        changes = self._with_parent(changes)
        for session, entry in changes.items():
            self._count(session, entry)
            place = None if entry is None else self._place(entry)
            if place is None:
                self._ranks.pop(session, None)
            else:
                self._ranks[session] = place
        news = self._show(changes)
        counted = before != self.counts
        if news or counted:
            for reader in self.readers:
                reader.put(news, counted=counted)

    def _with_parent(self, changes: Changes) -> Changes:
        """Of a family the parent too; which session that is, only its child says."""
        child = changes.get(self.query.family)
        parent = None if child is None or child.board is None else child.board.parent
        if child is None or parent == self._parent:
            return changes
        concerned, self._parent = {self._parent, parent}, parent
        return {**changes, **{one: self._entries[one] for one in concerned if one is not None and one in self._entries}}

    def _place(self, entry: Entry) -> Rank | None:
        if entry.session_id == self._parent and self.query.scope.holds(entry.session_id):
            return -(entry.last_event or 0), entry.session_id
        return rank(self.query, entry)

    def _count(self, session: str, entry: Entry | None) -> None:
        if session in self._states:
            self._counts[self._states.pop(session)] -= 1
        if entry is not None and self._any_state.takes(entry):
            self._states[session] = entry.state
            self._counts[entry.state] += 1

    def _show(self, changes: Changes) -> list[str]:
        """Bring the rows up to date; the sessions whose row has gone, come or changed, the first of the order first."""
        inside = self._first()
        gone = self.rows.keys() - inside
        for session in gone:
            del self.rows[session]
        news = sorted((inside - self.rows.keys()) | (inside & changes.keys()), key=self._ranks.__getitem__)
        for session in news:
            self.rows[session] = block("row", msgspec.json.encode(self._entries[session]))
        return [*gone, *news]

    def _first(self) -> AbstractSet[str]:
        if len(self._ranks) <= self.query.limit:
            return self._ranks.keys()
        return set(heapq.nsmallest(self.query.limit, self._ranks, key=self._ranks.__getitem__))


class WindowReader:
    """What one client has yet to see of a window: which sessions, never what of them, so it skips to the newest."""

    def __init__(self, window: Window, *, trust: bool = True) -> None:
        self.window = window
        self._trust = trust  # whether it is told how far the board can be trusted
        self._unseen: dict[str, None] = {}
        self._has: set[str] = set()
        self._counts = False
        self._status: bytes | None = None
        self._news = asyncio.Event()
        self._closed = False
        window.readers.add(self)

    def put(self, sessions: Iterable[str], *, counted: bool) -> None:
        """These rows are not what they were, nor, if ``counted``, the counts."""
        self._unseen.update(dict.fromkeys(sessions))
        self._counts = self._counts or counted
        self._news.set()

    def tell(self, status: bytes) -> None:
        """The board's status is another now."""
        if self._trust:
            self._status = status
            self._news.set()

    async def take(self) -> list[bytes]:
        """Blocks of everything new, waiting for the first; nothing when closed."""
        await self._news.wait()
        if self._closed:
            return []
        self._news.clear()
        blocks = [piece for session in self._unseen if (piece := self._see(session))]
        self._unseen.clear()
        if self._counts:
            blocks.append(self.window.counts)
        if self._status is not None:
            blocks.append(self._status)
        self._counts, self._status = False, None
        return blocks

    def close(self) -> None:
        """See nothing more; harmless when done twice."""
        self._closed = True
        self.window.readers.discard(self)
        self._news.set()

    def _see(self, session: str) -> bytes | None:
        if (row := self.window.rows.get(session)) is not None:
            self._has.add(session)
            return row
        if session in self._has:
            self._has.discard(session)
            return block("gone", msgspec.json.encode(Gone(session)))
        return None
