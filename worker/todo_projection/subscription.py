"""What one reader of plans gets: the newest of each session, never a queue. One latest-wins slot per session."""

import asyncio
from collections.abc import AsyncIterator, Callable
from enum import StrEnum
from typing import NamedTuple

from todo_projection.frames import Baseline, Deleted, Frame, Published


class State(StrEnum):
    """How far what is shown can be trusted: ``stale`` is another matter, it belongs to a value."""

    LIVE = "live"
    BEHIND = "behind"
    RECONNECTING = "reconnecting"


class Snapshot(NamedTuple):
    """Replaces everything held of the session."""

    session: str
    baseline: Baseline


class Status(NamedTuple):
    """The state has changed; ``since`` in epoch ms by this process's clock."""

    state: State
    since: int


Update = Snapshot | Frame | Deleted | Status


class _Slot:
    """What a reader has yet to see of one session: a snapshot, then the newest frame per key."""

    __slots__ = ("deleted", "frames", "snapshot")

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self.deleted: Deleted | None = None
        self.frames: dict[str, Frame] = {}

    def put(self, update: Snapshot | Published) -> int:
        """Take an update; returns how many older ones it made superfluous."""
        skipped = 0
        if isinstance(update, Frame):
            skipped = int(self.frames.pop(update.key, None) is not None)
            self.frames[update.key] = update  # behind the others: what was published last comes last
            return skipped
        skipped = len(self.frames) + (self.snapshot is not None) + (self.deleted is not None)
        self.frames.clear()
        self.snapshot = update if isinstance(update, Snapshot) else None
        self.deleted = update if isinstance(update, Deleted) else None
        return skipped

    def take(self) -> list[Update]:
        """Everything unseen, in the order in which it must be shown."""
        first = [update for update in (self.snapshot, self.deleted) if update is not None]
        return [*first, *self.frames.values()]


class Subscription:
    """Updates of a changing set of sessions, as an async iterator.

    A slow reader skips to the newest value and is never buffered for: at most a snapshot and one frame per key of each
    session wait for it, and the newest status. ``skipped`` counts what it did not see.
    """

    def __init__(self, add: Callable[["Subscription", str], None], drop: Callable[["Subscription", str], None]) -> None:
        self.sessions: set[str] = set()
        self.skipped = 0
        self._add = add
        self._drop = drop
        self._slots: dict[str, _Slot] = {}
        self._status: Status | None = None
        self._told: State | None = None
        self._news = asyncio.Event()
        self._closed = False

    def add(self, *sessions: str) -> None:
        """Watch these sessions too; each begins with its snapshot. Raises InvalidSession; nothing when it is closed."""
        for session in sessions:
            if session not in self.sessions and not self._closed:
                self._add(self, session)
                self.sessions.add(session)

    def drop(self, *sessions: str) -> None:
        """Watch these sessions no longer; nothing of them comes any more."""
        for session in sessions:
            if session in self.sessions:
                self.sessions.discard(session)
                self._slots.pop(session, None)
                self._drop(self, session)

    def close(self) -> None:
        """End the iteration and watch nothing; harmless when done twice."""
        self.drop(*list(self.sessions))
        self._closed = True
        self._news.set()

    @property
    def closed(self) -> bool:
        """Whether nothing comes any more."""
        return self._closed

    def put(self, session: str, update: Snapshot | Published) -> None:
        """Give the reader an update of one of its sessions."""
        if session in self.sessions:
            self.skipped += self._slots.setdefault(session, _Slot()).put(update)
            self._news.set()

    def tell(self, status: Status) -> None:
        """Give the reader the status, unless it has been told the same."""
        pending = self._told if self._status is None else self._status.state
        if status.state != pending:
            self._status = status
            self._news.set()

    async def take(self) -> list[Update]:
        """Everything unseen, waiting for the first; empty when the subscription is closed."""
        await self._news.wait()
        self._news.clear()
        if self._closed:
            self._news.set()
            return []
        updates = [update for slot in self._slots.values() for update in slot.take()]
        self._slots.clear()
        status, self._status = self._status, None
        if status is not None and status.state != self._told:
            self._told = status.state
            updates.append(status)
        return updates

    async def __aiter__(self) -> AsyncIterator[Update]:
        """Each update in turn; ends when the subscription is closed."""
        while True:
            updates = await self.take()
            if not updates and self._closed:
                return
            for update in updates:
                yield update
