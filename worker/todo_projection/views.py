"""All views of a process and who reads them: what arrives is applied once and given to every reader. No I/O."""

import asyncio
import logging
import time
from collections.abc import Iterable

import msgspec

from todo_projection.attach import Held, Verdict, View
from todo_projection.frames import Baseline, Published, decode_published
from todo_projection.row import Row
from todo_projection.subscription import Snapshot, State, Status, Subscription
from todo_write.events import Keys, check_session

logger = logging.getLogger(__name__)


class Views:
    """Watched sessions, their readers, and which baselines are still to be read.

    ``changed`` is set when the set of sessions changes, ``wanting`` when a baseline is to be read. ``frames`` counts
    messages, ``resyncs`` baselines wanted because something was lost or in doubt.
    """

    def __init__(self) -> None:
        self.keys: Keys | None = None
        self.changed = asyncio.Event()
        self.wanting = asyncio.Event()
        self.frames = 0
        self.resyncs = 0
        self._skipped = 0  # by readers that are closed
        self._views: dict[str, View] = {}
        self._readers: dict[str, set[Subscription]] = {}
        self._fresh: set[tuple[Subscription, str]] = set()  # readers that have yet to get their first snapshot
        self._subscriptions: set[Subscription] = set()
        self._wanted: set[str] = set()
        self._unsure: set[str] = set()  # sessions not read again since something broke
        self._faults: set[str] = set()  # what can't be reached at the moment
        self._late: frozenset[int] = frozenset()  # partitions whose oldest event waits for too long

    @property
    def sessions(self) -> set[str]:
        """The sessions somebody watches."""
        return set(self._views)

    @property
    def watched(self) -> dict[str, View]:
        """Their views; one that was dropped and added again has another than before."""
        return dict(self._views)

    @property
    def comparable(self) -> dict[str, Held]:
        """What is held of sessions that can be compared with their rows: a baseline is there, and none is under way."""
        return {
            session: view.whole
            for session, view in self._views.items()
            if view.attached and not view.reading and session not in self._wanted
        }

    @property
    def skipped(self) -> int:
        """Updates that readers did not see because newer ones were there."""
        return self._skipped + sum(subscription.skipped for subscription in self._subscriptions)

    def open(self, sessions: Iterable[str]) -> Subscription:
        """A new reader of these sessions; raises InvalidSession."""
        wanted = [check_session(session) for session in sessions]
        subscription = Subscription(self._watch, self._unwatch)
        self._subscriptions.add(subscription)
        subscription.add(*wanted)
        self.tell()
        return subscription

    def release(self, subscription: Subscription) -> None:
        """Close a reader and forget it; harmless when done twice."""
        subscription.close()
        if subscription in self._subscriptions:
            self._subscriptions.discard(subscription)
            self._skipped += subscription.skipped

    def release_all(self) -> None:
        """Close every reader."""
        for subscription in list(self._subscriptions):
            self.release(subscription)

    def want(self, *sessions: str) -> None:
        """Have these baselines read."""
        self._wanted |= self._views.keys() & set(sessions)
        if self._wanted:
            self.wanting.set()

    def doubt(self, session: str) -> None:
        """Have a baseline read because what is held may be wrong."""
        if session not in self._wanted:
            self.resyncs += 1
            self.want(session)

    def take_wanted(self, count_max: int) -> list[str]:
        """The next sessions whose baselines are read now: from here on their frames are kept, to be applied on top."""
        page = sorted(self._wanted)[:count_max]
        self._wanted.difference_update(page)
        for session in page:
            self._views[session].begin()
        if not self._wanted:
            self.wanting.clear()
        return page

    def arrived(self, session: str, data: bytes) -> None:
        """Take a message of the session's channel."""
        view = self._views.get(session)
        if view is None:
            return
        self.frames += 1
        try:
            frame = decode_published(data)
            if frame.session_id != session:
                raise ValueError("it names another session")
            verdict = view.take(frame)
        except (msgspec.MsgspecError, ValueError) as error:
            logger.warning("session %r: a message on its channel is none of ours: %s", session, error)
            self.doubt(session)
            return
        if verdict in (Verdict.APPLIED, Verdict.GAP, Verdict.BEGUN):
            self._give(session, frame)
        if verdict is Verdict.BEGUN:
            self.want(session)
        if verdict in (Verdict.DOUBT, Verdict.GAP):
            self.doubt(session)

    def replace(self, session: str, row: Row) -> None:
        """Take the row that was read; readers are told when they would see another thing."""
        view = self._views.get(session)
        if view is None:
            return
        before, was_attached = view.baseline, view.attached
        certain = view.replace(row)
        self._unsure.discard(session)
        told = not was_attached or _visible(before) != _visible(view.baseline)
        for subscription in self._readers.get(session, ()):
            if told or (subscription, session) in self._fresh:
                self._fresh.discard((subscription, session))
                subscription.put(session, Snapshot(session, view.baseline))
        if not certain:
            self.doubt(session)

    def compare(self, session: str, asked: Held, epoch: int | None, rev: str | None) -> None:
        """Compare with the stored row, by its epoch and rev; unequal ends in a baseline. See ``View.differs``."""
        view = self._views.get(session)
        if view is not None and view.attached and not view.reading and view.differs(epoch, rev, asked):
            self.doubt(session)

    def lost(self) -> None:
        """What is published goes by unheard: no view can be trusted until its row is read again."""
        self._unsure |= self.sessions

    def fault(self, name: str, *, broken: bool) -> bool:
        """Note that something can or can't be reached; whether that is news."""
        if broken == (name in self._faults):
            return False
        self._faults ^= {name}
        self.tell()
        return True

    def late(self, partitions: frozenset[int]) -> None:
        """Note whose events wait for too long to be projected."""
        self._late = partitions
        self.tell()

    def tell(self) -> None:
        """Tell every reader its state, where it has changed."""
        now = time.time_ns() // 1_000_000
        waiting = {subscription for subscription, _ in self._fresh}
        for subscription in self._subscriptions:
            state = self._state(subscription)
            # A reader that has yet to see its plans hears "live" after them, but at once that there is no way to them.
            if state is State.RECONNECTING or subscription not in waiting:
                subscription.tell(Status(state, now))

    def _state(self, subscription: Subscription) -> State:
        if self._faults or not self._unsure.isdisjoint(subscription.sessions):
            return State.RECONNECTING
        keys = self.keys
        if (
            keys is not None
            and self._late
            and any(keys.partition(session) in self._late for session in subscription.sessions)
        ):
            return State.BEHIND
        return State.LIVE

    def _watch(self, subscription: Subscription, session: str) -> None:
        check_session(session)
        self._readers.setdefault(session, set()).add(subscription)
        self._fresh.add((subscription, session))
        if session not in self._views:
            self._views[session] = View(session)
            self.changed.set()
        elif self._views[session].attached:
            self.want(session)

    def _unwatch(self, subscription: Subscription, session: str) -> None:
        self._fresh.discard((subscription, session))
        self._readers[session].discard(subscription)
        if not self._readers[session]:
            del self._readers[session], self._views[session]
            self._wanted.discard(session)
            self._unsure.discard(session)
            self.changed.set()

    def _give(self, session: str, frame: Published) -> None:
        for subscription in self._readers.get(session, ()):
            subscription.put(session, frame)


def _visible(baseline: Baseline) -> tuple[object, ...]:
    """What a reader sees of a baseline; how far the fold has got is not part of it."""
    return baseline.epoch, baseline.rev, baseline.values, baseline.stale
