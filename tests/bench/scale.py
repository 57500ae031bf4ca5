"""What many stored sessions cost those that are active: ``PYTHONPATH=tests python -m bench.scale``.

One server for each number of stored sessions, all at once, with the recommended settings; the same 1 000 sessions are
active on each, and a worker drains their backlog on one server after the other, round after round. Then, on each: what
an idle fleet makes a worker send, how long programs take to start, and how fast the audit looks.
"""

import asyncio
import json as jsonlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import redis
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench import plot
from bench.backlog import Logs
from bench.host import own_server
from bench.idle import RECOMMENDED
from bench.mix import MIXES
from bench.record import keep, record
from bench.stored import EVENTS_EACH, drain, fill, names
from todo_projection.audit import Audit
from todo_projection.embedded import free_port
from todo_projection.wire import Wire
from todo_write.events import Keys
from todo_write.log import SessionLog, connect

ACTIVE = 1000
AUDIT_PAGE = 1000
READY_S = 120.0
REBUILD_S = 10.0

console = Console(width=120)


class Stored:
    """A server with so many sessions stored, and the active ones among them."""

    def __init__(self, url: str, count: int) -> None:
        self.url = url
        self.count = count
        self.keys = Keys()
        self.client = redis.Redis.from_url(url)
        self._logs = Logs(self.client, self.keys)

    def fill(self, bar: Progress) -> dict[str, float]:
        """Store them; how fast a worker projected sessions it had never seen."""
        idle = self.count - ACTIVE
        first = 0.0
        if idle > 0:
            task = bar.add_task(f"storing {self.count:,}", total=idle)
            for count in fill(self.client, self.keys, names(idle), done=False):
                bar.update(task, completed=count)
            first = drain(self.url, idle * EVENTS_EACH).rate
        self.backlog(ACTIVE * 5)
        return {"first_events_per_s": round(first)}

    def backlog(self, events: int) -> float:
        """Write a backlog of the real mix and have it drained; events a second."""
        self._logs.load(MIXES["real"].events(events, ACTIVE))
        return drain(self.url, events).rate

    def commands_per_s(self, seconds: float, **settings: str) -> float:
        """What one idle worker sends, beside this look."""
        with _process("worker", self.url, **settings):
            self.wait_for_worker()
            before, began = self._commands(), time.perf_counter()
            time.sleep(seconds)
            return (self._commands() - before - 1) / (time.perf_counter() - began)

    def wait_for_worker(self) -> None:
        """Until a worker has beaten."""
        deadline = time.monotonic() + READY_S
        while not self.client.hlen(self.keys.workers):
            if time.monotonic() > deadline:
                raise TimeoutError("no worker has come up")
            time.sleep(0.005)

    def _commands(self) -> int:
        info: Any = self.client.info("stats")
        return int(info["total_commands_processed"])


def starts(stored: Stored, times: int) -> dict[str, float]:
    """Seconds from the start of a program to its first result, medians."""
    probes: dict[str, Callable[[], None]] = {
        "worker_s": lambda: _worker_start(stored),
        "doctor_s": lambda: _run("doctor", stored.url),
        "status_s": lambda: _run("status", stored.url),
    }
    found = {name: round(median(_seconds(probe) for _ in range(times)), 3) for name, probe in probes.items()}
    return {**found, **_gateway(stored)}


def _worker_start(stored: Stored) -> None:
    """Until an event appended beforehand is in its row."""
    session, keys = "bench-start", stored.keys

    async def append() -> str:
        async with connect(stored.url) as client:
            return str(await SessionLog(client, session).append("turn/start", {"turn": 1}))

    position = asyncio.run(append()).encode()
    with _process("worker", stored.url):
        while stored.client.hget(keys.row(session), "pos") != position:
            time.sleep(0.005)


def _gateway(stored: Stored) -> dict[str, float]:
    """A gateway that was just started: its first page of sessions, the next one, and what it grew by."""
    port = free_port()
    with _process("gateway", stored.url, PORT=str(port)) as process:
        deadline = time.monotonic() + READY_S
        while True:
            with suppress(OSError):
                _get(port, "/api/openapi.json")
                break
            if time.monotonic() > deadline:
                raise TimeoutError("no gateway has come up")
            time.sleep(0.02)
        before_kb = _resident_kb(process.pid)
        first_s = _seconds(lambda: _get(port, "/api/sessions"))
        next_s = _seconds(lambda: _get(port, "/api/sessions"))
        grown_mb = (_resident_kb(process.pid) - before_kb) / 1024
    return {"board_first_s": round(first_s, 3), "board_next_s": round(next_s, 3), "board_mb": round(grown_mb, 1)}


def sweep(stored: Stored) -> dict[str, float]:
    """One sweep of the audit at full speed; it is paced to TODO_AUDIT_RATE otherwise."""

    async def look() -> tuple[int, float]:
        wire = Wire(stored.url)
        audit, began = Audit(wire, stored.keys, {"board": 1, "todos": 2}), time.perf_counter()
        while not audit.sweeps:
            await audit.step(AUDIT_PAGE)
        await wire.aclose()
        return audit.looked, time.perf_counter() - began

    looked, took_s = asyncio.run(look())
    return {"audit_sweep_s": round(took_s, 2), "audit_sessions_per_s": round(looked / took_s)}


