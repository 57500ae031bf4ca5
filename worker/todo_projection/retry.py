"""How a worker waits for a server that is away: for ever, loudly, and no longer than five seconds at a time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.exceptions import RedisError
from tenacity import AsyncRetrying, RetryCallState, RetryError, retry_if_exception_type, wait_exponential_jitter
from tenacity.wait import wait_base

WAIT_S_FIRST = 0.1
WAIT_S_MAX = 5.0

T = TypeVar("T")


class Contended(RedisError):
    """Sessions changed under every try to commit them; their pointers stay pending, and a later step tries again."""


logger = logging.getLogger(__name__)

# Everything a server or the way to it can answer: refused, silent, loading, full, read only, group gone, no permission.
Unavailable = (RedisError, OSError)


class Patience(wait_base):
    """Waits that grow with each failure until ``rest``: what fails again and again in several calls is no quicker."""

    def __init__(self) -> None:
        self._failures = 0
        self._wait = wait_exponential_jitter(multiplier=WAIT_S_FIRST, max=WAIT_S_MAX, jitter=WAIT_S_FIRST)

    def __call__(self, retry_state: RetryCallState) -> float:
        """The next wait, in seconds."""
        self._failures += 1
        retry_state.attempt_number = self._failures
        return self._wait(retry_state)

    def rest(self) -> None:
        """All is well: the next wait is a first one."""
        self._failures = 0


async def patiently(
    call: Callable[[], Awaitable[T]], *, address: str, stop: asyncio.Event, patience: Patience | None = None
) -> T | None:
    """The result of ``call``, repeated while the server is Unavailable; None when ``stop`` is set first.

    One warning a wait names the address and the cause. Any other error is raised: it is a mistake of ours.
    """

    def loudly(state: RetryCallState) -> None:
        cause = state.outcome.exception() if state.outcome else None
        wait_s = state.next_action.sleep if state.next_action else 0.0
        logger.warning("redis at %s: %s: %s; next try in %.1f s", address, type(cause).__name__, cause, wait_s)

    async def sleep(seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):  # asyncio.wait_for can swallow a cancellation in Python 3.11
                await stop.wait()
        except TimeoutError:
            return

    async def attempt() -> T:
        return await call()  # tenacity does not await what a lambda returns

    attempts = AsyncRetrying(
        retry=retry_if_exception_type(Unavailable),
        wait=patience or Patience(),
        stop=lambda _: stop.is_set(),
        before_sleep=loudly,
        sleep=sleep,
    )
    try:
        return await attempts(attempt)
    except RetryError:
        return None
