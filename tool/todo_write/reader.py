"""Reading one session's log: its tail, pages forward and backward, new entries as they come."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from todo_write.append import NO_LOG, LogRewound, Tail
from todo_write.client import Client
from todo_write.events import Entry, Position, Unsound, check_session, decode_entry

PAGE_BYTES = 4 * 1024 * 1024  # what a page aims at; a page is one entry at least
PAGE_ENTRIES_MIN = 16
PAGE_ENTRIES_MAX = 1000
BLOCK_MS = 1000
SLACK_MS = 3000  # the server may answer a little late; a time-out below BLOCK_MS would cut every wait
_SEQ_MAX = 2**64 - 1


class LogReader:
    """One session's log, to be read.

    Every method raises redis errors, which nobody has retried, and Unsound for an entry that no writer of ours wrote.
    """

    def __init__(self, client: Client, session: str) -> None:
        self.session = check_session(session)
        self._client = client

    async def tail(self) -> Position | None:
        """Position of the last event, None when there is no log."""
        return (await self._read_tail()).position

    async def read(self, after: Position | None = None, *, count_max: int) -> list[Entry]:
        """Up to ``count_max`` entries behind ``after`` (None: from the start), in order."""
        if after is None:
            start = "-"
        elif after.seq < 0:
            start = f"{after.epoch}-0"
        else:
            start = f"({after}"
        found = await self._client.ask("XRANGE", await self._log(), start, "+", "COUNT", count_max)
        return [decode_entry(id, fields) for id, fields in found]

    async def read_back(self, before: Position | None = None, *, count_max: int) -> list[Entry]:
        """Up to ``count_max`` entries before ``before`` (None: from the end), the newest first."""
        if before is not None and before.seq <= 0:
            return []  # a log has one epoch: nothing stands before its first entry
        end = "+" if before is None else f"({before}"
        found = await self._client.ask("XREVRANGE", await self._log(), end, "-", "COUNT", count_max)
        return [decode_entry(id, fields) for id, fields in found]

    async def events(self, after: Position | None = None) -> AsyncGenerator[Entry]:
        """Every entry behind ``after`` up to the end, read in pages of bounded size."""
        count = PAGE_ENTRIES_MIN
        while page := await self.read(after, count_max=count):
            for entry in page:
                yield entry
            if len(page) < count:
                return
            after = page[-1].position
            entry_bytes = sum(len(bytes(entry.event.data)) for entry in page) // len(page) + 1
            count = max(1, min(PAGE_BYTES // entry_bytes, PAGE_ENTRIES_MAX))

    async def follow(self, after: Position | None = None) -> AsyncGenerator[Entry]:
        """Every entry behind ``after``, then each new one within moments of its append, for ever.

        Raises LogRewound when the entry last seen is gone and nothing follows it, or another stands in its place. When
        the connection is lost, call again behind the last entry seen.
        """
        log = await self._log()
        async with aclosing(await self._client.open_blocking((BLOCK_MS + SLACK_MS) / 1000, log)) as redis:
            seen = Tail(after, "")
            while True:
                try:
                    found, stands = await _look(redis, log, seen.position)
                except (RedisError, OSError):
                    self._client.doubt(redis)
                    raise
                if seen.position is not None and seen.position.seq >= 0:
                    seen = await self._recognise(seen, stands, goes_on=bool(found))
                for id, fields in found:
                    entry = decode_entry(id, fields)
                    seen = Tail(entry.position, entry.op)
                    yield entry

    async def _recognise(self, seen: Tail, stands: list[Any], *, goes_on: bool) -> Tail:
        """The last entry seen, with its op; a position somebody else remembered gets its op at the first look."""
        if stands:
            op = _op_of(stands[0][1])
            if seen.op in ("", op):
                return Tail(seen.position, op)
        elif goes_on:
            return seen  # trimmed, or the log began anew, as its epoch says
        raise LogRewound(*seen, *await self._read_tail(), session=self.session)

    async def _read_tail(self) -> Tail:
        found = await self._client.ask("XREVRANGE", await self._log(), "+", "-", "COUNT", 1)
        if not found:
            return NO_LOG
        id, fields = found[0]
        try:
            return Tail(Position.parse(id), _op_of(fields))
        except ValueError as error:
            raise Unsound(f"the tail of session {self.session!r} was not written by us: {error}") from None

    async def _log(self) -> str:
        return (await self._client.keys(create=False)).log(self.session)


async def _look(redis: Redis, log: str, after: Position | None) -> tuple[list[Any], list[Any]]:
    """New entries, waited for; and in the same round trip what now stands at ``after``."""
    if after is None:
        start = "0-0"
    elif after.seq < 0:
        start = f"{after.epoch - 1}-{_SEQ_MAX}"
    else:
        start = str(after)
    pipe: Any = redis.pipeline(transaction=False)
    pipe.execute_command("XREAD", "COUNT", PAGE_ENTRIES_MIN, "BLOCK", BLOCK_MS, "STREAMS", log, start)
    pipe.execute_command("XRANGE", log, start, start)
    answer, stands = await pipe.execute()
    return (answer[0][1] if answer else []), stands


def _op_of(fields: list[bytes]) -> str:
    """The op of an entry; "" for one that nobody of ours wrote, which equals no op of ours."""
    return dict(zip(fields[::2], fields[1::2], strict=True)).get(b"op", b"").decode("utf-8", "replace")
