"""The census: which sessions there are, by their logs, their rows and their indexes, whether or not these agree."""

from collections.abc import Sequence
from random import sample
from typing import Any, NamedTuple

import msgspec
from redis.exceptions import NoPermissionError

from todo_projection.rows import is_wrong_type
from todo_projection.wire import Wire
from todo_write.events import Keys, check_session

START = "0"


class Place(msgspec.Struct, frozen=True):
    """How far a look through all keys has got: a cursor, which means something to that run of the server alone."""

    cursor: str = START
    run: str = ""
    count: int = 0


class Found(NamedTuple):
    """Sessions of one page, each once, and where the next page begins; None: that was the last."""

    sessions: list[str]
    cursor: str | None


class Census:
    """Looks through the keyspace page by page, so that nothing is missed that an index has lost.

    ``kind`` is ``log``, ``proj`` or ``*`` for both. Raises redis errors.
    """

    def __init__(self, wire: Wire, keys: Keys, kind: str = "log") -> None:
        self._wire = wire
        self._keys = keys
        self._pattern = f"{keys.namespace}:{{*}}:{kind}:*"

    async def page(self, cursor: str, count: int) -> Found:
        """The sessions among about ``count`` keys; a key in a place where none of ours stands is passed over."""
        at, _, within = cursor.rpartition("/")  # on a cluster the place of a primary among all of them, and its cursor
        number = int(at or 0)
        wires = await self._wire.primaries()
        if number >= len(wires):
            return Found([], None)  # there were more of them when the look began
        next, names = await wires[number].command("SCAN", within, "MATCH", self._pattern, "COUNT", count)
        sessions = dict.fromkeys(session for name in names if (session := self._session(name)) is not None)
        number += next == b"0"
        if number == len(wires):
            return Found(list(sessions), None)
        return Found(list(sessions), f"{number}/{next.decode()}" if number else next.decode())

    async def run(self) -> str:
        """What tells this run of the server, or of each primary, from any other: a cursor does not outlive it."""
        try:
            infos: list[bytes] = [await wire.command("INFO", "server") for wire in await self._wire.primaries()]
        except NoPermissionError:
            return ""  # then nothing goes on where it was
        lines = [line for info in infos for line in info.decode().splitlines()]
        return ",".join(line[7:].strip() for line in lines if line.startswith("run_id:"))

    async def sample(self, count: int) -> list[str]:
        """About ``count`` sessions out of the board's index, by chance."""
        each = 2 * count // self._keys.partitions + 2
        indexes = [self._keys.recent(partition) for partition in range(self._keys.partitions)]
        replies = await self._wire.pipeline([("ZRANDMEMBER", index, each + 2) for index in indexes])
        found = [name.decode("utf-8", "replace") for reply in replies if not is_wrong_type(reply) for name in reply]
        return sample(found, min(count, len(found)))

    async def size(self) -> int:
        """How many sessions the board's index knows: about as many as there are."""
        indexes = [self._keys.recent(partition) for partition in range(self._keys.partitions)]
        replies = await self._wire.pipeline([("ZCARD", index) for index in indexes])
        return sum(0 if is_wrong_type(reply) else reply for reply in replies)

    def _session(self, name: bytes) -> str | None:
        try:
            _, tag, kind, session = name.decode().split(":", 3)
            check_session(session)
        except ValueError:
            return None
        key = {"log": self._keys.log, "proj": self._keys.row}.get(kind)
        return session if tag and key is not None and key(session).encode() == name else None


async def indexed(wire: Wire, keys: Keys, partition: int) -> list[str]:
    """Every session that stands in an index of the partition; an index of another type holds none."""
    replies = await wire.pipeline(
        [
            ("ZRANGE", keys.recent(partition), 0, -1),
            ("ZRANGE", keys.working(partition), 0, -1),
            ("HKEYS", keys.stale(partition)),
        ]
    )
    found: dict[bytes, None] = {}
    for reply in replies:
        found |= dict.fromkeys(_members(reply))
    return [name.decode("utf-8", "replace") for name in found]


def _members(reply: Any) -> Sequence[bytes]:
    members: Sequence[bytes] = () if is_wrong_type(reply) else reply
    return members
