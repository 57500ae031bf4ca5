"""Tasks that run beside others until they are ended."""

import asyncio
from typing import Any

AGAIN_S = 0.1


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until all have ended, whatever they raise.

    Again and again: redis-py sends under asyncio.wait_for, which in Python 3.11 can swallow a cancellation.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)
