"""How fast one ``todo-write serve`` child is: ``PYTHONPATH=tests python -m bench.serve``. Calls of six items each."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from threading import Thread
from typing import IO, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bench.host import own_server

ITEMS = 6
SESSIONS = (1, 10, 1000)

Pipes = tuple[IO[bytes], IO[bytes]]


class Measured(msgspec.Struct, frozen=True):
    """One run: ``wait_ms`` is median and 99th percentile of calls sent one after another, else None."""

    how: str
    sessions: int
    calls: int
    wall_s: float
    wait_ms: tuple[float, float] | None = None


def request(number: int, session: str) -> bytes:
    """One line."""
    todos = [{"content": f"step {item} of call {number}", "status": "pending"} for item in range(ITEMS)]
    return json.dumps({"id": number, "session": session, "call": {"todos": todos}}).encode() + b"\n"


def all_at_once(pipes: Pipes, sessions: int, calls: int) -> Measured:
    """Send calls as fast as they are taken."""
    stdin, stdout = pipes
    lines = b"".join(request(number, f"s{number % sessions}") for number in range(calls))
    started = time.perf_counter()
    writing = Thread(target=lambda: (stdin.write(lines), stdin.flush()))
    writing.start()
    for _ in range(calls):
        check(stdout.readline())
    wall_s = time.perf_counter() - started
    writing.join()
    return Measured("as fast as they are taken", sessions, calls, wall_s)


def one_by_one(pipes: Pipes, sessions: int, calls: int) -> Measured:
    """Send a call when the one before is answered."""
    stdin, stdout = pipes
    waits_ms: list[float] = []
    for number in range(calls):
        started = time.perf_counter()
        stdin.write(request(number, f"s{number % sessions}"))
        stdin.flush()
        check(stdout.readline())
        waits_ms.append((time.perf_counter() - started) * 1000)
    share = quantiles(waits_ms, n=100)
    return Measured("one after another", sessions, calls, sum(waits_ms) / 1000, (share[49], share[98]))


def check(answer: bytes) -> None:
    """End the run when a call was not stored: its rate would mean nothing."""
    if not answer or not json.loads(answer)["ok"]:
        raise SystemExit(f"a call was not stored: {answer!r}")


@contextmanager
def child(url: str) -> Generator[Pipes]:
    """The pipes of a child that is warm."""
    command = [str(Path(sys.executable).with_name("todo-write")), "serve", "--parallel", "--redis-url", url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        all_at_once((process.stdin, process.stdout), 100, 500)
        yield process.stdin, process.stdout
        process.stdin.close()


def main(
    calls: Annotated[int, typer.Option(min=100, help="Calls in a run.")] = 10_000,
    image: Annotated[str, typer.Option(help="A Docker image; the embedded server without one.")] = "",
) -> None:
    """Measure and print a table."""
    runs: list[tuple[Callable[[Pipes, int, int], Measured], int, int]] = [(one_by_one, 1, calls // 10)]
    runs += [(all_at_once, sessions, calls) for sessions in SESSIONS]

    async def body() -> list[Measured]:
        async with own_server(image) as url:
            with child(url) as pipes:
                return [await asyncio.to_thread(run, pipes, sessions, count) for run, sessions, count in runs]

    table = Table("calls sent", "sessions", "calls", "calls/s", "ms, median", "ms, 99 %", title="todo-write serve")
    for run in asyncio.run(body()):
        waits = [f"{wait:.2f}" for wait in run.wait_ms or ()]
        table.add_row(run.how, str(run.sessions), str(run.calls), f"{run.calls / run.wall_s:.0f}", *waits)
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
