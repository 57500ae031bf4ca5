"""A worker as a process: it works until a signal, and is gone when the time for ending is over."""

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

from todo_projection.settings import Settings
from todo_projection.signals import stopping
from todo_projection.unit import Unit
from todo_projection.worker import LEAVE_S, Worker

GC_THRESHOLDS = (50_000, 20, 50)

logger = logging.getLogger(__name__)


def collect_seldom() -> None:
    """Let the garbage collector of this process run less often: for programs that do nothing but project.

    A batch is tens of thousands of small lists that are gone with it and make no cycles; looking through them again and
    again took 1 of 8 µs an event.
    """
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def run(main: Coroutine[Any, Any, None]) -> None:
    """As ``asyncio.run``, on uvloop where the extra ``fast`` has brought it."""
    if not find_spec("uvloop"):
        asyncio.run(main)
        return
    import uvloop  # noqa: PLC0415  an extra: the worker runs without it

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


async def work(settings: Settings, units: Sequence[Unit]) -> None:
    """Run a worker until SIGTERM or SIGINT, then let it finish within ``grace_ms``; a second signal ends it at once.

    Raises LayoutMismatch, OSError when it can't listen on ``metrics_port``. What was not committed in time stays
    pending, and the next worker takes it over.
    """
    worker = Worker(settings, units)
    async with _monitored(worker, settings):
        await _work(worker, settings)


@asynccontextmanager
async def _monitored(worker: Worker, settings: Settings) -> AsyncGenerator[None]:
    if not settings.metrics_port:
        yield
        return
    from todo_projection.monitor import monitoring  # noqa: PLC0415  an extra: the worker runs without it

    async with monitoring(worker.tally, settings):
        logger.info("worker %s: http://%s:%d/metrics", worker.name, settings.metrics_host, settings.metrics_port)
        yield


async def _work(worker: Worker, settings: Settings) -> None:
    with stopping() as stop:
        running = asyncio.create_task(worker.run())
        asked, urged = asyncio.create_task(stop.asked.wait()), asyncio.create_task(stop.urged.wait())
        try:
            await asyncio.wait({running, asked}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                logger.info("worker %s: asked to end; finishing the batch in hand", worker.name)
                worker.stop()
                grace_s = max(0.0, settings.grace_ms / 1000 - LEAVE_S)
                await asyncio.wait({running, urged}, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
            await _end(running, worker)
        finally:
            asked.cancel()
            urged.cancel()


async def _end(running: asyncio.Task[None], worker: Worker) -> None:
    if running.done():
        await running
        logger.info("worker %s: ended, nothing in hand", worker.name)
        return
    running.cancel()
    await asyncio.wait({running})
    logger.warning(
        "worker %s: ended before it was done: %d events in hand were not committed; they stay pending in the feed, "
        "and the next worker takes them over",
        worker.name,
        worker.in_hand,
    )
