"""``python -m bench.delivery``: from an append to the socket of each client of one gateway, and what a client costs.

Server, worker and gateway are processes of their own; appends and all clients share this one, whose own time is in the
figures.
"""

import asyncio
import os
import resource
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import quantiles
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from bench.host import own_server
from todo_projection.embedded import free_port
from todo_write.log import SessionLog, connect

PAUSE_S = 0.02
READY_S = 60.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MARK = b'"value":[{"content":"append '


class Figures(NamedTuple):
    """Of one number of clients, all of them on one session."""

    clients: int
    p50_ms: float
    p99_ms: float
    kb_per_client: float
    cpu_us_per_delivery: float


class Deliveries:
    """When each client had read the frame of each append; ``ready`` is set when all of them have."""

    def __init__(self, clients: int) -> None:
        self.at: dict[int, list[float]] = {}
        self.ready = asyncio.Event()
        self._clients = clients
        self._live = 0

    async def read(self, port: int) -> None:
        """Read a stream until cancelled."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"GET /api/stream?session=s HTTP/1.1\r\nhost: localhost\r\n\r\n")
            while data := await reader.read(65536):
                if b"event: status" in data:
                    self._live += 1
                    self._tell(self._live)
                if (at := data.find(MARK)) >= 0:
                    number = int(data[at + len(MARK) : data.index(b'"', at + len(MARK))])
                    times = self.at.setdefault(number, [])
                    times.append(time.perf_counter())
                    self._tell(len(times))
        finally:
            writer.close()

    async def all(self) -> None:
        """Return once every client is where it is to be."""
        async with asyncio.timeout(READY_S):
            await self.ready.wait()
        self.ready.clear()

    def _tell(self, count: int) -> None:
        if count == self._clients:
            self.ready.set()


async def measure(url: str, clients: int, appends: int) -> Figures:
    """Append so many times, each when every client has the one before."""
    async with AsyncExitStack() as stack:
        port = free_port()
        await stack.enter_async_context(_process("worker", TODO_REDIS_URL=url))
        gateway = await stack.enter_async_context(_process("gateway", TODO_REDIS_URL=url, PORT=str(port)))
        log = SessionLog(await stack.enter_async_context(connect(url)), "s")
        await _listening(port)
        before_kb = _resident_kb(gateway.pid)
        deliveries = Deliveries(clients)
        tasks = [asyncio.create_task(deliveries.read(port)) for _ in range(clients)]
        await deliveries.all()
        grown_kb = _resident_kb(gateway.pid) - before_kb
        cpu_s = _cpu_s(gateway.pid)
        took_ms: list[float] = []
        for number in range(appends):
            began = time.perf_counter()
            items = [f"append {number}", *(f"item {n} of the plan" for n in range(7))]
            await log.append("todo/write", {"todos": [{"content": item, "status": "pending"} for item in items]})
            await deliveries.all()
            took_ms += [(at - began) * 1000 for at in deliveries.at[number]]
            await asyncio.sleep(PAUSE_S)
        cpu_s = _cpu_s(gateway.pid) - cpu_s
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        cuts = quantiles(took_ms, n=100)
        return Figures(clients, cuts[49], cuts[98], grown_kb / clients, cpu_s / len(took_ms) * 1e6)


def main(
    clients: Annotated[list[int] | None, typer.Option(help="Numbers of clients; 1, 100 and 1000 without it.")] = None,
    appends: Annotated[int, typer.Option(min=10, help="Appends for each of them.")] = 100,
) -> None:
    """Measure, and print a table."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    table = Table("clients", "p50 ms", "p99 ms", "kB a client", "gateway CPU µs a delivery", box=None)
    for figures in asyncio.run(_measure_all(clients or [1, 100, 1000], appends)):
        table.add_row(*(f"{figure:.1f}" if isinstance(figure, float) else str(figure) for figure in figures))
    Console().print(table)


async def _measure_all(clients: list[int], appends: int) -> list[Figures]:
    found: list[Figures] = []
    for count in clients:
        async with own_server("") as url:
            found.append(await measure(url, count, appends))
    return found


@asynccontextmanager
async def _process(command: str, **settings: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    program = Path(sys.executable).with_name("todo-projection")
    process = await asyncio.create_subprocess_exec(
        program, command, "--log-level", "warning", env={**os.environ, **settings}
    )
    try:
        yield process
    finally:
        process.terminate()
        await process.wait()


async def _listening(port: int) -> None:
    async with asyncio.timeout(READY_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:
                await asyncio.sleep(PAUSE_S)
            else:
                writer.close()
                return


def _resident_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


if __name__ == "__main__":
    typer.run(main)
