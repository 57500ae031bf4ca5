"""The one place where tests wait: for a condition, never for time."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

INTERVAL_S = 0.01


async def eventually(
    predicate: Callable[[], T | Awaitable[T]], within: float = 10.0, message: str = "the condition never held"
) -> T:
    """The first truthy value of ``predicate`` (sync or async); fails with the last value after ``within`` seconds.

    A predicate that raises is a failing test at once, except for AssertionError, which counts as "not yet".
    """
    deadline = time.monotonic() + within
    while True:
        value: object
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + max(deadline - time.monotonic(), 0)):
                answer = predicate()
                value = await answer if inspect.isawaitable(answer) else answer
        except AssertionError as error:
            value = error
        else:
            if value:
                return value  # type: ignore[return-value]
        if time.monotonic() >= deadline:
            raise AssertionError(f"{message}; after {within} s the last value was {value!r}")
        await asyncio.sleep(INTERVAL_S)
