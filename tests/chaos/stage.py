"""What stands in the servers of a run, looked at and struck without the code under test."""

import asyncio
import json
import random
import secrets
from pathlib import Path
from typing import Any, Self

from redis.exceptions import RedisError

import todo_write
from chaos.ground import Ground, Patient
from chaos.losses import Losses
from chaos.script import NAMESPACE, PARTITIONS, SESSIONS
from oracle import Entries
from todo_write.events import GROUP, Keys
from topologies import ask

DROP_FEED = """
local stood = {}
for n = 2, #KEYS, 2 do
    local last = redis.call('XREVRANGE', KEYS[n + 1], '+', '-', 'COUNT', 1)[1]
    stood[#stood + 1] = { redis.call('HGET', KEYS[n], 'pos') or '', last and last[1] or '' }
end
local length = redis.call('XLEN', KEYS[1])
redis.call('DEL', KEYS[1])
return { length, stood }
"""
APPEND = (Path(todo_write.__file__).parent / "append.lua").read_text()
UNSOUND: list[dict[str, Any]] = [
    {"todos": "none"},
    {"todos": [{"content": "", "status": "pending"}]},
    {"todos": [{"content": "a", "status": "pending"}, {"content": "a", "status": "pending"}]},
    {"todos": [{"content": "a", "status": "soon"}]},
]


class Stage:
    """``redis`` answers in bytes and repeats what is harmless to repeat: nothing else is asked of it."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.keys = Keys(NAMESPACE, PARTITIONS)
        self.feeds = [self.keys.feed(partition) for partition in range(PARTITIONS)]
        self.redis = Patient(ground.connect)
        self.cut: dict[str, Entries] = {}  # what was trimmed off a log
        self.losses = Losses()
        self.poisoned = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.redis.aclose()

    async def everywhere(self, *command: Any) -> list[Any]:
        """The answers of those servers that answer."""
        answers = [asyncio.to_thread(ask, server, *command) for server in self.ground.servers if not server.frozen]
        found = await asyncio.gather(*answers, return_exceptions=True)
        for answer in found:
            if isinstance(answer, BaseException) and not isinstance(answer, RedisError):
                raise answer
        return [answer for answer in found if not isinstance(answer, BaseException)]

    async def log(self, session: str) -> Entries:
        """The log as it stands."""
        return _entries(await self.redis.xrange(self.keys.log(session)))

    async def row(self, session: str) -> dict[str, str]:
        """The stored row."""
        found = await self.redis.hgetall(self.keys.row(session))
        return {name.decode(): raw.decode() for name, raw in found.items()}

    async def tail(self, session: str) -> tuple[str, str] | None:
        """Position and op of the log's last event."""
        found = await self.redis.xrevrange(self.keys.log(session), count=1)
        return (found[0][0].decode(), found[0][1][b"op"].decode()) if found else None

    async def marked(self) -> set[str]:
        """The sessions that indexes call stale."""
        found = [await self.redis.hkeys(self.keys.stale(partition)) for partition in range(PARTITIONS)]
        return {name.decode() for names in found for name in names}

    async def backlog(self) -> int:
        """Pointers that stand in feeds."""
        return sum([await self.redis.xlen(feed) for feed in self.feeds])

    async def written(self, feed: str, count: int) -> bool:
        """Whether so many pointers stand in a feed."""
        return bool(await self.redis.xlen(feed) >= count)

    async def drop_feed(self, partition: int) -> int:
        """Delete a feed with all that waits in it, and note whose that was; how many pointers stood there."""
        sessions = [session for session in SESSIONS if self.keys.partition(session) == partition]
        names = [name for session in sessions for name in (self.keys.row(session), self.keys.log(session))]
        length, stood = await self.redis.eval(DROP_FEED, 1 + len(names), self.feeds[partition], *names)
        for session, (row, tail) in zip(sessions, stood, strict=True):
            self.losses.note(session, row.decode(), tail.decode())
        return int(length)

    async def consumers(self) -> set[str]:
        """Everybody the groups know."""
        found: set[str] = set()
        for feed in self.feeds:
            if await self.redis.exists(feed) and await self.redis.xinfo_groups(feed):
                found |= {one["name"].decode() for one in await self.redis.xinfo_consumers(feed, GROUP)}
        return found

    async def poison(self, pick: random.Random, session: str) -> None:
        """An event no writer of ours would write, appended by the script itself."""
        data, op = pick.choice(UNSOUND), secrets.token_hex(4)
        names = [self.keys.log(session), self.keys.feed(self.keys.partition(session)), self.keys.row(session)]
        expected: tuple[str, str] = await self.tail(session) or ("new", "")
        answer = [b"moved", *expected]
        while answer[0] == b"moved":  # the same op throughout: what landed is not appended again
            event = ("todo/write", 1, json.dumps({**data, "name": f"poison/{op}"}))
            answer = await self.redis.eval(APPEND, 3, *names, session, *answer[1:3], op, *event)
        self.poisoned += answer[0] in (b"ok", b"landed")

    async def trim(self, session: str) -> int:
        """Cut what is folded off a log's start, but for the last event; how many went."""
        row, log = await self.row(session), await self.log(session)
        folded = [entry for entry in log if row and _order(entry[0]) <= _order(row["pos"])]
        cut = folded[: min(len(folded), len(log) - 1)]
        known = self.cut.setdefault(session, [])
        if cut:
            known += [entry for entry in cut if not known or _order(entry[0]) > _order(known[-1][0])]
            await self.redis.xtrim(self.keys.log(session), minid=f"{_next(cut[-1][0])}", approximate=False)
        return len(cut)


def _entries(found: Any) -> Entries:
    return [(id.decode(), {name.decode(): raw.decode() for name, raw in fields.items()}) for id, fields in found]


def _order(position: str) -> tuple[int, int]:
    epoch, seq = position.split("-")
    return int(epoch), int(seq)


def _next(position: str) -> str:
    epoch, seq = _order(position)
    return f"{epoch}-{seq + 1}"
