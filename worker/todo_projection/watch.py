"""Watching sessions: a view that moves on a terminal, a line an update elsewhere, JSON lines for programs."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from redis.exceptions import RedisError
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from todo_projection.background import end
from todo_projection.checklist import Checklist, badge, line
from todo_projection.frames import Baseline
from todo_projection.output import print_json
from todo_projection.plain import cut
from todo_projection.row import CorruptRow
from todo_projection.rows import read_baseline
from todo_projection.settings import Settings
from todo_projection.store import Store
from todo_projection.subscriber import Snapshot, State, Status, Subscription, Update, subscribe
from todo_write.log import connect

DRAW_S_MIN = 0.05
DRAW_S_MAX = 1.0
HEAD_ROWS = 2
LIST_ROWS_MIN = 3  # a head, an item, an empty line

logger = logging.getLogger(__name__)


class Watched:
    """What a screen shows of some sessions; draws itself no higher than the console is."""

    def __init__(self, sessions: Iterable[str]) -> None:
        self.note = ""
        self._lists = {session: Checklist(session) for session in sessions}
        self._status: Status | None = None

    def take(self, update: Update) -> None:
        """Take an update."""
        if isinstance(update, Status):
            self._status = update
            if update.state is State.LIVE:
                self.note = ""
            return
        session = update.session if isinstance(update, Snapshot) else update.session_id
        self._lists[session] = self._lists[session].after(update)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The state, and why it is not live; each list, or, where the console is too low for lists, a line of each."""
        yield Text("connecting", "yellow") if self._status is None else badge(self._status)
        yield Text(cut(self.note, options.max_width), "bright_black", no_wrap=True)
        rows, lists = (options.height or console.height) - HEAD_ROWS, list(self._lists.values())
        if len(lists) * LIST_ROWS_MIN > rows:
            shown = lists if len(lists) <= rows else lists[: max(rows - 1, 0)]
            for checklist in shown:
                yield Text(cut(checklist.line(), options.max_width), no_wrap=True)
            if len(shown) < len(lists):
                yield Text(f"… {len(lists) - len(shown)} more", "bright_black")
            return
        heights = shares([checklist.height for checklist in lists], rows - len(lists) + 1)
        for checklist, height in zip(lists, heights, strict=True):
            yield msgspec.structs.replace(checklist, rows=height)
            yield Text()


class Note(logging.Handler):
    """The last log line at the foot of what is shown, for as long as it is not live."""

    def __init__(self, watched: Watched) -> None:
        super().__init__()
        self._watched = watched

    def emit(self, record: logging.LogRecord) -> None:
        """Show one record."""
        self._watched.note = record.getMessage()


@asynccontextmanager
async def following(settings: Settings, sessions: Sequence[str], stop: asyncio.Event) -> AsyncGenerator[Subscription]:
    """The updates of these sessions until ``stop``, also while the server is away; raises LayoutMismatch."""
    async with connect(settings) as client:
        try:
            await client.keys(create=False)
        except (RedisError, OSError) as error:
            logger.warning("redis at %s: %s; plans come when it does", client.address, error)
        async with subscribe(client, *sessions) as plans:
            ending = asyncio.create_task(_close(plans, stop))
            try:
                yield plans
            finally:
                await end(ending)


async def watch_json(settings: Settings, sessions: Sequence[str], stop: asyncio.Event) -> None:
    """Print each update as it is published: baselines, frames, and the state with since when (epoch ms)."""
    async with following(settings, sessions, stop) as plans:
        async for update in plans:
            print_json(published(update))


async def watch(settings: Settings, sessions: Sequence[str], console: Console, stop: asyncio.Event) -> None:
    """Show plans on a console until ``stop``: redrawn on a terminal, a line an update elsewhere."""
    if not console.is_terminal:
        async with following(settings, sessions, stop) as plans:
            async for update in plans:
                console.print(line(update))
        return
    watched = Watched(sessions)
    note = Note(watched)
    logging.getLogger().addHandler(note)
    try:
        async with following(settings, sessions, stop) as plans:
            await _draw(plans, watched, console)
    finally:
        logging.getLogger().removeHandler(note)
    console.print(watched)


def shares(needs: Sequence[int], rows: int) -> list[int]:
    """How many rows each gets: what it needs where that is there, else what is left in equal parts."""
    given, left = [0] * len(needs), rows
    for rank, n in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        given[n] = min(needs[n], left // (len(needs) - rank))
        left -= given[n]
    return given


def published(update: Update) -> Any:
    """An update in the form in which it is published."""
    match update:
        case Snapshot(_, baseline):
            return baseline
        case Status():
            return update._asdict()
        case _:
            return update


async def read_baselines(store: Store, sessions: Iterable[str]) -> tuple[list[Baseline], list[str]]:
    """The baselines of these sessions as they are now, and what is wrong with those that can't be read."""
    found: list[Baseline] = []
    broken: list[str] = []
    for session in sessions:
        try:
            found.append(await read_baseline(store.wire, store.keys, session))
        except CorruptRow as error:
            broken.append(str(error))
    return found, broken


async def _close(plans: Subscription, stop: asyncio.Event) -> None:
    await stop.wait()
    plans.close()


async def _draw(plans: Subscription, watched: Watched, console: Console) -> None:
    """On the terminal's other screen, so that what stood there before comes back at the end."""
    with Live(watched, console=console, screen=True, auto_refresh=False) as live:
        while not plans.closed:
            live.refresh()
            await asyncio.sleep(DRAW_S_MIN)
            try:
                async with asyncio.timeout(DRAW_S_MAX):  # the terminal may have got another size
                    updates = await plans.take()
            except TimeoutError:
                continue
            for update in updates:
                watched.take(update)
