"""How fast one long log is folded anew: ``PYTHONPATH=tests python -m bench.refold``.

As rebuild, verify and repair do it. The log is of the mix *import*; each fold runs in a process of its own, which is a
worker's in all but what it is told.
"""

import asyncio
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import msgspec
import redis
import typer
from rich.console import Console

from bench.backlog import load_logs
from bench.check import Truth, Undone
from bench.host import own_server
from bench.measure import run
from bench.mix import MIXES
from bench.record import keep, record
from todo_projection.process import collect_seldom
from todo_projection.refold import Refold
from todo_projection.unit import mounted_units
from todo_projection.wire import Wire
from todo_write.events import Keys, Position

SESSION = "session-000000"
WARM_EVENTS = 10_000
FOLD_S_MAX = 600.0

console = Console()


class Fold(msgspec.Struct, frozen=True):
    """One fold: ``grown_kb`` is by how much the process grew beyond a fold of the first 10 000 events."""

    events: int
    wall_s: float
    cpu_s: float
    redis_cpu_s: float
    grown_kb: int
    value: str

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.wall_s


async def fold(url: str, events: int) -> Fold:
    """Fold the log up to its last event."""
    keys, wire, units = Keys(), Wire(url), mounted_units()
    with redis.Redis.from_url(url) as client:
        tails: Any = client.xrevrange(keys.log(SESSION), count=1)
        last = Position.parse(tails[0][0])
        refold = Refold(wire, keys, units)
        await refold.up_to(SESSION, last._replace(seq=min(WARM_EVENTS, last.seq)))
        before_kb, redis_s, cpu_s, began = _peak_kb(), _redis_cpu_s(client), time.process_time(), time.perf_counter()
        folds = await refold.up_to(SESSION, last)
        wall_s, cpu_s, redis_s = (
            time.perf_counter() - began,
            time.process_time() - cpu_s,
            _redis_cpu_s(client) - redis_s,
        )
        value = next(fold.cell().value for fold in folds if fold.unit.key == "todos").decode()
    await wire.aclose()
    return Fold(events, wall_s, cpu_s, redis_s, _peak_kb() - before_kb, value)


def measure(url: str, events: int) -> Fold:
    """The same in a process of its own; raises Undone when the value is not the last plan."""
    command = [sys.executable, "-m", "bench.refold", "--fold", url, "--events", str(events)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=FOLD_S_MAX)
    if done.returncode:
        raise Undone(done.stderr.decode())
    found = msgspec.json.decode(done.stdout, type=Fold)
    plan = Truth(MIXES["import"].events(events, 1)).plans[SESSION]
    wanted = None if plan in (None, b"null") else msgspec.json.decode(plan)["todos"]
    if msgspec.json.decode(found.value) != wanted:
        raise Undone(f"the fold ends with {found.value}, its events say {wanted}")
    return found


async def _measure_all(events: int, rounds: int, image: str, json: Path | None) -> None:
    keys = Keys()
    async with own_server(image) as url:
        with redis.Redis.from_url(url) as client, console.status(f"writing a log of {events:,} events"):
            await asyncio.to_thread(load_logs, client, keys, MIXES["import"].events(events, 1))
            for partition in range(keys.partitions):
                client.delete(keys.feed(partition))
        found: list[Fold] = []
        for number in range(1, rounds + 1):
            with console.status(f"round {number} of {rounds}"):
                found.append(await asyncio.to_thread(measure, url, events))
        figures = {
            "events_per_s": round(median(one.rate for one in found)),
            "cpu_us_per_event": round(median(one.cpu_s / one.events for one in found) * 1e6, 2),
            "redis_cpu_us_per_event": round(median(one.redis_cpu_s / one.events for one in found) * 1e6, 2),
            "grown_kb_max": max(one.grown_kb for one in found),
        }
        console.print(f"one log of {events:,} events, medians of {rounds}: {figures}", highlight=False)
        rows = [msgspec.to_builtins(one) for one in found]
        keep(record("refold", url, {"events": events, "rounds": rounds, "image": image}, figures, rows), json, console)


def main(
    events: Annotated[int, typer.Option(min=1, help="Events of the log.")] = 1_000_000,
    rounds: Annotated[int, typer.Option(min=1, help="Folds.")] = 5,
    image: Annotated[str, typer.Option(help="A Docker image; the embedded server without one.")] = "",
    json: Annotated[Path | None, typer.Option(help="Where the result goes; default: a new file in .bench/.")] = None,
    fold_url: Annotated[str, typer.Option("--fold", hidden=True)] = "",
) -> None:
    """Measure, and print the medians."""
    if fold_url:
        collect_seldom()
        sys.stdout.buffer.write(msgspec.json.encode(run(fold(fold_url, events))))
        return
    asyncio.run(_measure_all(events, rounds, image, json))


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _redis_cpu_s(client: redis.Redis) -> float:
    used: dict[str, float] = client.info("cpu")
    return used["used_cpu_user"] + used["used_cpu_sys"]


if __name__ == "__main__":
    typer.run(main)
