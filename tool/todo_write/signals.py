"""Being asked to end, for programs that run until somebody does."""

import asyncio
import contextlib
import signal
from collections.abc import Generator


@contextlib.contextmanager
def until_signal() -> Generator[None]:
    """The first SIGINT or SIGTERM cancels the body, and that is a good end; the second one does what it always does."""
    loop, body = asyncio.get_running_loop(), asyncio.current_task()
    asked = False

    def ask() -> None:
        nonlocal asked
        asked = True
        release()
        if body is not None:
            body.cancel()

    def release() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ask)
    try:
        yield
    except asyncio.CancelledError:
        if not asked:
            raise
    finally:
        release()
