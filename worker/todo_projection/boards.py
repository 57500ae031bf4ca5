"""The boards of a process: pages of the list of sessions, and live windows on it, all from one overview."""

import asyncio
import heapq
import logging
import time
from collections import Counter

import msgspec
from redis.exceptions import RedisError

from todo_projection.overview import Overview
from todo_projection.sessions import Entry, Query
from todo_projection.sse import block
from todo_projection.state import STATES, State
from todo_projection.subscriber import State as Trust
from todo_projection.window import Rank, Window, WindowReader, rank
from todo_projection.wire import Wire
from todo_write.log import Client, LayoutMismatch

LOOK_S = 0.25
SWEEP_S = 2.0
SWEEP_SHARE = 10  # a sweep that takes long comes as much more rarely: at most a tenth of the time goes into it
BEHIND_MS = 3000
RETRY_S_MAX = 2.0
YIELD_EVERY = 2000

logger = logging.getLogger(__name__)


class SessionList(msgspec.Struct, frozen=True):
    """A page of the list of sessions.

    ``next`` is the cursor of the page behind it, null at the end; ``counts`` says how many sessions are in each state,
    of all that the text fits; ``now`` is the server's clock (epoch ms); ``problems`` tell which index can't be read.
    """

    sessions: list[Entry]
    next: str | None
    counts: dict[State, int]
    now: int
    problems: list[str]


class Boards:
    """What clients see of all sessions; ``run`` keeps it up to date while somebody looks."""

    def __init__(self, client: Client, wire: Wire, *, stuck_ms: int, quiet_ms: int) -> None:
        self._client = client
        self._overview = Overview(wire, stuck_ms=stuck_ms, quiet_ms=quiet_ms)
        self._windows: dict[Query, Window] = {}
        self._fresh: set[WindowReader] = set()  # clients that have yet to get their first rows
        self._looking = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._due_s: float | None = None  # when the next sweep is due; None: there was none
        self._trust: Trust | None = None

    def open(self, query: Query, *, trust: bool = True) -> WindowReader:
        """A client's view of a window, with the board's status if ``trust``; ``close`` it when done."""
        window = self._windows.get(query)
        if window is None:
            window = self._windows[query] = Window(query, self._overview.entries)
        reader = WindowReader(window, trust=trust)
        if self._trust is not None:
            reader.tell(_status(self._trust))
        if self._trust in (Trust.LIVE, Trust.BEHIND):
            reader.put(window.rows, counted=True)
        else:
            self._fresh.add(reader)  # what is in memory may be from long ago
        self._looking.set()
        return reader

    def close(self, reader: WindowReader) -> None:
        """End a client's view; harmless when done twice."""
        reader.close()
        self._fresh.discard(reader)
        if not reader.window.readers:
            self._windows.pop(reader.window.query, None)
        if not self._windows:
            self._looking.clear()
            self._trust = None

    async def page(self, query: Query, after: Rank | None) -> SessionList:
        """The first sessions of a query behind a place in its order; raises redis errors."""
        async with self._one_at_a_time:
            if self._due_s is None or asyncio.get_running_loop().time() >= self._due_s:
                await self._sweep()
        entries = self._overview.entries
        anywhere = msgspec.structs.replace(query, state=None)
        counts: Counter[State] = Counter()
        ranks: list[Rank] = []
        for number, entry in enumerate(list(entries.values()), 1):
            if anywhere.takes(entry):
                counts[entry.state] += 1
                place = rank(query, entry)
                if place is not None and (after is None or place > after):
                    ranks.append(place)
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        first = heapq.nsmallest(query.limit, ranks)
        return SessionList(
            sessions=[entries[session] for _, session in first if session in entries],
            next=cursor(first[-1]) if len(ranks) > len(first) else None,
            counts={state: counts[state] for state in STATES},
            now=self._overview.recency.now,
            problems=self._overview.recency.problems,
        )

    async def run(self) -> None:
        """Keep the windows up to date for ever; while the server is away their clients are told."""
        pause_s = LOOK_S
        while True:
            await self._looking.wait()
            try:
                async with self._one_at_a_time:
                    await self._step()
                self._greet()
                self._tell(Trust.BEHIND if self._overview.recency.oldest_ms >= BEHIND_MS else Trust.LIVE)
                pause_s = LOOK_S
            except (RedisError, OSError, LayoutMismatch) as error:
                self._tell(Trust.RECONNECTING)
                pause_s = min(pause_s * 2, RETRY_S_MAX)
                logger.warning("redis at %s: the board: %s; next try in %.1f s", self._client.address, error, pause_s)
            except Exception:
                self._tell(Trust.RECONNECTING)
                pause_s = RETRY_S_MAX
                logger.exception("the board failed by a mistake of ours; trying on")
            await asyncio.sleep(pause_s)

    async def _step(self) -> None:
        if self._due_s is None or asyncio.get_running_loop().time() >= self._due_s:
            await self._sweep()
            return
        await self._overview.look(await self._client.keys(create=False))
        self._show()

    async def _sweep(self) -> None:
        began_s = asyncio.get_running_loop().time()
        await self._overview.sweep(await self._client.keys(create=False))
        ended_s = asyncio.get_running_loop().time()
        self._due_s = ended_s + max(SWEEP_S, SWEEP_SHARE * (ended_s - began_s))
        self._show()

    def _greet(self) -> None:
        fresh, self._fresh = self._fresh, set()
        for reader in fresh:
            reader.put(reader.window.rows, counted=True)

    def _show(self) -> None:
        if changes := self._overview.take_changes():
            for window in self._windows.values():
                window.take(changes)

    def _tell(self, trust: Trust) -> None:
        if trust != self._trust:
            self._trust = trust
            for window in self._windows.values():
                for reader in window.readers:
                    reader.tell(_status(trust))


def cursor(place: Rank) -> str:
    """A place in an order as text."""
    return f"{place[0]}:{place[1]}"


def parse_cursor(text: str) -> Rank:
    """The place a cursor names; raises ValueError."""
    score, colon, session = text.partition(":")
    if not colon:
        raise ValueError(text)
    return int(score), session


def _status(trust: Trust) -> bytes:
    return block("status", msgspec.json.encode({"state": trust, "since": time.time_ns() // 1_000_000}))
