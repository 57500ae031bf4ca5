"""How the whole is doing: what waits to be projected, who works, and which sessions are marked."""

from collections.abc import Mapping
from typing import Any

import msgspec
from redis.exceptions import ResponseError

from todo_projection.beats import BEATS_MISSED_MAX, WORKING, Beat, read_beats, server_time
from todo_projection.frames import Mark
from todo_projection.wire import Wire, settled
from todo_write.events import Keys

SILENT = "silent"
STALE_PER_PARTITION = 100

_marks = msgspec.json.Decoder(dict[str, Mark])


class Backlog(msgspec.Struct, frozen=True):
    """Events not yet projected, and the age of the oldest in seconds by the server's clock; 0 and 0 when drained.

    The count is the length of the feeds: it includes what was projected behind an event that is still pending.
    """

    count: int
    age_s: float


class WorkerStatus(msgspec.Struct, frozen=True):
    """A worker by its last beat: ``state`` is working, stepped down, or silent when beats are overdue.

    ``repaired`` counts sessions its audit found that nobody pointed at any more.
    """

    name: str
    host: str
    pid: int
    state: str
    why: str
    age_s: float
    up_s: float
    units: str
    repaired: int


class Stale(msgspec.Struct, frozen=True):
    """How many sessions are marked, and why for some of them: marks by unit, or one text where there is no row."""

    count: int
    sessions: dict[str, dict[str, Mark] | str]


class Status(msgspec.Struct, frozen=True):
    """Everything ``status`` prints."""

    backlog: Backlog
    workers: list[WorkerStatus]
    stale: Stale
    problems: list[str]

    def unwell(self, *, age_s_max: float) -> list[str]:
        """What an operator must look at now; empty when there is nothing."""
        told: list[str] = []
        if not any(worker.state == WORKING for worker in self.workers):
            told.append("no worker is working: start one with `todo-projection worker`")
        if self.backlog.age_s > age_s_max:
            told.append(f"the oldest event has waited for {self.backlog.age_s:.0f} s, longer than {age_s_max:.0f} s")
        return [*told, *self.problems]


async def read_status(wire: Wire, keys: Keys, *, beat_ms: int) -> Status:
    """The status now; raises redis errors, retried by the caller. A key of another type is told as a problem."""
    now, problems = await server_time(wire), list[str]()
    return Status(
        backlog=await _read_backlog(wire, keys, now, problems),
        workers=await _read_workers(wire, keys, now, beat_ms, problems),
        stale=await _read_stale(wire, keys, problems),
        problems=problems,
    )


async def _read_backlog(wire: Wire, keys: Keys, now: int, problems: list[str]) -> Backlog:
    feeds = [keys.feed(partition) for partition in range(keys.partitions)]
    replies = await wire.pipeline(
        [command for feed in feeds for command in (("XLEN", feed), ("XRANGE", feed, "-", "+", "COUNT", 1))]
    )
    count, age_ms = 0, 0
    for feed, length, first in zip(feeds, replies[::2], replies[1::2], strict=True):
        if _readable(feed, length, problems) and first:
            count += length
            age_ms = max(age_ms, now - int(first[0][0].partition(b"-")[0]))
    return Backlog(count, age_ms / 1000)


async def _read_workers(wire: Wire, keys: Keys, now: int, beat_ms: int, problems: list[str]) -> list[WorkerStatus]:
    try:
        beats = await read_beats(wire, keys)
    except ResponseError as error:
        _readable(keys.workers, error, problems)
        return []
    return [_worker(name, beat, now, beat_ms) for name, beat in sorted(beats.items(), key=lambda pair: pair[1].started)]


def _worker(name: str, beat: Beat, now: int, beat_ms: int) -> WorkerStatus:
    silent = now - beat.at > beat_ms * BEATS_MISSED_MAX
    return WorkerStatus(
        name=name,
        host=beat.host,
        pid=beat.pid,
        state=SILENT if silent else beat.state,
        why="no beat: killed, frozen, or cut off" if silent else beat.why,
        age_s=max(0, now - beat.at) / 1000,
        up_s=max(0, beat.at - beat.started) / 1000,
        units=beat.units,
        repaired=beat.repaired,
    )


async def _read_stale(wire: Wire, keys: Keys, problems: list[str]) -> Stale:
    names = [keys.stale(partition) for partition in range(keys.partitions)]
    lengths = dict(zip(names, await wire.pipeline([("HLEN", name) for name in names]), strict=True))
    counts = {name: length for name, length in lengths.items() if _readable(name, length, problems) and length}
    # A first helping of each hash: one round trip whatever they hold.
    replies = settled(await wire.pipeline([("HSCAN", name, 0, "COUNT", STALE_PER_PARTITION) for name in counts]))
    sessions: dict[str, dict[str, Mark] | str] = {}
    for _, flat in replies:
        sessions |= _reasons(dict(zip(flat[::2], flat[1::2], strict=True)))
    return Stale(sum(counts.values()), sessions)


def _reasons(found: Mapping[bytes, bytes]) -> dict[str, dict[str, Mark] | str]:
    return {session.decode("utf-8", "replace"): _reason(raw) for session, raw in found.items()}


def _reason(raw: bytes) -> dict[str, Mark] | str:
    try:
        return _marks.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return raw.decode("utf-8", "replace")


def _readable(key: str, reply: Any, problems: list[str]) -> bool:
    """Whether a reply is one; a key of another type is a problem told, any other error is raised."""
    if isinstance(reply, ResponseError) and str(reply).startswith("WRONGTYPE"):
        problems.append(f"key {key} holds another type; rename or delete it")
        return False
    if isinstance(reply, Exception):
        raise reply
    return True
