"""A bare subscriber to everything that is published: per session and key it must only ever rise."""

import asyncio
import json
from contextlib import suppress
from typing import Any, Self

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from chaos.script import NAMESPACE

PATTERN = f"{NAMESPACE}:*:updates:*"


class Ear:
    """Listens while the block runs, through whatever happens to its connection. ``fallen`` tells what did not rise."""

    def __init__(self, url: str) -> None:
        self.frames = 0
        self.fallen: list[str] = []
        self._url = url
        self._newest: dict[tuple[str, str], tuple[int, int]] = {}
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _listen(self) -> None:
        while True:
            redis: Any = Redis.from_url(self._url, socket_timeout=5, retry=Retry(NoBackoff(), 0))
            try:
                async with redis, redis.pubsub() as pubsub:
                    await pubsub.psubscribe(PATTERN)
                    while True:
                        message = await pubsub.get_message(timeout=1.0)
                        if message is not None and message["type"] == "pmessage":
                            self._hear(json.loads(message["data"]))
            except (RedisError, OSError):
                await asyncio.sleep(0.05)  # nobody waits for this: the server is away, or has just cut us off

    def _hear(self, frame: dict[str, Any]) -> None:
        self.frames += 1
        session, order = frame["sessionId"], (frame["epoch"], int(frame["rev"].partition("-")[0]))
        place = (session, frame.get("key", ""))
        before = max(self._newest.get(place, (0, 0)), self._newest.get((session, ""), (0, 0)))
        if order <= before:
            self.fallen.append(f"{place}: {order} after {before}")
        self._newest[place] = max(order, before)
