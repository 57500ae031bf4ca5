"""The tally: what a process has done since its start, in plain numbers, for whoever watches it.

Counting costs an addition a batch or two; nothing here knows how it is shown.
"""

import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

STEP_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Histogram:
    """How often a value fell at or below each of ``bounds`` and above all of those before it, and the sum of all."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = STEP_S) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


@dataclass(slots=True)
class Tally:
    """What a worker has done since its start.

    Events by what became of them: ``projected`` are in their rows; ``repeated`` were there already; ``conflicts`` were
    put back because the session changed under the fold; ``rewound`` were dropped with a batch that the feed no longer
    held; ``broken`` could not be stored. ``step_s`` is a whole step, from rows read to rows committed, ``commit_s`` its
    one script a partition.
    ``stepped_at`` and ``beaten_at`` are of this process's monotonic clock, in seconds; None: there was no beat yet.
    """

    projected: int = 0
    repeated: int = 0
    conflicts: int = 0
    rewound: int = 0
    broken: int = 0
    marked: int = 0
    published: int = 0
    reclaimed_dead: int = 0
    reclaimed_slow: int = 0
    repaired: int = 0
    step_s: Histogram = field(default_factory=Histogram)
    commit_s: Histogram = field(default_factory=Histogram)
    stepped_at: float = field(default_factory=time.monotonic)
    beaten_at: float | None = None

    def step(self) -> None:
        """The worker gets on: told at every step, and within those that take long."""
        self.stepped_at = time.monotonic()

    def beat(self) -> None:
        """The server has taken a beat."""
        self.beaten_at = time.monotonic()
