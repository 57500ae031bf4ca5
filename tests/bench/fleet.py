"""Several workers on one backlog: how fast together, and what part of the commits is lost to conflicts."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import redis
from rich.console import Console
from rich.table import Table

from bench.backlog import load_logs
from bench.check import Truth, check_rows
from bench.measure import run
from bench.mix import Mix
from eventually import eventually
from todo_projection.parts import HANDOVER_BEATS, Parts
from todo_projection.process import collect_seldom
from todo_projection.settings import Settings
from todo_projection.unit import mounted_units
from todo_projection.worker import Worker
from todo_write.events import Keys

KNOWN_S = HANDOVER_BEATS + 1.0
GATHER_S_MAX = 60.0


class Member(msgspec.Struct, frozen=True):
    """One worker of a fleet, and whether each has a share of its own. Handed to its process as JSON."""

    url: str
    workers: int
    affinity: bool


class Drained(msgspec.Struct, frozen=True):
    """What a fleet did: events a second of all together, and the part of the commits that conflicts undid."""

    workers: int
    affinity: bool
    events_per_s: float
    lost: float


class _Done(msgspec.Struct, frozen=True):
    projected: int
    conflicts: int
    started: float
    ended: float


def drain(
    client: redis.Redis, url: str, mix: Mix, sessions: int, events: int, workers: int, *, affinity: bool
) -> Drained:
    """Write a backlog, let so many workers drain it, each in a process of its own, and check what they did."""
    client.flushall()
    load_logs(client, Keys(), mix.events(events, sessions))
    member = msgspec.json.encode(Member(url, workers, affinity)).decode()
    fleet = [
        subprocess.Popen([sys.executable, "-m", "bench.fleet", member], stdout=subprocess.PIPE) for _ in range(workers)
    ]
    found = [msgspec.json.decode(one.communicate()[0], type=_Done) for one in fleet]
    check_rows(client, Keys(), Truth(mix.events(events, sessions)))
    wall_s = max(one.ended for one in found) - min(one.started for one in found)
    conflicts, projected = sum(one.conflicts for one in found), sum(one.projected for one in found)
    return Drained(workers, affinity, events / wall_s, conflicts / (projected + conflicts))


def show(console: Console, drained: Sequence[Drained]) -> None:
    """Print a table."""
    table = Table("workers", "affinity", "events/s", "lost to conflicts", title="one backlog", title_justify="left")
    for one in drained:
        affinity = "yes" if one.affinity else "no"
        table.add_row(str(one.workers), affinity, f"{one.events_per_s:,.0f}", f"{one.lost:.2%}")
    console.print(table)


class _Sharer(Worker):
    """A worker that begins once all of them are there, each knowing of the others, and ends when nothing is left."""

    def __init__(self, member: Member) -> None:
        super().__init__(Settings(redis_url=member.url), mounted_units())
        self._member = member
        self.started = self.ended = 0.0

    async def _assemble(self) -> Parts:
        parts = await super()._assemble()
        await eventually(lambda: self._all_are_there(parts), within=GATHER_S_MAX)
        await asyncio.sleep(KNOWN_S)
        self.started = time.time()
        return parts

    async def _all_are_there(self, parts: Parts) -> bool:
        return len(await parts.beats.alive()) == self._member.workers

    async def _meet(self, parts: Parts) -> None:
        if self._member.affinity:
            await super()._meet(parts)
        else:
            parts.affinity.meet({self.name}, asyncio.get_running_loop().time())

    async def _project(self, parts: Parts, batches: Any, *, unseen: bool = False) -> int:
        done = await super()._project(parts, batches, unseen=unseen)
        if done:
            self.ended = time.time()
        if not any((await parts.feeds.firsts(range(parts.keys.partitions))).values()):
            self.stop()
        return done


async def _work(member: Member) -> _Done:
    worker = _Sharer(member)
    await worker.run()
    tally = worker.tally
    return _Done(tally.projected, tally.conflicts, worker.started, worker.ended or worker.started)


if __name__ == "__main__":
    collect_seldom()
    sys.stdout.buffer.write(msgspec.json.encode(run(_work(msgspec.json.decode(sys.argv[1], type=Member)))))
