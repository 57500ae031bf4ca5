"""A running projection for tests: a worker over a namespace of its own, and a client that writes it."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from todo_projection.cluster import open_wire
from todo_projection.frames import encode
from todo_projection.rows import read_baseline
from todo_projection.settings import Settings
from todo_projection.subscriber import Subscriber
from todo_projection.unit import Unit, check_units, mounted_units
from todo_projection.wire import Wire
from todo_projection.worker import Worker
from todo_write.events import Position
from todo_write.log import Client, SessionLog, connect

WITHIN_S = 10.0
BLOCK_MS = 50  # the worker looks this often whether it is to stop
SCAN_COUNT = 1000


class NotProjected(AssertionError):
    """A row did not get to a position in time; the message says where it stands."""


class Kit:
    """What a test works with: ``client`` writes, ``subscriber`` follows, ``settings`` say where all of it is."""

    def __init__(
        self, settings: Settings, client: Client, subscriber: Subscriber, wire: Wire, working: asyncio.Task[None]
    ) -> None:
        self.settings = settings
        self.client = client
        self.subscriber = subscriber
        self._wire = wire
        self._working = working

    def log(self, session: str) -> SessionLog:
        """The session's log, to be written."""
        return SessionLog(self.client, session)

    async def wait_for(self, session: str, position: Position, *, within_s: float = WITHIN_S) -> dict[str, Any]:
        """What ``show`` gives once an event is projected, by the position its append returned.

        Raises NotProjected after ``within_s``, and what ended the worker, should it have ended.
        """
        reached = asyncio.create_task(self.subscriber.wait_for(session, position))
        try:
            await asyncio.wait({reached, self._working}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            if self._working.done():
                self._working.result()
            shown = await self.show(session)
            if not reached.done():
                raise NotProjected(
                    f"session {session!r} is not projected up to {position} within {within_s} s; its row stands at "
                    f"{shown['epoch']}-{shown['asOfSeq']}"
                )
        finally:
            reached.cancel()
        return shown

    async def show(self, session: str) -> dict[str, Any]:
        """What readers get of the session right now: the baseline as plain JSON."""
        baseline = await read_baseline(self._wire, await self.client.keys(), session)
        shown: dict[str, Any] = msgspec.json.decode(encode(baseline))
        return shown


@asynccontextmanager
async def open_kit(redis_url: str, units: Iterable[Unit] | None = None) -> AsyncGenerator[Kit]:
    """A running projection over a new namespace of this server, which is emptied afterwards.

    ``units`` are those the worker mounts, the installed ones by default. Raises InvalidUnit, InvalidSetting.
    """
    mounted = mounted_units() if units is None else check_units(units)
    settings = Settings.from_env({}, redis_url=redis_url, namespace=f"test-{secrets.token_hex(8)}", block_ms=BLOCK_MS)
    worker, wire = Worker(settings, mounted), open_wire(settings.redis_url)
    async with connect(settings) as client:
        working = asyncio.create_task(worker.run())
        try:
            async with Subscriber(client) as subscriber:
                yield Kit(settings, client, subscriber, wire, working)
        finally:
            worker.stop()
            await asyncio.wait({working})
            await _empty(wire, settings.namespace)
            await wire.aclose()
        working.result()


async def _empty(wire: Wire, namespace: str) -> None:
    """Delete all that stands in the namespace."""
    for primary in await wire.primaries():
        cursor = b"0"
        while True:
            cursor, names = await primary.command("SCAN", cursor, "MATCH", f"{namespace}:*", "COUNT", SCAN_COUNT)
            await wire.pipeline([("UNLINK", name) for name in names])
            if cursor == b"0":
                break
