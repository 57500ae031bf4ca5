"""Waiting until the projection has reached a position: reading one's own writes."""

import asyncio
from collections.abc import Awaitable, Callable

from todo_projection.wire import Wire
from todo_write.events import Keys, Position

WAIT_S_FIRST = 0.01
WAIT_S_MAX = 0.5


class Waiting:
    """All waiters of a process share one look at the rows: one pipeline a round, rarer the longer nothing moves.

    A round can't miss a commit, so a wake-up is only ever early, never needed.
    """

    def __init__(self, wire: Wire, keys: Callable[[], Awaitable[Keys]]) -> None:
        self._wire = wire
        self._keys = keys
        self._waiters: dict[str, dict[asyncio.Future[Position], Position]] = {}
        self._early = asyncio.Event()

    async def wait_for(self, session: str, position: Position) -> Position:
        """The row's position once it is at or beyond ``position``; put asyncio.timeout around it to give up."""
        waiter: asyncio.Future[Position] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(session, {})[waiter] = position
        self._early.set()
        try:
            return await waiter
        finally:
            waiters = self._waiters.get(session, {})
            waiters.pop(waiter, None)
            if not waiters:
                self._waiters.pop(session, None)

    def wake(self, session: str) -> None:
        """Look at once: this session's row has just changed."""
        if session in self._waiters:
            self._early.set()

    async def look(self) -> None:
        """Look while somebody waits; raises redis errors, and is called again."""
        if not self._waiters:
            await self._early.wait()
        pause_s = WAIT_S_FIRST
        while self._waiters:
            self._early.clear()
            pause_s = WAIT_S_FIRST if await self._round() else min(pause_s * 2, WAIT_S_MAX)
            try:
                await asyncio.wait_for(self._early.wait(), pause_s)
            except TimeoutError:
                continue
            pause_s = WAIT_S_FIRST
        self._early.clear()

    async def _round(self) -> bool:
        """One look at every row waited for; whether somebody's wait is over."""
        keys, sessions = await self._keys(), list(self._waiters)
        rows = await self._wire.pipeline([("HGET", keys.row(session), "pos") for session in sessions])
        done = False
        for session, raw in zip(sessions, rows, strict=True):
            if not isinstance(raw, bytes):
                continue
            reached = Position.parse(raw)
            for waiter, position in self._waiters.get(session, {}).items():
                if reached >= position and not waiter.done():
                    waiter.set_result(reached)
                    done = True
        return done
