"""A worker of the test's own process, and waiting for what it does."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis

from eventually import eventually
from todo_projection.settings import Settings
from todo_projection.unit import mounted_units
from todo_projection.worker import Worker
from todo_write.events import Keys, Position


@asynccontextmanager
async def working(redis_url: str, namespace: str, **settings: object) -> AsyncGenerator[Worker]:
    """A worker that works while the block runs; without an audit, which would mend what a worker loses."""
    given = {"redis_url": redis_url, "namespace": namespace, "block_ms": 50, "audit_rate": 0, **settings}
    worker = Worker(Settings.from_env({}, **given), mounted_units())
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await running


async def projected(redis: Redis, keys: Keys, session: str, position: Position) -> None:
    """Return once the session's row has reached the position."""

    async def reached() -> bool:
        row: Any = redis  # redis-py types a reply of str or bytes as str
        pos = await row.hget(keys.row(session), "pos")
        return pos is not None and Position.parse(pos) >= position

    await eventually(reached, message=f"session {session!r} is not projected up to {position}")