def rebuilds(stored: Stored) -> dict[str, float]:
    """Sessions a second that one worker folds again, for as long as a rebuild is let run."""
    program = [
        str(Path(sys.executable).with_name("todo-projection")),
        "rebuild",
        "--all",
        "--restart",
        "--rate",
        "100000",
    ]
    with _process("worker", stored.url):
        stored.wait_for_worker()
        before, began = _published_revs(stored), time.perf_counter()
        with suppress(subprocess.TimeoutExpired):
            subprocess.run([*program, "--redis-url", stored.url], capture_output=True, check=True, timeout=REBUILD_S)
        while any(stored.client.xlen(stored.keys.feed(p)) for p in range(stored.keys.partitions)):
            time.sleep(0.02)
        return {"rebuilt_sessions_per_s": round((_published_revs(stored) - before) / (time.perf_counter() - began))}


def _published_revs(stored: Stored) -> int:
    """Row writes so far: a rebuild writes a row twice, to ask and to fold."""
    info: Any = stored.client.info("commandstats")
    return int(info.get("cmdstat_hset", {"calls": 0})["calls"]) // 2


async def _measure_all(
    counts: list[int], events: int, rounds: int, seconds: float, starts: int, image: str, json: Path | None
) -> None:
    async with AsyncExitStack() as stack:
        servers = [Stored(await stack.enter_async_context(own_server(image, *RECOMMENDED)), count) for count in counts]
        figures, found = await asyncio.to_thread(_measure, servers, events, rounds, seconds, starts)
        table = Table("stored sessions", *(f"{count:,}" for count in counts), title=f"medians of {rounds}")
        for name in figures[str(counts[0])]:
            table.add_row(name, *(f"{figures[str(count)][name]:,}" for count in counts))
        console.print(table)
        options = {"events": events, "rounds": rounds, "seconds": seconds, "image": image, "settings": RECOMMENDED}
        path = keep(record("scale", servers[0].url, options, figures, found), json, console)
        series = {"events/s": [(float(count), figures[str(count)]["events_per_s"]) for count in counts]}
        title = "One worker, the same 1 000 sessions active"
        path.with_suffix(".svg").write_text(plot.lines(title, "stored sessions", "events/s", series, log_x=True))


def _measure(
    servers: list[Stored], events: int, rounds: int, seconds: float, times: int
) -> tuple[dict[str, dict[str, float]], list[dict[str, Any]]]:
    figures: dict[str, dict[str, float]] = {}
    with Progress(console=console, transient=True) as bar:
        for stored in servers:
            figures[str(stored.count)] = stored.fill(bar)
        task = bar.add_task("draining", total=rounds * len(servers))
        found: list[dict[str, Any]] = []
        for number in range(rounds):
            for stored in servers if number % 2 == 0 else servers[::-1]:
                found.append({"round": number, "stored": stored.count, "events_per_s": stored.backlog(events)})
                bar.advance(task)
        task = bar.add_task("starting programs", total=len(servers))
        for stored in servers:
            mine = [one["events_per_s"] for one in found if one["stored"] == stored.count]
            least = [one["events_per_s"] for one in found if one["stored"] == servers[0].count]
            ratios = [rate / base for rate, base in zip(mine, least, strict=True)]
            figures[str(stored.count)] |= {"events_per_s": round(median(mine)), "ratio": round(median(ratios), 3)}
            figures[str(stored.count)] |= {
                "idle_commands_per_s": round(stored.commands_per_s(seconds, TODO_AUDIT_RATE="0"), 1),
                "idle_commands_per_s_with_audit": round(stored.commands_per_s(seconds), 1),
                **starts(stored, times),
                **sweep(stored),
                **rebuilds(stored),
            }
            bar.advance(task)
    return figures, found


def main(
    sessions: Annotated[list[int] | None, typer.Option(help="Stored sessions, 1 000 at least; repeatable.")] = None,
    events: Annotated[int, typer.Option(min=1, help="Events of a backlog.")] = 100_000,
    rounds: Annotated[int, typer.Option(min=1, help="Drains on each server, in turn.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.5, help="For how long an idle worker is watched.")] = 20.0,
    starts: Annotated[int, typer.Option(min=1, help="Starts of each program.")] = 5,
    image: Annotated[str, typer.Option(help="A Docker image; the embedded server without one.")] = "",
    json: Annotated[Path | None, typer.Option(help="Where the result goes; default: a new file in .bench/.")] = None,
) -> None:
    """Measure, print a table, write JSON and a plot of the rates beside it."""
    asyncio.run(_measure_all(sessions or [1000, 100_000, 1_000_000], events, rounds, seconds, starts, image, json))


@contextmanager
def _process(command: str, url: str, **settings: str) -> Generator[subprocess.Popen[bytes]]:
    program = str(Path(sys.executable).with_name("todo-projection"))
    environ = {**os.environ, "TODO_REDIS_URL": url, **settings}
    with subprocess.Popen([program, command, "--log-level", "error"], env=environ) as process:
        try:
            yield process
        finally:
            process.terminate()


def _run(command: str, url: str) -> None:
    program = str(Path(sys.executable).with_name("todo-projection"))
    subprocess.run([program, command, "--json", "--redis-url", url], capture_output=True, check=False)


def _get(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=READY_S) as answer:
        return jsonlib.load(answer)


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _resident_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


if __name__ == "__main__":
    typer.run(main)
