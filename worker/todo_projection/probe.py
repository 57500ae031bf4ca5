"""The probe: asks a server, once, for everything an operator's doctor judges by. Nothing is written."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from redis.exceptions import NoPermissionError, RedisError, ResponseError

from todo_projection.beats import BEATS_MISSED_MAX, WORKING, read_beats
from todo_projection.facts import PARAMETERS, Facts, FeedFacts, Role
from todo_projection.rights import lacking
from todo_projection.wire import Wire
from todo_write.events import GROUP, Keys


class Probe:
    """Asks one server; ``read`` raises redis errors only where nothing at all is answered."""

    def __init__(self, wire: Wire, keys: Keys, *, database: int, beat_ms: int) -> None:
        self._wire = wire
        self._keys = keys
        self._database = database
        self._beat_ms = beat_ms
        self._refused: dict[str, str] = {}

    async def read(self, *, user: str | None, role: Role | None, **more: Any) -> Facts:
        """All facts; ``user`` is asked about instead of the one of this connection."""
        return await self.read_namespace(await self.read_server(user=user, role=role, **more))

    async def read_namespace(self, facts: Facts) -> Facts:
        """Those of a server, and of the namespace beside them."""
        return msgspec.structs.replace(
            facts,
            databases=await self._databases(facts.info),
            feeds=[] if facts.layout else await self._feeds(),
            workers=await self._workers(facts.now),
            refused={**facts.refused, **self._refused},
        )

    async def read_server(self, *, user: str | None, role: Role | None, **more: Any) -> Facts:
        """Those of the server alone, not of the namespace."""
        hello = _pairs(await self._ask("HELLO") or [])
        info = _info(await self._ask("INFO") or b"")
        now, host_now, doubt_ms = await self._clocks()
        user = user or await self._name()
        lacks = await lacking(self._wire, self._keys, user, sharded=hello.get("mode") == "cluster")
        if isinstance(lacks, str):
            self._refused["ACL DRYRUN"] = lacks
        return Facts(
            namespace=self._keys.namespace,
            database=self._database,
            kind="valkey" if "valkey_version" in info else hello.get("server", "redis"),
            version=info.get("valkey_version") or info.get("redis_version") or hello.get("version", ""),
            mode=hello.get("mode", "standalone"),
            user=user,
            role=role,
            lacking=None if isinstance(lacks, str) else lacks,
            info=info,
            config=_pairs(await self._ask("CONFIG", "GET", *PARAMETERS) or []),
            now=now,
            host_now=host_now,
            doubt_ms=doubt_ms,
            refused=self._refused,
            **more,
        )

    async def _ask(self, *command: Any) -> Any:
        """The answer; None, and noted, where it is refused."""
        (reply,) = await self._wire.pipeline([command])
        if isinstance(reply, ResponseError):
            name = " ".join(command[:2]) if command[0] in ("CONFIG", "ACL") else command[0]
            self._refused[name] = str(reply)
            return None
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def _clocks(self) -> tuple[int, int, int]:
        before = time.time()
        reply = await self._ask("TIME")
        after = time.time()
        host = int((before + after) * 500)
        return (int(reply[0]) * 1000 + int(reply[1]) // 1000 if reply else host), host, int((after - before) * 1000)

    async def _name(self) -> str:
        name = await self._ask("ACL", "WHOAMI")
        return name.decode("utf-8", "replace") if name else "default"

    async def _databases(self, info: Mapping[str, str]) -> list[int]:
        others = [int(name[2:]) for name in info if name.startswith("db") and name[2:].isdigit()]
        others = [number for number in others if number != self._database]
        found: list[int] = []
        for number in others:
            asked = [("SELECT", number), ("EXISTS", self._keys.meta), ("SELECT", self._database)]
            selected, there, _ = await self._wire.pipeline(asked)
            if not isinstance(selected, Exception) and there == 1:
                found.append(number)
        return found

    async def _feeds(self) -> list[FeedFacts]:
        keys = [self._keys.feed(partition) for partition in range(self._keys.partitions)]
        asked = [command for key in keys for command in (("XINFO", "STREAM", key), ("XINFO", "GROUPS", key))]
        replies = await self._wire.pipeline(asked)
        found: list[FeedFacts] = []
        for key, stream, groups in zip(keys, replies[::2], replies[1::2], strict=True):
            if isinstance(stream, NoPermissionError):
                self._refused["XINFO STREAM"] = str(stream)
            elif not isinstance(stream, Exception) and not isinstance(groups, Exception):
                found.append(_feed(key, stream, groups))
        return found

    async def _workers(self, now: int) -> int | None:
        try:
            beats = await read_beats(self._wire, self._keys)
        except (RedisError, OSError) as error:  # on a cluster the others may have answered
            self._refused["HGETALL"] = str(error)
            return None
        missing_ms = self._beat_ms * BEATS_MISSED_MAX
        return sum(beat.state == WORKING and now - beat.at <= missing_ms for beat in beats.values())


def _feed(key: str, stream: Sequence[Any], groups: Sequence[Sequence[Any]]) -> FeedFacts:
    fields = dict(zip(stream[::2], stream[1::2], strict=True))
    first = fields[b"first-entry"]
    names = [dict(zip(group[::2], group[1::2], strict=True))[b"name"].decode("utf-8", "replace") for group in groups]
    return FeedFacts(
        key=key,
        length=fields[b"length"],
        first_ms=_ms(first[0]) if first else 0,
        last_ms=_ms(fields[b"last-generated-id"]),
        has_group=GROUP in names,
        other_groups=[name for name in names if name != GROUP],
    )


def _ms(id: bytes) -> int:
    return int(id.partition(b"-")[0])


def _pairs(flat: Sequence[Any]) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _text(raw: Any) -> str:
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)


def _info(raw: bytes) -> dict[str, str]:
    lines = raw.decode("utf-8", "replace").splitlines()
    return {name: said for name, colon, said in (line.partition(":") for line in lines) if colon}
