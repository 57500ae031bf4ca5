"""The one place where tests wait: for a condition, never for a time."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast, overload

T = TypeVar("T")

INTERVAL_S = 0.01


@overload
async def eventually(
    predicate: Callable[[], Awaitable[T]], within: float = 10.0, message: str = "the condition never held"
) -> T: ...
@overload
async def eventually(
    predicate: Callable[[], T], within: float = 10.0, message: str = "the condition never held"
) -> T: ...
async def eventually(
    predicate: Callable[[], object], within: float = 10.0, message: str = "the condition never held"
) -> object:
    """First truthy value of ``predicate``, sync or async; fails with the last value after ``within`` seconds.

    An AssertionError inside the predicate counts as "not yet"; any other error is the test's failure, at once.
    """
    deadline = asyncio.get_running_loop().time() + within
    last: object = None
    while asyncio.get_running_loop().time() < deadline:
        limit = asyncio.timeout_at(deadline)
        try:
            async with limit:
                answer = predicate()
                last = await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer
        except AssertionError as error:
            last = error
        except TimeoutError:
            if not limit.expired():
                raise
            break  # the predicate itself hung: what it said before is all there is
        else:
            if last:
                return last
        await asyncio.sleep(INTERVAL_S)
    raise AssertionError(f"{message}; after {within} s the last value was {last!r}")
