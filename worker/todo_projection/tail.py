"""The ends of the logs that clients follow, event by event.

One blocked read of a process tells that a log has grown; each client then reads from its own place, so nothing is
buffered for anybody, and going on after a lost connection is the same thing as going on.
"""

import asyncio
import logging
from typing import Any, NamedTuple

import msgspec
from redis.exceptions import AskError, ClusterDownError, RedisError, ResponseError

from todo_projection.wire import Wire, settled
from todo_write.events import Entry, Keys, Position, Unsound, decode_entry
from todo_write.log import Client

BLOCK_MS = 250  # also how long a log may be followed before the blocked read watches it
SLACK_MS = 3000
READ_MAX = 16
READ_BYTES = 1024 * 1024  # what a read aims at; it is one event at least
LOOK_S = 3.0
RETRY_S = 0.5
MOVED_S = 0.05
START = b"0-0"

logger = logging.getLogger(__name__)


class Rewound(NamedTuple):
    """The event last seen is not in the log any more: deleted, or lost in a fail-over. ``tail`` None: no log."""

    held: str
    tail: str | None


class Tails:
    """The logs followed in a process, and the one blocked read that watches all of them."""

    def __init__(self, client: Client, wire: Wire) -> None:
        self.wire = wire
        self._client = client
        self._watched: dict[str, bytes] = {}  # by session: the id up to which growth has been told
        self._tails: dict[str, set[Tail]] = {}
        self._groups: dict[int, asyncio.Event] = {}  # of sessions that one read can watch: set when there are some
        self._more = asyncio.Event()

    async def keys(self) -> Keys:
        """Key names of the namespace."""
        return await self._client.keys(create=False)

    def open(self, session: str, after: Position) -> "Tail":
        """One client's place in a log, behind ``after``; ``close`` it when done."""
        tail = Tail(self, session, after)
        self._tails.setdefault(session, set()).add(tail)
        return tail

    def close(self, tail: "Tail") -> None:
        """Forget a client's place; harmless when done twice."""
        tails = self._tails.get(tail.session, set())
        tails.discard(tail)
        if not tails:
            self._tails.pop(tail.session, None)
            self._watched.pop(tail.session, None)

    async def watch(self, session: str, here: bytes) -> None:
        """Tell the clients of this session when its log grows beyond ``here``, unless they are told already."""
        group = self._group(session, await self.keys())
        if session in self._tails:
            self._watched.setdefault(session, here)
            if group not in self._groups:
                self._groups[group] = asyncio.Event()
                self._more.set()
            self._groups[group].set()

    def rewind(self, session: str) -> None:
        """The log is not what it was: watch it from where its clients stand next."""
        self._watched.pop(session, None)

    async def run(self) -> None:
        """Watch for ever; while the server is away, try on: the clients' own reads say so."""
        begun: set[int] = set()
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._more.clear()
                for group in self._groups.keys() - begun:
                    begun.add(group)
                    tasks.create_task(self._watch(group))
                await self._more.wait()

    def _group(self, session: str, keys: Keys) -> int:
        """On a cluster the session's partition: one command can't read logs of several."""
        return 0 if self._client.nodes is None else keys.partition(session)

    async def _watched_in(self, group: int) -> dict[str, bytes]:
        keys = await self.keys()
        return {session: here for session, here in self._watched.items() if self._group(session, keys) == group}

    async def _watch(self, group: int) -> None:
        while True:
            redis: Any = None
            try:
                redis = await self._client.open_blocking((BLOCK_MS + SLACK_MS) / 1000, (await self.keys()).feed(group))
                while True:
                    await self._round(redis, group)
            except (AskError, ClusterDownError) as error:
                logger.info("following logs: %s", error)
                await asyncio.sleep(MOVED_S)
            except ResponseError as error:  # a key of another type, among others: whose it is, its client finds out
                logger.warning("following logs: %s", error)
                for session in await self._watched_in(group):
                    self._wake(session)
                    self._watched.pop(session, None)
                await asyncio.sleep(RETRY_S)
            except (RedisError, OSError) as error:
                logger.warning(
                    "redis at %s: following logs: %s; next try in %.1f s", self._client.address, error, RETRY_S
                )
                await asyncio.sleep(RETRY_S)
            finally:
                if redis is not None:
                    self._client.doubt(redis)
                    await redis.aclose()

    async def _round(self, redis: Any, group: int) -> None:
        self._groups[group].clear()
        keys, watched = await self.keys(), await self._watched_in(group)
        if not watched:
            await self._groups[group].wait()
            return
        logs = {keys.log(session).encode(): session for session in watched}
        starts = list(watched.values())
        grown = await redis.execute_command("XREAD", "COUNT", READ_MAX, "BLOCK", BLOCK_MS, "STREAMS", *logs, *starts)
        for log, entries in grown or ():
            session = logs[log]
            if session in self._watched:
                self._watched[session] = entries[-1][0]
            self._wake(session)

    def _wake(self, *sessions: str) -> None:
        for session in sessions:
            for tail in self._tails.get(session, ()):
                tail.grown.set()


