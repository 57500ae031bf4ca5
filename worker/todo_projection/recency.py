"""Which sessions there are and which had events, by the indexes of all partitions; and how old the backlog is."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from todo_projection.wire import Command, Wire
from todo_write.events import Keys

RECENT_MS = 5000  # how far back a look goes; an event projected later than that is found by the next sweep
PARTITIONS_PER_TRIP = 16


class Moved(NamedTuple):
    """Sessions that are new or had an event, and sessions that are gone."""

    changed: list[str]
    gone: list[str]


class Recency:
    """What the indexes told last.

    ``now`` is the server's clock (epoch ms), ``oldest_ms`` the age of the oldest event not yet projected, and
    ``problems`` tell which index could not be read; the others are. Raises redis errors, retried by the caller.
    """

    def __init__(self, wire: Wire) -> None:
        self.now = 0
        self.oldest_ms = 0
        self.problems: list[str] = []
        self._wire = wire
        self._scores: dict[str, dict[bytes, bytes]] = {}  # by index, by session: the time of its last event

    async def look(self, keys: Keys) -> Moved:
        """What had an event within the last moments: a reply of a size that does not depend on how many there are."""
        since = self.now - RECENT_MS
        changed: list[bytes] = []
        indexes = _indexes(keys)
        for index, found in await self._read(
            indexes, [("ZRANGE", index, since, "+inf", "BYSCORE", "WITHSCORES") for index in indexes]
        ):
            known = self._scores.setdefault(index, {})
            changed += _differing(known, found)
            known |= found
        return Moved(_text(changed), [])

    async def sweep(self, keys: Keys) -> Moved:
        """Everything that has changed since the last look or sweep, and what is gone."""
        self.problems, self.oldest_ms = [], 0
        before, self._scores = self._scores, {}
        changed: list[bytes] = []
        gone: list[bytes] = []
        indexes = _indexes(keys)
        try:
            for start in range(0, len(indexes), PARTITIONS_PER_TRIP):
                page = indexes[start : start + PARTITIONS_PER_TRIP]
                commands = [("ZRANGE", index, 0, -1, "WITHSCORES") for index in page]
                feeds = [keys.feed(partition) for partition in range(start, start + len(page))]
                for index, found in await self._read(page, commands, feeds):
                    known = before.get(index, {})
                    changed += _differing(known, found)
                    gone += known.keys() - found.keys()
                    self._scores[index] = found
        except BaseException:
            self._scores = before
            raise
        return Moved(_text(changed), _text(gone))

    async def _read(
        self, indexes: list[str], commands: list[Command], feeds: Iterable[str] = ()
    ) -> list[tuple[str, dict[bytes, bytes]]]:
        """The members of each index with their scores; and the ages of these feeds' oldest entries are noted."""
        heads: list[Command] = [("XRANGE", feed, "-", "+", "COUNT", 1) for feed in feeds]
        clock, *replies = await self._wire.pipeline([("TIME",), *commands, *heads])
        if isinstance(clock, Exception):
            raise clock
        self.now = int(clock[0]) * 1000 + int(clock[1]) // 1000
        for head in replies[len(commands) :]:
            self.oldest_ms = max(self.oldest_ms, self.now - _time_ms(head, self.now))
        pairs = zip(indexes, replies[: len(commands)], strict=True)
        return [(index, self._members(index, reply)) for index, reply in pairs]

    def _members(self, index: str, reply: Any) -> dict[bytes, bytes]:
        if isinstance(reply, ResponseError) and str(reply).startswith("WRONGTYPE"):
            self.problems.append(f"index {index} holds another type: its sessions are not listed; rename or delete it")
            return {}
        if isinstance(reply, Exception):
            raise reply
        return dict(zip(reply[::2], reply[1::2], strict=True))


def _time_ms(head: Any, now: int) -> int:
    """Feed time of the oldest entry; ``now`` where there is none, or no feed."""
    return int(head[0][0].partition(b"-")[0]) if head and not isinstance(head, Exception) else now


def _indexes(keys: Keys) -> list[str]:
    return [keys.recent(partition) for partition in range(keys.partitions)]


def _differing(known: dict[bytes, bytes], found: dict[bytes, bytes]) -> list[bytes]:
    return [session for session, score in found.items() if known.get(session) != score]


def _text(sessions: Iterable[bytes]) -> list[str]:
    return [session.decode("utf-8", "replace") for session in sessions]
