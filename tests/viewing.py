"""A reader of plans in the test's own process: what it shows, by nothing but the updates it is given."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from eventually import eventually
from projecting import working
from servers import Server
from todo_projection.frames import Deleted, Frame, Rev
from todo_projection.subscriber import Snapshot, State, Status, Subscriber, Subscription, Update
from todo_write.log import Client

ABSENT = "absent"


class Viewer:
    """What one subscription shows. Between two snapshots the revs of a key only rise: it fails where they do not."""

    def __init__(self, subscriber: Subscriber, *sessions: str) -> None:
        self.subscriber = subscriber
        self.plans: Subscription = subscriber.subscription(*sessions)
        self.updates: list[Update] = []
        self.values: dict[str, dict[str, Any]] = {}
        self.stale: dict[str, dict[str, Any]] = {}
        self.states: list[State] = []
        self._orders: dict[tuple[str, str], tuple[int, int]] = {}

    async def read(self) -> None:
        """Take updates for ever."""
        async for update in self.plans:
            self._take(update)

    def of(self, kind: type[Update]) -> list[Any]:
        """All updates of a kind so far."""
        return [update for update in self.updates if isinstance(update, kind)]

    def value(self, session: str, key: str = "todos") -> Any:
        """What is shown now, 'absent' when there is no such value."""
        return self.values.get(session, {}).get(key, ABSENT)

    async def shows(self, session: str, value: Any, within: float = 10) -> None:
        """Return once it shows this value of ``todos``."""

        def shown() -> bool:
            assert self.value(session) == value, f"{str(self.value(session))[:200]}, {self.states[-1:]}"
            return True

        await eventually(shown, within, f"{session} never showed {str(value)[:200]}")

    async def is_told(self, state: str, within: float = 10) -> None:
        """Return once the last status is this one."""
        await eventually(lambda: self.states[-1:] == [state], within, f"never {state}: {self.states}")

    async def begun(self, session: str) -> None:
        """Return once the first snapshot of the session is there."""
        await eventually(lambda: session in self.values, message=f"{session}: no snapshot; {self.states}")

    def _take(self, update: Update) -> None:
        self.updates.append(update)
        match update:
            case Snapshot(session, baseline):
                self.values[session] = {key: json.loads(bytes(raw)) for key, raw in baseline.values.items()}
                self.stale[session] = dict(baseline.stale)
                self._orders = {key: order for key, order in self._orders.items() if key[0] != session}
            case Frame():
                self._rises(update)
                self.values.setdefault(update.session_id, {})[update.key] = json.loads(bytes(update.value))
                marks = self.stale.setdefault(update.session_id, {})
                marks.pop(update.key, None)
                if update.stale:
                    marks[update.key] = update.stale
            case Deleted():
                self.values[update.session_id], self.stale[update.session_id] = {}, {}
            case Status():
                self.states.append(update.state)

    def _rises(self, frame: Frame) -> None:
        key, order = (frame.session_id, frame.key), (frame.epoch, Rev.parse(frame.rev).n)
        assert order > self._orders.get(key, (-1, 0)), f"{key} goes back from {self._orders[key]} to {order}"
        self._orders[key] = order


@asynccontextmanager
async def viewing(client: Client, *sessions: str, poll_ms: int = 3000) -> AsyncGenerator[Viewer]:
    """A viewer with a subscriber of its own, reading while the block runs."""
    async with Subscriber(client, poll_ms=poll_ms) as subscriber, reading(Viewer(subscriber, *sessions)) as viewer:
        yield viewer


@asynccontextmanager
async def reading(viewer: Viewer) -> AsyncGenerator[Viewer]:
    """The viewer, reading while the block runs; fails with what its reading failed with."""
    task = asyncio.create_task(viewer.read())
    try:
        yield viewer
    finally:
        viewer.subscriber.release(viewer.plans)
        await task


@asynccontextmanager
async def mute_worker(server: Server, redis: Any, namespace: str) -> AsyncGenerator[None]:
    """A worker that may do everything but publish."""
    await redis.acl_setuser(
        "mute", enabled=True, passwords=["+p"], keys="*", channels="*", commands=["+@all", "-publish"]
    )
    async with working(server.url.replace("redis://", "redis://mute:p@"), namespace):
        yield
