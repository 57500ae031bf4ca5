"""The canary: an event now and then in a session of its own, by which gateways see whether delivery lives."""

import asyncio
import logging
from typing import Any

from redis.exceptions import RedisError

from todo_write.events import CANARY, TODO_WRITE, Position
from todo_write.log import Client, LogRewound, NotSaved, OutcomeUnknown, SessionLog
from todo_write.signals import until_signal

EVENTS_MAX = 1000  # then its log begins anew: nobody needs the old ones
PLAN = {"todos": [{"content": "canary", "status": "pending"}]}

_logger = logging.getLogger(__name__)


async def sing(client: Client) -> Position:
    """Append one event, whose time is the server's clock, and return its position; raises as ``append``."""
    log = SessionLog(client, CANARY)
    tail = await log.tail()
    if tail is not None and tail.seq + 1 >= EVENTS_MAX:
        await log.delete()
    answer: Any = await client.ask("TIME")
    now_ms = int(answer[0]) * 1000 + int(answer[1]) // 1000
    return await log.append(TODO_WRITE, PLAN, time=now_ms)


async def keep_singing(client: Client, *, every_s: float) -> None:
    """Append one every so often until SIGINT or SIGTERM; what fails is told, and the next one is tried in its turn."""
    with until_signal():
        while True:
            try:
                await sing(client)
            except (NotSaved, OutcomeUnknown, LogRewound, RedisError, OSError) as error:
                _logger.warning("the canary is not heard: %s", error)
            await asyncio.sleep(every_s)
