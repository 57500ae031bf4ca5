"""What streams carry: the plans of sessions, with the events of one, or a board's window."""

import asyncio
import logging
import time
from collections.abc import Iterable

import msgspec
from redis.exceptions import RedisError

from todo_projection import frames
from todo_projection.boards import Boards
from todo_projection.frames import Baseline, Deleted, EventFrame, Frame
from todo_projection.sse import block
from todo_projection.stream import Source
from todo_projection.subscriber import Snapshot, Subscriber, Subscription, Update
from todo_projection.tail import Rewound, Tail, Tails
from todo_projection.tally import Histogram
from todo_projection.window import WindowReader
from todo_write.events import Entry, Position

RETRY_S = 0.5
DELIVERY_S_MAX = 600.0

logger = logging.getLogger(__name__)


class Plans:
    """Baselines, frames and status of some sessions, the newest of each only."""

    def __init__(self, subscriber: Subscriber, subscription: Subscription, delivery_s: Histogram) -> None:
        self._subscriber = subscriber
        self._subscription = subscription
        self._delivery_s = delivery_s

    async def take(self) -> list[bytes]:
        """See ``Source``."""
        return [_update(update) for update in _measured(await self._subscription.take(), self._delivery_s)]

    def close(self) -> None:
        """See ``Source``."""
        self._subscriber.release(self._subscription)


class BoardRows:
    """The rows of a board's window, the newest of each only."""

    def __init__(self, boards: Boards, reader: WindowReader) -> None:
        self._boards = boards
        self._reader = reader

    async def take(self) -> list[bytes]:
        """See ``Source``."""
        return await self._reader.take()

    def close(self) -> None:
        """See ``Source``."""
        self._boards.close(self._reader)


class Veiled:
    """Sessions that the reader may not see, told as sessions that nobody wrote to; beside them, those of a source.

    ``after`` is where the reader of a session's events says it stands.
    """

    def __init__(self, hidden: Iterable[str], seen: Plans, after: Position | None = None) -> None:
        self._seen = seen
        self._blocks = [_update(Snapshot(session, Baseline.unknown(session))) for session in hidden]
        if after is not None:
            self._blocks.append(_rewound(Rewound(str(after), None)))

    async def take(self) -> list[bytes]:
        """See ``Source``."""
        if self._blocks:
            blocks, self._blocks = self._blocks, []
            return blocks
        return await self._seen.take()

    def close(self) -> None:
        """See ``Source``."""
        self._seen.close()


class PlanAndEvents:
    """The plan of one session, and its events one by one, none left out: they carry ids to go on from.

    They begin behind ``after``, or, without it, behind the position of the first snapshot.
    """

    def __init__(
        self,
        subscriber: Subscriber,
        subscription: Subscription,
        tails: Tails,
        after: Position | None,
        delivery_s: Histogram,
    ) -> None:
        self._plan = Plans(subscriber, subscription, delivery_s)
        self._subscription = subscription
        self._delivery_s = delivery_s
        self._tails = tails
        self._after = after
        self._tail: Tail | None = None
        self._waiting: dict[str, asyncio.Task[list[bytes]]] = {}
        self._closed = False

    async def take(self) -> list[bytes]:
        """See ``Source``; what was begun goes on when this is cancelled."""
        if self._closed:
            return []
        if "plan" not in self._waiting:
            self._waiting["plan"] = asyncio.create_task(self._updates())
        if "events" not in self._waiting and self._tail is not None:
            self._waiting["events"] = asyncio.create_task(self._events(self._tail))
        await asyncio.wait(self._waiting.values(), return_when=asyncio.FIRST_COMPLETED)
        done = [name for name, task in self._waiting.items() if task.done()]
        return [piece for name in done for piece in _result(self._waiting.pop(name))]

    def close(self) -> None:
        """See ``Source``."""
        self._closed = True
        self._plan.close()
        if self._tail is not None:
            self._tails.close(self._tail)
        if "events" in self._waiting:
            self._waiting["events"].cancel()

    async def _updates(self) -> list[bytes]:
        updates = await self._subscription.take()
        for update in updates:
            if isinstance(update, Snapshot) and self._tail is None and not self._closed:
                self._tail = self._tails.open(update.session, self._after or _reached(update.baseline))
        return [_update(update) for update in _measured(updates, self._delivery_s)]

    async def _events(self, tail: Tail) -> list[bytes]:
        while True:
            try:
                found = await tail.read()
            except (RedisError, OSError) as error:
                logger.debug("events of a session: %s", error)  # the plan's status says it to the client
                await asyncio.sleep(RETRY_S)
                continue
            if isinstance(found, Rewound):
                return [_rewound(found)]
            return [_event(tail.session, entry) for entry in found]


class Together:
    """What several sources have, each in its own order."""

    def __init__(self, *sources: Source) -> None:
        self._sources = sources
        self._waiting: dict[Source, asyncio.Task[list[bytes]]] = {}
        self._closed = False

    async def take(self) -> list[bytes]:
        """See ``Source``; what was begun goes on when this is cancelled."""
        if self._closed:
            return []
        for source in self._sources:
            if source not in self._waiting:
                self._waiting[source] = asyncio.create_task(source.take())
        await asyncio.wait(self._waiting.values(), return_when=asyncio.FIRST_COMPLETED)
        done = [source for source, task in self._waiting.items() if task.done()]
        return [piece for source in done for piece in _result(self._waiting.pop(source))]

    def close(self) -> None:
        """See ``Source``."""
        self._closed = True
        for source in self._sources:
            source.close()


def _reached(baseline: Baseline) -> Position:
    return Position(baseline.epoch or 0, baseline.as_of_seq)


def _rewound(found: Rewound) -> bytes:
    return block("rewound", msgspec.json.encode(found._asdict()), found.tail or "")


def _result(task: asyncio.Task[list[bytes]]) -> list[bytes]:
    return [] if task.cancelled() else task.result()


def _event(session: str, entry: Entry) -> bytes:
    return block("event", frames.encode(EventFrame(session, entry.event)), str(entry.position))


def _measured(updates: list[Update], delivery_s: Histogram) -> list[Update]:
    """The updates, on their way to a client; how long those took that are of now: a refold tells old times again."""
    now_s = time.time()
    for update in updates:
        if isinstance(update, Frame) and now_s - update.time / 1000 < DELIVERY_S_MAX:
            delivery_s.add(max(0.0, now_s - update.time / 1000))
    return updates


def _update(update: Update) -> bytes:
    match update:
        case Snapshot(_, baseline):
            return block("snapshot", frames.encode(baseline))
        case Frame():
            return block("projection", frames.encode(update))
        case Deleted():
            return block("deleted", frames.encode(update))
        case status:
            return block("status", msgspec.json.encode(status._asdict()))
