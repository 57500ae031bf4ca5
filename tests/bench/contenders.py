"""Who takes part: each drains the same events, in a process of its own."""

import functools
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Literal, NamedTuple

from bench.measure import Job

Drain = Callable[[Job], Awaitable[float | None]]


class Contender(NamedTuple):
    """``reads`` tells what its backlog looks like; ``part`` is the share of the events a slow one is given."""

    name: str
    about: str
    reads: Literal["feeds", "stream"]
    part: float = 1.0
    needs: str = ""

    @property
    def missing(self) -> str:
        """The package it needs that is not installed, '' when nothing is missing."""
        return "" if not self.needs or find_spec(self.needs) else self.needs


OURS = Contender("worker", "one todo-projection worker", "feeds")
CONTENDERS = (
    OURS,
    Contender("loop-128", "redis-py: HSET + PUBLISH + XACK an event, pipelined per 128", "stream"),
    Contender("loop-1000", "the same per 1 000", "stream"),
    Contender("thrifty-128", "redis-py: HSET + PUBLISH a change, XACK an event, pipelined per 128", "stream"),
    Contender("thrifty-1000", "the same per 1 000", "stream"),
    Contender("lean-128", "redis-py: HSET + PUBLISH a change, one XACK for 128 events, pipelined", "stream"),
    Contender("lean-1000", "the same per 1 000", "stream"),
    Contender("faststream", "FastStream, one call a message", "stream", part=0.1, needs="faststream"),
    Contender("faststream-batch", "FastStream, one call per 1 000", "stream", needs="faststream"),
)


def drain_of(name: str) -> Drain:
    """The code of a contender; only its own is imported."""
    kind, _, batch = name.partition("-")
    match kind:
        case "worker":
            from bench import ours  # noqa: PLC0415 - a contender's process holds nothing of the others

            return ours.drain
        case "loop" | "thrifty" | "lean":
            from bench import loop  # noqa: PLC0415 - as above

            drains = {"loop": loop.drain_usual, "thrifty": loop.drain_thrifty, "lean": loop.drain_lean}
            return functools.partial(drains[kind], batch=int(batch))
        case "faststream":
            from bench import framework  # noqa: PLC0415 - as above

            return framework.drain_batches if batch else framework.drain_messages
        case _:
            raise ValueError(f"no contender {name!r}")
