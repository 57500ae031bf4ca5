"""Affinity: which feeds a worker reads at once, and when it reads another's. Pure.

Two workers with pointers of one session in hand cost one of them its commit; a share that is wrong costs no more.
"""

from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b

UNMOVED_S = 1.0
UNMOVED_AT_WORK_S = 10.0  # of one whose other feeds move: it has many, and comes to this one in its turn


def owner(partition: int, workers: Iterable[str]) -> str:
    """Whose feed it is, by rendezvous hashing: when a worker comes or goes, only what it gets or had changes hands."""
    return max(workers, key=lambda worker: blake2b(f"{partition} {worker}".encode(), digest_size=8).digest())


class Affinity:
    """The share of one worker, by the beats of all. Times are of one clock, in seconds.

    A feed that is got from a worker that lives is read ``handover_s`` later, when that one must know of it.
    """

    def __init__(self, name: str, partitions: int, *, handover_s: float) -> None:
        self._name = name
        self._partitions = partitions
        self._handover_s = handover_s
        self._workers: frozenset[str] = frozenset()
        self._own_from: dict[int, float] = {}  # the share, each feed with the time from which it is read
        self._owners: list[str] = [name] * partitions
        self._firsts: dict[int, tuple[bytes, float]] = {}  # first id of another's feed, and since when it is that
        self._at_work: dict[str, float] = {}  # when some feed of a worker was last seen to move

    def meet(self, workers: Collection[str], now: float) -> None:
        """Take the workers that read, this one among them, as they are now."""
        before, self._workers = self._workers, frozenset(workers)
        if before == self._workers:
            return
        others = (before or self._workers) - {self._name} & self._workers
        self._owners = [owner(p, self._workers) for p in range(self._partitions)]
        self._at_work = {name: seen for name, seen in self._at_work.items() if name in self._workers}
        share = [p for p, name in enumerate(self._owners) if name == self._name]
        self._own_from = {
            p: self._own_from.get(p, now + self._handover_s if others and self._had(p, before) in others else now)
            for p in share
        }

    def own(self, now: float) -> list[int]:
        """Partitions whose feeds are read at once."""
        return [partition for partition, start in self._own_from.items() if start <= now]

    def others(self, now: float) -> list[int]:
        """Partitions whose feeds are another's to read, or still are."""
        return [p for p in range(self._partitions) if self._own_from.get(p, now + 1) > now]

    def strays(self, firsts: Mapping[int, bytes | None], now: float) -> list[int]:
        """Of others' feeds, by the ids they begin with (None: empty), those that nobody seems to read.

        They have not moved for ``UNMOVED_S``, or for ``UNMOVED_AT_WORK_S`` while others of their owner's do. Moved, not
        old: under a backlog every feed is old, though its owner drains it.
        """
        before, self._firsts = self._firsts, {}
        for partition, first in firsts.items():
            known, since = before.get(partition, (None, now))
            if known not in (None, first):
                self._at_work[self._owners[partition]] = now
            if first is not None:
                self._firsts[partition] = (first, since if known == first else now)
        return [p for p, (_, since) in self._firsts.items() if now - since >= self._bound_s(p, now)]

    def _bound_s(self, partition: int, now: float) -> float:
        seen = self._at_work.get(self._owners[partition])
        return UNMOVED_S if seen is None or now - seen >= UNMOVED_S else UNMOVED_AT_WORK_S

    def _had(self, partition: int, before: Collection[str]) -> str:
        """Who read a feed until now: of a worker that has just come, whoever there is may have."""
        return owner(partition, before or self._workers - {self._name})
