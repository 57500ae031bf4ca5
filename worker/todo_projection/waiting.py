"""Waiting until the projection has reached a position: reading one's own writes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from todo_projection.rows import is_wrong_type
from todo_projection.wire import Wire
from todo_write.events import Keys, Position

WAIT_S_FIRST = 0.01
WAIT_S_MAX = 0.5


class Waiting:
    """All waiters of a process share one look at the rows: one pipeline a round, rarer the longer nothing moves.

    A round can't miss a commit, so a wake-up makes it earlier and is never needed; ``needed`` while somebody waits.
    """

    def __init__(self, wire: Wire, keys: Callable[[], Awaitable[Keys]]) -> None:
        self.needed = asyncio.Event()
        self._wire = wire
        self._keys = keys
        self._waiters: dict[str, dict[asyncio.Future[Position], Position]] = {}
        self._early = asyncio.Event()

    async def wait_for(self, session: str, position: Position) -> Position:
        """The row's position once it is at or beyond ``position``; put asyncio.timeout around it to give up."""
        waiter: asyncio.Future[Position] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(session, {})[waiter] = position
        self.needed.set()
        self._early.set()
        try:
            return await waiter
        finally:
            waiters = self._waiters[session]
            del waiters[waiter]
            if not waiters:
                del self._waiters[session]
            if not self._waiters:
                self.needed.clear()

    def wake(self, session: str) -> None:
        """Look at once: this session's row has just changed."""
        if session in self._waiters:
            self._early.set()

    async def look(self) -> None:
        """Look while somebody waits; raises redis errors, and is called again."""
        pause_s = WAIT_S_FIRST
        while self._waiters:
            self._early.clear()
            moved = await self._round()
            await asyncio.sleep(WAIT_S_FIRST)  # however often it is woken: those who woke it share the next round
            pause_s = WAIT_S_FIRST if moved else min(pause_s * 2, WAIT_S_MAX)
            try:
                async with asyncio.timeout(pause_s - WAIT_S_FIRST):
                    await self._early.wait()
            except TimeoutError:
                continue
            pause_s = WAIT_S_FIRST

    async def _round(self) -> bool:
        """One look at every row waited for; whether somebody's wait is over."""
        keys, sessions = await self._keys(), list(self._waiters)
        rows = await self._wire.pipeline([("HGET", keys.row(session), "pos") for session in sessions])
        reached = {session: _position(raw) for session, raw in zip(sessions, rows, strict=True)}
        done = False
        for session, position in reached.items():
            for waiter, wanted in self._waiters.get(session, {}).items():
                if position is not None and position >= wanted and not waiter.done():
                    waiter.set_result(position)
                    done = True
        return done


def _position(reply: Any) -> Position | None:
    """Where a row stands; one that can't be read stands nowhere until it is mended."""
    if reply is None or is_wrong_type(reply):
        return None
    try:
        return Position.parse(reply)
    except ValueError:
        return None
