"""What a session that floods costs the others: ``PYTHONPATH=tests python -m bench.chatty``.

From append to subscriber, as ``bench.latency`` measures it, with and without one more session that another process
appends to at a fixed rate, by the library, in a call every 5 ms. Server, worker and flood are processes of their own.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.host import own_server
from bench.latency import SESSIONS, ours, run_at
from bench.record import FOLDER, keep, record

SETTLE_S = 2.0
TELLS_S = 10.0

console = Console()


async def measure(url: str, rate: int, flood: int, seconds: float, rounds: int) -> list[dict[str, Any]]:
    """Without and with the flood in turn, round after round; ``flooded`` is the rate it reached, 0 without."""
    found: list[dict[str, Any]] = []
    async with ours(url) as (send, arrivals), _flooding(url, flood) as flooding:
        for number in range(1, rounds + 1):
            for with_flood in (False, True):
                reached: list[int] = []
                with console.status(f"round {number} of {rounds}, {'with' if with_flood else 'without'} the flood"):
                    if with_flood:
                        reached = await flooding.begin()
                    await run_at(rate, int(rate * seconds), send, arrivals)
                    if with_flood:
                        await flooding.end()
                cuts = quantiles(arrivals.took_ms, n=100)
                flooded = median(reached) if reached else 0
                found.append({"round": number, "flood": with_flood, "flooded": flooded, "percentiles_ms": cuts})
    return found


class _Flood:
    """A process that floods, stopped and going on by signals."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._reached: list[int] = []
        self._told = asyncio.Event()

    async def begin(self) -> list[int]:
        """Go on; returns the rates it reaches, second by second, a list that grows."""
        self._process.send_signal(signal.SIGCONT)
        for _ in range(2):  # the first rate counts the time it was stopped
            self._told.clear()
            async with asyncio.timeout(TELLS_S):
                await self._told.wait()
        self._reached = []
        return self._reached

    async def end(self) -> None:
        """Stop, and let what it wrote be projected."""
        self._process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(SETTLE_S)

    async def read(self) -> None:
        """Take what the process tells, until it ends."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self._reached.append(int(line))
            self._told.set()


@asynccontextmanager
async def _flooding(url: str, rate: int) -> AsyncGenerator[_Flood]:
    command = (sys.executable, "-m", "bench.flood", url, str(rate))
    process = await asyncio.create_subprocess_exec(*command, env=os.environ, stdout=asyncio.subprocess.PIPE)
    flood = _Flood(process)
    reading = asyncio.create_task(flood.read())
    process.send_signal(signal.SIGSTOP)
    try:
        yield flood
    finally:
        process.kill()
        await process.wait()
        await reading


def figures_of(found: list[dict[str, Any]]) -> dict[str, float]:
    """Medians over the rounds; the ratio is the median of the rounds' ratios."""
    calm, loud = ([one for one in found if one["flood"] is flood] for flood in (False, True))
    ratios = [b["percentiles_ms"][98] / a["percentiles_ms"][98] for a, b in zip(calm, loud, strict=True)]
    return {
        "p50_without_ms": round(median(one["percentiles_ms"][49] for one in calm), 2),
        "p99_without_ms": round(median(one["percentiles_ms"][98] for one in calm), 2),
        "p50_with_ms": round(median(one["percentiles_ms"][49] for one in loud), 2),
        "p99_with_ms": round(median(one["percentiles_ms"][98] for one in loud), 2),
        "p99_with_over_without": round(median(ratios), 2),
        "flood_per_s": round(median(one["flooded"] for one in loud)),
    }


async def _measure_all(rate: int, flood: int, seconds: float, rounds: int, image: str, json: Path | None) -> None:
    async with own_server(image) as url:
        found = await measure(url, rate, flood, seconds, rounds)
        figures = figures_of(found)
        table = Table(box=None, show_header=False, title=f"medians of {rounds}", title_justify="left")
        for name, figure in figures.items():
            table.add_row(name, str(figure))
        console.print(table)
        options = {"rate": rate, "flood": flood, "seconds": seconds, "rounds": rounds, "image": image}
        keep(record("chatty", url, {**options, "sessions": len(SESSIONS)}, figures, found), json, console)


def main(
    rate: Annotated[int, typer.Option(min=1, help="Events a second of all the others together.")] = 200,
    flood: Annotated[int, typer.Option(min=1, help="Events a second of the session that floods.")] = 10_000,
    seconds: Annotated[float, typer.Option(min=1, help="Length of a round, each way.")] = 5.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, the two ways in turn.")] = 5,
    image: Annotated[str, typer.Option(help="A Docker image; the embedded server without one.")] = "",
    json: Annotated[Path | None, typer.Option(help="Where the result goes; default: a new file in .bench/.")] = None,
) -> None:
    """Measure, print the medians, write JSON."""
    FOLDER.mkdir(exist_ok=True)
    asyncio.run(_measure_all(rate, flood, seconds, rounds, image, json))


if __name__ == "__main__":
    typer.run(main)
