"""One order over the indexes of all partitions: the best first, read no further than somebody asks."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from todo_projection.wire import Wire


class Ranked(NamedTuple):
    """A session and its score in the index, epoch ms."""

    session: str
    score: int


class Ranking:
    """Merges sorted sets page by page. ``problems`` tells which of them could not be read; the others are.

    Whoever moves up while this reads may be missed by this pass, as in any list that moves; nobody comes twice.
    """

    def __init__(self, wire: Wire, indexes: Sequence[str], *, page: int, highest_first: bool) -> None:
        self.problems: list[str] = []
        self._wire = wire
        self._page = page
        self._sign = -1 if highest_first else 1
        self._rev = ("REV",) if highest_first else ()
        self._open = list(indexes)
        self._seen: set[str] = set()
        self._waiting: list[Ranked] = []

    async def chunks(self) -> AsyncGenerator[list[Ranked]]:
        """Sessions in order, in chunks of no particular size; raises redis errors, retried by the caller."""
        start = 0
        while self._open or self._waiting:
            bound = await self._fetch(start)
            start += self._page
            self._waiting.sort(key=self._order)
            # Whatever an index has not told yet comes behind the last it told.
            ready = sum(bound is None or self._order(ranked)[0] <= bound for ranked in self._waiting)
            chunk, self._waiting = self._waiting[:ready], self._waiting[ready:]
            if chunk:
                yield chunk

    async def _fetch(self, start: int) -> int | None:
        """Read a page of each index that has more; the order up to which everything is known, None for all of it."""
        end = start + self._page - 1
        indexes, self._open = self._open, []
        bounds: list[int] = []
        commands = [("ZRANGE", index, start, end, *self._rev, "WITHSCORES") for index in indexes]
        for index, reply in zip(indexes, await self._wire.pipeline(commands), strict=True):
            page = self._read(index, reply)
            if len(page) == self._page:
                self._open.append(index)
                bounds.append(self._order(page[-1])[0])
            self._waiting += [ranked for ranked in page if ranked.session not in self._seen]
            self._seen.update(ranked.session for ranked in page)
        return min(bounds, default=None)

    def _read(self, index: str, reply: Any) -> list[Ranked]:
        if isinstance(reply, ResponseError) and str(reply).startswith("WRONGTYPE"):
            self.problems.append(f"index {index} holds another type: its sessions are not listed; rename or delete it")
            return []
        if isinstance(reply, Exception):
            raise reply
        pairs = zip(reply[::2], reply[1::2], strict=True)
        return [Ranked(session.decode("utf-8", "replace"), int(float(score))) for session, score in pairs]

    def _order(self, ranked: Ranked) -> tuple[int, str]:
        return self._sign * ranked.score, ranked.session
