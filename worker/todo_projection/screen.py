"""The screen of ``up``: a table that moves on a terminal, a line a frame elsewhere."""

import asyncio
import time

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from todo_projection.checklist import badge, line
from todo_projection.plans import Plans
from todo_projection.retry import patiently
from todo_projection.sessions import Listing, Query, read_sessions
from todo_projection.settings import Settings
from todo_projection.status import Status, read_status
from todo_projection.store import Store
from todo_projection.subscriber import State, Subscriber, Subscription
from todo_projection.subscriber import Status as Trust
from todo_projection.tables import backlog_text, sessions_table
from todo_write.log import connect

LOOK_S = 2.0
DRAW_S_MIN = 0.1
DRAW_S_MAX = 1.0
SESSIONS_MAX = 200
LINES_AROUND_TABLE = 6


class Screen:
    """Shows the sessions of a store on a console until it is cancelled; while the server is away it waits."""

    def __init__(self, console: Console, store: Store, settings: Settings, stop: asyncio.Event) -> None:
        self._console = console
        self._store = store
        self._settings = settings
        self._stop = stop
        self._plans = Plans(settings)
        self._trust: Trust | None = None
        self._status: Status | None = None
        self._clock = (0, 0.0)  # the server's, and ours at the same moment
        self._changed = asyncio.Event()

    async def show(self) -> None:
        """Look, follow and draw; raises what is a mistake of ours."""
        async with connect(self._settings) as client, Subscriber(client) as subscriber:
            followed = subscriber.subscription()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._look(followed))
                tasks.create_task(self._follow(followed))
                if self._console.is_terminal:
                    tasks.create_task(self._draw())

    async def _look(self, followed: Subscription) -> None:
        while True:
            found = await patiently(self._read, address=self._store.address, stop=self._stop)
            if found is None:
                return
            listing, self._status = found
            self._clock = listing.now, time.monotonic()
            self._plans.relist(listing)
            listed = {entry.session_id for entry in listing.sessions}
            followed.drop(*(followed.sessions - listed))
            followed.add(*sorted(listed))
            self._changed.set()
            await asyncio.sleep(LOOK_S)

    async def _read(self) -> tuple[Listing, Status]:
        wire, keys, settings = self._store.wire, self._store.keys, self._settings
        limit = SESSIONS_MAX
        if self._console.is_terminal:
            limit = max(1, min(limit, self._console.height - LINES_AROUND_TABLE))
        query = Query(stuck_ms=settings.stuck_ms, quiet_ms=settings.quiet_ms, limit=limit)
        return await read_sessions(wire, keys, query), await read_status(wire, keys, beat_ms=settings.beat_ms)

    async def _follow(self, followed: Subscription) -> None:
        async for update in followed:
            if isinstance(update, Trust):
                self._trust = update
            else:
                self._plans.take(update, self._now())
            self._changed.set()
            if not self._console.is_terminal:
                self._console.print(line(update))

    async def _draw(self) -> None:
        with Live(console=self._console, auto_refresh=False, get_renderable=self._picture) as live:
            while True:
                live.refresh()
                await asyncio.sleep(DRAW_S_MIN)
                try:
                    await asyncio.wait_for(self._changed.wait(), DRAW_S_MAX)  # ages move even when nothing else does
                except TimeoutError:
                    continue
                self._changed.clear()

    def _picture(self) -> Group:
        return Group(Text(), sessions_table(self._plans.entries(), self._now()), Text(), self._foot())

    def _foot(self) -> Text:
        if self._status is None:
            return Text("waiting for redis", "yellow")
        working = sum(worker.state == "working" for worker in self._status.workers)
        workers = Text(f"{working} workers" if working != 1 else "1 worker", "" if working else "red")
        foot = workers.append(" · ", "").append(f"backlog: {backlog_text(self._status)}", "")
        if self._trust is not None and self._trust.state is not State.LIVE:
            foot.append(" · ").append_text(badge(self._trust))
        return foot

    def _now(self) -> int:
        """The server's clock (epoch ms)."""
        server, ours = self._clock
        return server + int((time.monotonic() - ours) * 1000)
