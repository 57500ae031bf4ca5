"""The subscriber: keeps the views of watched sessions equal to the stored rows, whatever is lost on the way.

Subscribe, wait for the confirmation, read the baseline, apply frames; after every confirmation a baseline again; and a
poll that compares, since a server that lost its role goes on answering and says nothing.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from todo_projection.attach import View
from todo_projection.background import end
from todo_projection.channels import Channels, Confirmed, Message
from todo_projection.cluster import open_wire
from todo_projection.frames import Deleted, Frame, Rev
from todo_projection.row import CorruptRow, Row
from todo_projection.rows import is_wrong_type, stored_row
from todo_projection.shards import Shards, open_channels
from todo_projection.subscription import Snapshot, State, Status, Subscription, Update
from todo_projection.views import Views
from todo_projection.waiting import Waiting
from todo_projection.wire import settled
from todo_write.events import Keys, Position, check_session
from todo_write.log import Client, LayoutMismatch

POLL_MS = 3000
BEHIND_MS = 3000
BASELINES_MAX = 200
RETRY_S_FIRST = 0.05
RETRY_S_MAX = 2.0
RECHECK_S_MIN = 0.05
LATE_S = 1.0  # between two looks at a feed that is late

__all__ = ["Deleted", "Frame", "Snapshot", "State", "Status", "Subscriber", "Subscription", "Update", "subscribe"]

Unavailable = (RedisError, OSError, LayoutMismatch)

logger = logging.getLogger(__name__)


class Subscriber:
    """One per process: one pub/sub connection for all its subscriptions. ``async with`` it, then ``subscription()``.

    Outlives the server: while that is away the status is ``reconnecting``.
    """

    def __init__(self, client: Client, *, poll_ms: int = POLL_MS, behind_ms: int = BEHIND_MS) -> None:
        self.views = Views()
        self._client = client
        self._wire = open_wire(client.settings.redis_url, timeout_s=poll_ms / 1000)
        self._poll_s = poll_ms / 1000
        self._behind_ms = behind_ms
        self._waiting = Waiting(self._wire, self._layout)
        self._tasks: list[asyncio.Task[None]] = []
        self._asked: Keys | None = None  # by which the channels were named
        self._unreadable: dict[str, str] = {}  # what was said of rows that can't be read

    async def __aenter__(self) -> Self:
        always = asyncio.Event()
        always.set()
        steps = {
            "channels": (self._hear, always),
            "baselines": (self._read, self.views.wanting),
            "rows": (self._poll, always),
            "positions": (self._waiting.look, self._waiting.needed),
        }
        self._tasks = [asyncio.create_task(self._repeat(name, *step)) for name, step in steps.items()]
        return self

    async def __aexit__(self, *_: object) -> None:
        await end(*self._tasks)
        self.views.release_all()
        await self._wire.aclose()

    def subscription(self, *sessions: str) -> Subscription:
        """A reader's own set of sessions; ``release`` it when done. Raises InvalidSession."""
        return self.views.open(sessions)

    def release(self, subscription: Subscription) -> None:
        """Close a subscription and forget it; harmless when done twice."""
        self.views.release(subscription)

    async def wait_for(self, session: str, position: Position) -> Position:
        """The row's position once it is at or beyond the one an append returned; see ``Waiting``."""
        return await self._waiting.wait_for(check_session(session), position)

    async def _repeat(self, name: str, step: Callable[[], Awaitable[None]], needed: asyncio.Event) -> None:
        """Repeat a step for as long as it is needed; while it fails the status says so, and the pauses grow."""
        pause_s = RETRY_S_FIRST
        while True:
            if not needed.is_set():
                self.views.fault(name, broken=False)
                await needed.wait()
            try:
                await step()
                self.views.fault(name, broken=False)
                continue
            except Unavailable as error:
                pause_s = RETRY_S_FIRST if self.views.fault(name, broken=True) else min(pause_s * 2, RETRY_S_MAX)
                logger.warning("redis at %s: %s: %s; next try in %.2f s", self._client.address, name, error, pause_s)
            except Exception:
                self.views.fault(name, broken=True)
                logger.exception("subscriber: %s failed by a mistake of ours; trying on", name)
                pause_s = RETRY_S_MAX
            await asyncio.sleep(pause_s)

    async def _layout(self) -> Keys:
        """Key names, asked for anew until the first writer has laid the namespace out."""
        self.views.keys = await self._client.keys(create=False)
        if self._asked is not None and self._asked.partitions != self.views.keys.partitions:
            self.views.changed.set()
        return self.views.keys

    async def _hear(self) -> None:
        """The life of one pub/sub connection."""
        keys = await self._layout()
        channels = await open_channels(self._client)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._ask(channels, keys))
                group.create_task(self._listen(channels))
        except ExceptionGroup as broken:
            raise broken.exceptions[0] from None
        finally:
            self.views.lost()
            await channels.close()

    async def _ask(self, channels: Channels | Shards, keys: Keys) -> None:
        """Keep the channels asked for equal to the sessions watched."""
        asked: dict[str, View] = {}
        self._asked = keys
        while True:
            self.views.changed.clear()
            if self.views.keys is not None and self.views.keys.partitions != keys.partitions:
                raise RedisConnectionError("the namespace was laid out meanwhile: other channels")
            wanted = self.views.watched
            await channels.subscribe(keys.channel(session) for session in wanted.keys() - asked.keys())
            await channels.unsubscribe(keys.channel(session) for session in asked.keys() - wanted.keys())
            # Dropped and added again since: nothing is left to be confirmed, and yet nothing is known.
            self.views.want(*(session for session in asked if wanted.get(session, asked[session]) != asked[session]))
            asked = wanted
            await self.views.changed.wait()

    async def _listen(self, channels: Channels | Shards) -> None:
        silent = False
        while True:
            heard = await channels.read(self._poll_s)
            if heard is None and silent:
                raise TimeoutError("the pub/sub connection does not answer")
            silent = heard is None
            if heard is None:
                await channels.ping()
                continue
            self.views.fault("channels", broken=False)
            match heard:
                case Confirmed(channel):
                    self.views.want(_session_of(channel))
                case Message(channel, data):
                    session = _session_of(channel)
                    self.views.arrived(session, data)
                    self._waiting.wake(session)
                case _:
                    pass

    async def _read(self) -> None:
        """Read the baselines that are wanted."""
        keys = await self._layout()
        page = self.views.take_wanted(BASELINES_MAX)
        try:
            replies = await self._wire.pipeline([("HGETALL", keys.row(session)) for session in page])
            rows = [self._row(keys, session, reply) for session, reply in zip(page, replies, strict=True)]
        except BaseException:
            self.views.want(*page)
            raise
        for session, row in zip(page, rows, strict=True):
            self.views.replace(session, row)
        self.views.tell()

    def _row(self, keys: Keys, session: str, reply: Any) -> Row:
        """The row; one that can't be read counts as none, and is told once."""
        try:
            row = stored_row(keys, session, reply)
        except CorruptRow as error:
            if self._unreadable.get(session) != str(error):
                self._unreadable[session] = str(error)
                logger.error("%s; the others go on", error)  # noqa: TRY400  the message says it all
            return Row()
        self._unreadable.pop(session, None)
        return row

    async def _poll(self) -> None:
        """Compare every row watched with its view, and see whether the feeds concerned move."""
        keys, sessions = await self._layout(), self.views.comparable
        partitions = sorted({keys.partition(session) for session in self.views.sessions})
        clock, *replies = await self._wire.pipeline(
            [
                ("TIME",),
                *(("HMGET", keys.row(session), "pos", "rev") for session in sessions),
                *(("XRANGE", keys.feed(partition), "-", "+", "COUNT", 1) for partition in partitions),
            ]
        )
        for (session, asked), row in zip(sessions.items(), replies[: len(sessions)], strict=True):
            self.views.compare(session, asked, *_identity(row))
        (clock,) = settled([clock])
        now = int(clock[0]) * 1000 + int(clock[1]) // 1000
        firsts = zip(partitions, replies[len(sessions) :], strict=True)
        ages = {partition: now - _feed_ms(first) for partition, first in firsts if not is_wrong_type(first) and first}
        self.views.late(frozenset(partition for partition, age in ages.items() if age >= self._behind_ms))
        self.views.fault("rows", broken=False)
        # Look again when the oldest event that still waits would be too old, not a whole round later.
        due = [(self._behind_ms - age) / 1000 if age < self._behind_ms else LATE_S for age in ages.values()]
        await asyncio.sleep(min([self._poll_s, *(max(wait, RECHECK_S_MIN) for wait in due)]))


@asynccontextmanager
async def subscribe(client: Client, *sessions: str) -> AsyncGenerator[Subscription]:
    """Updates of these sessions, with a subscriber of their own; raises InvalidSession.

    ``async with subscribe(client, "s1") as plans: async for update in plans: …``
    """
    async with Subscriber(client) as subscriber:
        yield subscriber.subscription(*sessions)


def _session_of(channel: str) -> str:
    """The session of ``<ns>:{<tag>}:updates:<session>``: neither a namespace nor a tag has a colon."""
    return channel.split(":", 3)[3]


def _identity(reply: Any) -> tuple[int | None, str | None]:
    """Epoch and rev as a row holds them; a row that can't be read counts as none."""
    pos, rev = (None, None) if is_wrong_type(reply) else reply
    try:
        return (None if pos is None else Position.parse(pos).epoch), (None if rev is None else str(Rev.parse(rev)))
    except ValueError:
        return None, None


def _feed_ms(first: Any) -> int:
    return int(first[0][0].partition(b"-")[0])
