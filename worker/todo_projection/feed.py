"""The feeds: pointers to new events, read as one consumer of the group ``projection``."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from redis.exceptions import ResponseError

from todo_projection.span import Pointer
from todo_projection.wire import Command, Wire, settled
from todo_write.events import GROUP, Keys, Position

PENDING_PAGE = 1000

logger = logging.getLogger(__name__)

Batch = list[Pointer]


class Feeds:
    """All feeds of a namespace as one consumer sees them. Every call raises redis errors, retried by the worker."""

    def __init__(self, reads: Wire, commands: Wire, keys: Keys, consumer: str) -> None:
        self._reads = reads
        self._commands = commands
        self._keys = keys
        self._partitions = range(keys.partitions)
        self._names = {keys.feed(partition).encode(): partition for partition in self._partitions}
        self.consumer = consumer

    async def ensure_groups(self) -> None:
        """Create the group on every feed that lacks it, at 0: what was appended before is read, never skipped."""
        replies = await self._each("XGROUP CREATE", GROUP, "0", "MKSTREAM")
        settled([reply for reply in replies if not str(reply).startswith("BUSYGROUP")])

    async def read(self, *, count_max: int, block_ms: int) -> dict[int, Batch]:
        """New pointers by partition, at most ``count_max`` a feed; waits up to ``block_ms`` for the first."""
        head = ("XREADGROUP", "GROUP", GROUP, self.consumer, "COUNT", count_max, "BLOCK", block_ms, "STREAMS")
        reply = await self._reads.command(*head, *self._names, *([">"] * len(self._names)))
        return await self._sorted((self._names[name], entries) for name, entries in reply or ())

    async def own_pending(self) -> dict[int, Batch]:
        """Pointers delivered to this consumer and not acknowledged, at most a page a feed.

        By XPENDING and XRANGE: a read from 0 would count as another delivery and start the idle time again.
        """
        pending = settled(await self._each("XPENDING", GROUP, "-", "+", PENDING_PAGE, self.consumer))
        return await self._fetch({p: [entry[0] for entry in found] for p, found in enumerate(pending) if found})

    async def claim(self, *, idle_ms_min: int) -> dict[int, Batch]:
        """Pointers another consumer has held for longer than ``idle_ms_min``, now this one's, at most a page a feed."""
        tail = (GROUP, self.consumer, idle_ms_min, "0-0", "COUNT", PENDING_PAGE, "JUSTID")
        replies = settled(await self._each("XAUTOCLAIM", *tail))
        return await self._fetch({p: reply[1] for p, reply in enumerate(replies) if reply[1]})

    async def first_ids(self) -> dict[int, bytes | None]:
        """The first id of each feed: the oldest event not yet projected; None where all are."""
        replies = settled(await self._each("XRANGE", "-", "+", "COUNT", 1))
        return {p: reply[0][0] if reply else None for p, reply in enumerate(replies)}

    async def _each(self, name: str, *tail: Any) -> list[Any]:
        """One command for every feed, in one round trip."""
        return await self._commands.pipeline([(name, feed, *tail) for feed in self._names])

    async def _fetch(self, ids: Mapping[int, Sequence[bytes]]) -> dict[int, Batch]:
        """The pointers behind pending ids; an id whose entry is gone leaves the pending list too."""
        wanted = [(partition, id) for partition, found in ids.items() for id in found]
        replies = settled(await self._commands.pipeline([("XRANGE", self._keys.feed(p), id, id) for p, id in wanted]))
        found: dict[int, list[Any]] = {partition: [] for partition in ids}
        for (partition, _), entries in zip(wanted, replies, strict=True):
            found[partition] += entries
        await self._release([pair for pair, entries in zip(wanted, replies, strict=True) if not entries])
        return await self._sorted(found.items())

    async def _release(self, gone: Sequence[tuple[int, bytes]]) -> None:
        """Take ids without an entry off the pending list: XCLAIM of a deleted entry does so (server 7.0)."""
        for partition, id in gone:
            logger.warning("feed %s: pending pointer %s is gone from it", self._keys.feed(partition), id.decode())
        claim = [("XCLAIM", self._keys.feed(p), GROUP, self.consumer, 0, id, "JUSTID") for p, id in gone]
        settled(await self._commands.pipeline(claim))

    async def _sorted(self, found: Iterable[tuple[int, list[Any]]]) -> dict[int, Batch]:
        """Entries as pointers by partition; one that points nowhere is reported and acknowledged."""
        batches: dict[int, Batch] = {}
        foreign: list[Command] = []
        for partition, entries in found:
            batch: Batch = []
            for id, fields in entries:
                try:
                    batch.append(_pointer(id, fields))
                except (KeyError, ValueError) as error:
                    feed = self._keys.feed(partition)
                    logger.warning("feed %s: entry %s is no pointer: %r", feed, id.decode(), error)
                    foreign.append(("XACK", feed, GROUP, id))
            if batch:
                batches[partition] = batch
        settled(await self._commands.pipeline(foreign))
        return batches


def is_group_missing(error: BaseException) -> bool:
    """Whether the server says that a feed or its group is gone (FLUSHALL, DEL, eviction)."""
    return isinstance(error, ResponseError) and str(error).startswith("NOGROUP")


def _pointer(id: bytes, fields: Sequence[bytes]) -> Pointer:
    named = dict(zip(fields[::2], fields[1::2], strict=True))
    return Pointer(id, named[b"s"].decode(), Position.parse(named[b"i"]), named[b"o"], named[b"t"].decode())
