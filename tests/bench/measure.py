"""What a contender is measured by: the clock, its own processor time, and the server's."""

import asyncio
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from importlib.util import find_spec
from typing import Any, TypeVar

import msgspec
import redis


class Job(msgspec.Struct, frozen=True):
    """One drain: which contender, against which server, how many events. Handed to the contender's process as JSON."""

    name: str
    url: str
    events: int
    profile: str = ""


class Measurement(msgspec.Struct, frozen=True):
    """One drain as it went: from the first read to the last acknowledgement."""

    events: int
    wall_s: float
    cpu_s: float
    redis_cpu_s: float

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.wall_s

    @property
    def redis_bound(self) -> float:
        """Events a second at which the server, which works on one core, would be busy all the time."""
        return self.events / self.redis_cpu_s


async def measured(job: Job, drain: Callable[[], Awaitable[float | None]]) -> Measurement:
    """Run ``drain`` once and measure it, until the time that it tells: when all was committed, by ``perf_counter``."""
    before, cpu, start = _redis_cpu_s(job.url), _cpu_s(), time.perf_counter()
    end = await drain()
    wall_s, cpu_s = (end or time.perf_counter()) - start, _cpu_s() - cpu
    return Measurement(job.events, wall_s, cpu_s, _redis_cpu_s(job.url) - before)


T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run in a loop of uvloop where that is installed: every contender the same."""
    if sys.platform != "win32" and find_spec("uvloop"):
        import uvloop  # noqa: PLC0415 - not there on every machine

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work)
    return asyncio.run(work)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _redis_cpu_s(url: str) -> float:
    with redis.Redis.from_url(url) as client:
        used: dict[str, float] = client.info("cpu")
    return used["used_cpu_user"] + used["used_cpu_sys"]