class Tail:
    """One client's place in one log."""

    def __init__(self, tails: Tails, session: str, after: Position) -> None:
        self.session = session
        self.grown = asyncio.Event()
        self._tails = tails
        self._here = START if after.seq < 0 else str(after).encode()
        self._op: bytes | None = None
        self._count = READ_MAX

    async def read(self) -> list[Entry] | Rewound:
        """The next events, waited for; raises redis errors, and is called again."""
        while True:
            self.grown.clear()
            found = await self._look()
            if found:
                return found
            await self._tails.watch(self.session, self._here)
            try:
                async with asyncio.timeout(LOOK_S):
                    await self.grown.wait()
            except TimeoutError:
                continue  # a log that lost its end tells nobody: it has to be looked at

    async def _look(self) -> list[Entry] | Rewound:
        log, here = (await self._tails.keys()).log(self.session), self._here
        commands = [("XRANGE", log, here, here), ("XRANGE", log, b"(" + here, "+", "COUNT", self._count)]
        stands, found = settled(await self._tails.wire.pipeline(commands))
        if here != START and not self._recognises(stands, goes_on=bool(found)):
            self._tails.rewind(self.session)
            await self._go_to_end(log)
            return Rewound(here.decode(), None if self._here == START else self._here.decode())
        if found:
            self._stand_at(found[-1])
            size = sum(len(field) for _, fields in found for field in fields) // len(found)
            self._count = max(1, min(READ_BYTES // (size + 1), READ_MAX))
        return [entry for entry in map(entry_of, found) if entry is not None]

    def _recognises(self, stands: Any, *, goes_on: bool) -> bool:
        """Whether what was last seen still stands; a place that a client remembered gets its op at the first look."""
        if not stands:
            return goes_on  # trimmed, or the log began anew, as its epoch says
        known, self._op = self._op, _op(stands[0])
        return known in (None, self._op)

    async def _go_to_end(self, log: str) -> None:
        last = await self._tails.wire.command("XREVRANGE", log, "+", "-", "COUNT", 1)
        if last:
            self._stand_at(last[0])
        else:
            self._here, self._op = START, None

    def _stand_at(self, raw: Any) -> None:
        self._here, self._op = raw[0], _op(raw)


def shown(entry: Entry) -> Entry:
    """The entry fit to stand in other JSON: data that is none, which no writer of ours stores, becomes null."""
    try:
        msgspec.json.decode(entry.event.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return entry._replace(event=msgspec.structs.replace(entry.event, data=msgspec.Raw(b"null")))
    return entry


def entry_of(raw: Any) -> Entry | None:
    """An entry from the server's reply; None, told in the log, for one that nobody of ours wrote."""
    try:
        return shown(decode_entry(raw[0], raw[1]))
    except Unsound as error:
        logger.warning("passed over: %s", error)
        return None


def _op(raw: Any) -> bytes:
    fields: list[bytes] = raw[1]
    return dict(zip(fields[::2], fields[1::2], strict=True)).get(b"op", b"")
