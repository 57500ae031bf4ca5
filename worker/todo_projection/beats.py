"""The beats of the workers: who is there, for status, for clean-up and for the order of claims.

Nothing that must be right depends on them. One hash ``<ns>:workers``, a field per worker.
"""

import os
import socket
import time
from collections.abc import Mapping

import msgspec

from todo_projection.row import decode_versions, encode_versions
from todo_projection.signature import sign
from todo_projection.wire import Script, Wire, settled
from todo_write.events import Keys, token

WORKING = "working"
STEPPED_DOWN = "stepped down"
BEATS_MISSED_MAX = 5  # a worker that misses more of them counts as dead
MISSING_MS = BEATS_MISSED_MAX * 1000


_beat = Script("beat")


class Beat(msgspec.Struct, frozen=True):
    """A sign of life: ``at`` and ``started`` in epoch ms by the server's clock, ``units`` as in a row.

    ``repaired`` counts the sessions the worker's audit had projected again; ``audits``: whether it has one.
    """

    at: int
    started: int
    host: str
    pid: int
    units: str
    state: str = WORKING
    why: str = ""
    repaired: int = 0
    audits: bool = True


class ServerClock:
    """The server's clock (epoch ms) as it was last read, counted on since; this machine's until then."""

    def __init__(self) -> None:
        self._ahead_ms = time.time_ns() // 1_000_000 - _own_ms()

    def set(self, now: int) -> None:
        """The server has just told its time."""
        self._ahead_ms = now - _own_ms()

    def now(self) -> int:
        """The time there now, as far as is known here."""
        return _own_ms() + self._ahead_ms


def worker_name() -> str:
    """A name no other worker ever had: host, process, and something random for each start."""
    return f"{socket.gethostname()}-{os.getpid()}-{token()}"


class Beats:
    """The beats of a namespace; raises redis errors, retried by the caller. ``clock`` is set by each beat."""

    def __init__(
        self,
        wire: Wire,
        keys: Keys,
        name: str,
        versions: Mapping[str, int],
        *,
        missing_ms: int = MISSING_MS,
        audits: bool = True,
    ) -> None:
        self._wire = wire
        self._missing_ms = missing_ms
        self._keys = keys
        self._name = name
        self._audits = audits
        self._units = encode_versions(versions)
        self._started = 0
        self._at = self._steady_since = 0
        self.clock = ServerClock()

    async def beat(self, state: str = WORKING, why: str = "", *, repaired: int = 0) -> None:
        """Say that this worker is there."""
        now = await server_time(self._wire)
        self.clock.set(now)
        self._started = self._started or now
        if self._at and now - self._at > self._missing_ms / 2:
            self._steady_since = now
        self._at = now
        host, pid = socket.gethostname(), os.getpid()
        beat = Beat(now, self._started, host, pid, self._units, state, why, repaired, self._audits)
        call = ([self._keys.workers], [self._name, msgspec.json.encode(beat)])
        settled(await _beat.call_all(self._wire, [call]))

    async def alive(self, *, reading: bool = False) -> set[str]:
        """Names of the workers whose beat is not missing, this one among them; if asked for, only of those that read.

        Whoever has missed its own beats was frozen, or the server was, and perhaps the others with it: from its next
        beat on they have as long as ever.
        """
        beats, now = await read_beats(self._wire, self._keys), await server_time(self._wire)
        if self._at and now - self._at > self._missing_ms:
            return {self._name, *beats}
        since = now - self._missing_ms
        heard = {name: beat for name, beat in beats.items() if max(beat.at, self._steady_since) >= since}
        return (readers(heard) if reading else set(heard)) or {self._name}

    def signature(self) -> str:
        """This worker and the time there now, for what it writes."""
        return sign(self.clock.now(), self._name)

    async def withdraw(self) -> None:
        """Take this worker off the list."""
        await self._wire.command("HDEL", self._keys.workers, self._name)


async def read_beats(wire: Wire, keys: Keys) -> dict[str, Beat]:
    """The last beat of every worker, by name; what is not a beat is left out."""
    flat = await wire.command("HGETALL", keys.workers)
    beats: dict[str, Beat] = {}
    for name, raw in zip(flat[::2], flat[1::2], strict=True):
        try:
            beat = msgspec.json.decode(raw, type=Beat)
            decode_versions(beat.units.encode())
            beats[name.decode()] = beat
        except (msgspec.MsgspecError, ValueError):
            continue
    return beats


async def somebody_works(wire: Wire, keys: Keys, *, beat_ms: int) -> bool:
    """Whether a worker that has not stepped down has beaten of late; raises redis errors."""
    beats, now = await read_beats(wire, keys), await server_time(wire)
    return any(beat.state == WORKING and now - beat.at <= beat_ms * BEATS_MISSED_MAX for beat in beats.values())


def readers(beats: Mapping[str, Beat]) -> set[str]:
    """Of these workers those that read feeds of their own: none that stepped down, or would over a row of another's.

    Where each has a unit that another lacks, all do.
    """
    working = {name: beat for name, beat in beats.items() if beat.state == WORKING}
    kinds = {beat.units: beat for beat in working.values()}
    old = {units for units in kinds if newer(kinds, decode_versions(units.encode()), since=0)}
    return {name for name, beat in working.items() if beat.units not in old} or set(working)


def newer(beats: Mapping[str, Beat], versions: Mapping[str, int], *, since: int) -> list[str]:
    """Names of workers with a beat after ``since`` (epoch ms) and a unit these versions lack or hold lower."""
    return [
        name
        for name, beat in beats.items()
        if beat.at > since
        and any(theirs > versions.get(key, 0) for key, theirs in decode_versions(beat.units.encode()).items())
    ]


async def server_time(wire: Wire) -> int:
    """The server's clock (epoch ms): the only one that ages are measured by."""
    seconds, micros = await wire.command("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


def _own_ms() -> int:
    return time.monotonic_ns() // 1_000_000
