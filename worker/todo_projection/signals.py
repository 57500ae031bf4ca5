"""Being asked to end: SIGTERM and SIGINT as an event to wait for."""

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """``asked`` is set by the first signal, ``urged`` by the second: somebody does not want to wait."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.urged = asyncio.Event()

    def ask(self) -> None:
        """What a signal does."""
        (self.urged if self.asked.is_set() else self.asked).set()


@contextmanager
def stopping() -> Generator[Stop]:
    """Within the block a signal sets an event instead of ending the process; in a running event loop only."""
    loop, stop = asyncio.get_running_loop(), Stop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stop.ask)
    try:
        yield stop
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
