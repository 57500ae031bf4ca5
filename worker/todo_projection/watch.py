"""Following sessions: subscribe, wait for the confirmation, read the baseline, then frames as they are published.

The plain attach rule: a session is read anew whenever its subscription is confirmed, so also after a lost connection.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import msgspec
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from todo_projection.frames import Baseline, Frame, Published, Rev, decode_published
from todo_projection.retry import patiently
from todo_projection.row import CorruptRow
from todo_projection.rows import read_baseline, read_row
from todo_projection.settings import Settings
from todo_projection.store import Store
from todo_projection.wire import CONNECT_TIMEOUT_S
from todo_write.events import check_session

LISTEN_S = 0.25

logger = logging.getLogger(__name__)

Order = tuple[int, int]


class Followed:
    """Sessions that are followed over one connection of their own; ``add`` more at any time. Close it when done."""

    def __init__(self, store: Store, settings: Settings, stop: asyncio.Event) -> None:
        self._store = store
        self._stop = stop
        self._sessions: dict[bytes, str] = {}  # by channel
        self._subscribed: set[bytes] = set()
        self._held: dict[tuple[str, str], Order] = {}  # by session and key; key "" is what the baseline said of all
        self._redis = Redis.from_url(
            settings.redis_url,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            socket_keepalive=True,
        )
        self._pubsub: Any = None  # Any: redis-py leaves messages untyped

    def add(self, *sessions: str) -> None:
        """Follow these sessions too; each begins with its baseline. Raises InvalidSession."""
        for session in sessions:
            self._sessions[self._store.keys.channel(check_session(session)).encode()] = session

    async def updates(self) -> AsyncGenerator[Baseline | Published]:
        """Baselines and what is published after them, until ``stop``; waits while the server is away, loudly."""
        while not self._stop.is_set():
            update = await patiently(self._next, address=self._store.address, stop=self._stop)
            if update is not None:
                yield update

    async def aclose(self) -> None:
        """Close the connection."""
        if self._pubsub is not None:
            await self._pubsub.aclose()
        await self._redis.aclose()

    async def _next(self) -> Baseline | Published | None:
        try:
            message = await self._listen()
            if message is None:
                return None
            session = self._sessions[message["channel"]]
            if message["type"] == "subscribe":
                return await self._read(session)
            return self._newer(session, message["data"])
        except BaseException:
            # Whatever was published while nobody listened is gone: subscribe anew, and read every baseline again.
            self._subscribed.clear()
            pubsub, self._pubsub = self._pubsub, None
            if pubsub is not None:
                await pubsub.aclose()
            raise

    async def _listen(self) -> Any:
        if self._pubsub is None:
            self._pubsub = self._redis.pubsub()
        new = self._sessions.keys() - self._subscribed
        if new:
            await self._pubsub.subscribe(*new)
            self._subscribed |= new
        if not self._subscribed:
            await asyncio.sleep(LISTEN_S)
            return None
        return await self._pubsub.get_message(timeout=LISTEN_S)

    async def _read(self, session: str) -> Baseline | None:
        try:
            row = await read_row(self._store.wire, self._store.keys, session)
        except CorruptRow as error:
            logger.error("%s; the others go on", error)  # noqa: TRY400  the message says it all
            return None
        for held in [held for held in self._held if held[0] == session]:
            del self._held[held]
        # From the row, not from the baseline: a tombstone's place is one too, and frames before it are old.
        if row.position is not None:
            self._held[session, ""] = row.position.epoch, 0 if row.rev is None else row.rev.n
        return row.baseline(session)

    def _newer(self, session: str, raw: bytes) -> Published | None:
        try:
            published = decode_published(raw)
            arrived = published.epoch, Rev.parse(published.rev).n
        except (msgspec.MsgspecError, ValueError) as error:
            logger.warning("session %r: a message on its channel is none of ours: %s", session, error)
            return None
        key = published.key if isinstance(published, Frame) else ""
        held = max(self._held.get((session, key), (-1, 0)), self._held.get((session, ""), (-1, 0)))
        if arrived <= held:
            return None
        self._held[session, key] = arrived
        return published


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
