"""Pace: how many things a second somebody may do, with a burst for those who were quiet before."""

import time
from collections import OrderedDict
from collections.abc import Callable

BURST_S = 10
KEYS_MAX = 10_000


class Pace:
    """A bucket for each key, which fills at ``per_s`` up to ``BURST_S`` seconds' worth; 0 is no limit.

    Keys unused for longest are forgotten beyond ``KEYS_MAX``, that is, they begin with a full bucket again.
    ``refused`` counts what was not let through.
    """

    def __init__(self, per_s: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_s = per_s
        self.refused = 0
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is in it, and when it was looked at

    def __len__(self) -> int:
        """How many keys are remembered."""
        return len(self._buckets)

    def wait_s(self, key: str, count: int = 1) -> float:
        """Take ``count`` from the key's bucket and return 0, or nothing and the seconds until there is room for it.

        What is more than a bucket holds passes when the bucket is full, and is owed: nothing is refused for ever.
        """
        if self.per_s == 0:
            return 0.0
        now, full = self._clock(), float(self.per_s * BURST_S)
        left, then = self._buckets.pop(key, (full, now))
        left = min(full, left + (now - then) * self.per_s)
        missing = min(float(count), full) - left
        self._buckets[key] = (left if missing > 0 else left - count, now)
        if len(self._buckets) > KEYS_MAX:
            self._buckets.popitem(last=False)
        if missing <= 0:
            return 0.0
        self.refused += 1
        return missing / self.per_s
