"""From an append to a subscriber, beside the bare chain: ``PYTHONPATH=tests python -m bench.latency``.

The bare chain is XADD, XREADGROUP, PUBLISH, subscriber, by redis-py; nothing is checked or kept there. Server and
middle (a worker as it is shipped, or ``chain``) are processes of their own; writer and subscriber share this one.
Events come at a fixed rate, each a plan of eight items, to 50 sessions in turn; a session's next one waits until
the one before is stored, not until it has arrived.
"""

import asyncio
import os
import sys
import time
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated, Any

import msgspec
import redis.asyncio
import typer
from rich.console import Console
from rich.table import Table

from bench import plot
from bench.chain import GROUP, STREAM
from bench.host import own_server
from bench.record import FOLDER, keep, record
from todo_projection.subscriber import Frame, Snapshot, Status, subscribe
from todo_write.log import SessionLog, connect

SESSIONS = [f"s{number}" for number in range(50)]
ARRIVE_S = 60.0
SHARES = (0.5, 0.99)

console = Console()

Send = Callable[[str, dict[str, Any]], Awaitable[Any]]


class Arrivals:
    """When events were sent, and how long each took to arrive, in ms.

    A session's newest value stands for those before it: a frame may speak for several events of one batch.
    """

    def __init__(self) -> None:
        self.took_ms: list[float] = []
        self.sent_ms: list[float] = []
        self.done = asyncio.Event()
        self._count = 0
        self._open: dict[str, deque[tuple[int, float]]] = defaultdict(deque)

    def begin(self, count: int) -> None:
        """Expect so many events."""
        self.took_ms, self.sent_ms, self._count = [], [], count
        self.done.clear()

    def sending(self, session: str, number: int) -> None:
        """The event of this number goes out now."""
        self._open[session].append((number, time.perf_counter()))

    def arrived(self, session: str, number: int) -> None:
        """The value of the event of this number is here."""
        now, waiting = time.perf_counter(), self._open[session]
        while waiting and waiting[0][0] <= number:
            self.took_ms.append((now - waiting.popleft()[1]) * 1000)
        if len(self.took_ms) >= self._count:
            self.done.set()


async def run_at(rate: int, count: int, send: Send, arrivals: Arrivals) -> None:
    """Send events at a fixed rate, those of a session one after another; return when all have arrived."""
    arrivals.begin(count)
    began = time.perf_counter()

    async def write(first: int) -> None:
        for number in range(first, count, len(SESSIONS)):
            wait_s = began + number / rate - time.perf_counter()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            await _send_one(SESSIONS[first], number, send, arrivals)

    async with asyncio.timeout(ARRIVE_S + count / rate):
        await asyncio.gather(*(write(first) for first in range(len(SESSIONS))))
        await arrivals.done.wait()


async def _send_one(session: str, number: int, send: Send, arrivals: Arrivals) -> None:
    items = [{"content": f"event {number}", "status": "in_progress"}]
    items += [{"content": f"Plan 12, step {step}: look, mend, test", "status": "pending"} for step in range(7)]
    arrivals.sending(session, number)
    began = time.perf_counter()
    await send(session, {"todos": items})
    arrivals.sent_ms.append((time.perf_counter() - began) * 1000)


def _number(raw: bytes) -> int:
    at = raw.index(b'"event ') + len(b'"event ')
    return int(raw[at : raw.index(b'"', at)])


@asynccontextmanager
async def ours(url: str) -> AsyncGenerator[tuple[Send, Arrivals]]:
    """Library, worker and subscriber."""
    program = str(Path(sys.executable).with_name("todo-projection"))
    arrivals, ready = Arrivals(), asyncio.Event()

    async def hear(plans: Any) -> None:
        async for update in plans:
            match update:
                case Frame(session_id=session, key="todos", value=raw) if b'"event ' in bytes(raw):
                    arrivals.arrived(session, _number(bytes(raw)))
                case Snapshot(session, baseline) if b'"event ' in (held := bytes(baseline.values.get("todos", b""))):
                    arrivals.arrived(session, _number(held))
                case Status():
                    ready.set()
                case _:
                    pass

    async with (
        _process(program, "worker", "--log-level", "warning", TODO_REDIS_URL=url),
        connect(url, session_rate_max=0, process_rate_max=0) as client,
        subscribe(client, *SESSIONS) as plans,
    ):
        logs = {session: SessionLog(client, session) for session in SESSIONS}
        hearing = asyncio.create_task(hear(plans))

        async def send(session: str, data: dict[str, Any]) -> None:
            await logs[session].append("todo/write", data)

        async with asyncio.timeout(ARRIVE_S):
            await ready.wait()
            await run_at(100, len(SESSIONS) * 2, send, arrivals)
        try:
            yield send, arrivals
        finally:
            hearing.cancel()


@asynccontextmanager
async def bare(url: str) -> AsyncGenerator[tuple[Send, Arrivals]]:
    """The bare chain."""
    arrivals = Arrivals()
    async with redis.asyncio.from_url(url, protocol=2) as client, client.pubsub() as heard:
        group: Any = client
        await group.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
        await heard.subscribe(*(f"updates:{session}" for session in SESSIONS))

        async def hear() -> None:
            messages: Any = heard
            async for told in messages.listen():
                if told["type"] == "message":
                    session = told["channel"].decode().partition(":")[2]
                    arrivals.arrived(session, _number(told["data"]))

        async def send(session: str, data: dict[str, Any]) -> None:
            await client.xadd(STREAM, {"session": session, "type": "todo/write", "data": msgspec.json.encode(data)})

        hearing = asyncio.create_task(hear())
        async with _process(sys.executable, "-m", "bench.chain", url):
            await run_at(100, len(SESSIONS) * 2, send, arrivals)
            try:
                yield send, arrivals
            finally:
                hearing.cancel()


async def measure(url: str, rates: list[int], seconds: float, rounds: int) -> list[dict[str, Any]]:
    """Both ways in turn at each rate, round after round."""
    found: list[dict[str, Any]] = []
    async with ours(url) as one, bare(url) as other:
        for number in range(1, rounds + 1):
            for rate in rates:
                with console.status(f"round {number} of {rounds}, {rate} events/s"):
                    for way, (send, arrivals) in (("bare", other), ("ours", one)):
                        await run_at(rate, int(rate * seconds), send, arrivals)
                        cuts = quantiles(arrivals.took_ms, n=100)
                        sent = median(arrivals.sent_ms)
                        one_round = {"round": number, "rate": rate, "way": way, "sent_ms": sent, "percentiles_ms": cuts}
                        found.append(one_round)
    return found


def figures_of(found: list[dict[str, Any]], rates: list[int]) -> dict[str, Any]:
    """Medians over rounds for each rate; the ratio is the median of the rounds' ratios."""
    figures: dict[str, Any] = {}
    for rate in rates:
        ways = {way: [one for one in found if (one["rate"], one["way"]) == (rate, way)] for way in ("bare", "ours")}
        shown = {
            f"{way}_p{share * 100:.0f}_ms": round(
                median(one["percentiles_ms"][int(share * 100) - 1] for one in ones), 3
            )
            for way, ones in ways.items()
            for share in SHARES
        }
        shown |= {f"{way}_sent_p50_ms": round(median(one["sent_ms"] for one in ones), 3) for way, ones in ways.items()}
        pairs = zip(ways["ours"], ways["bare"], strict=True)
        ratios = [mine["percentiles_ms"][49] / other["percentiles_ms"][49] for mine, other in pairs]
        figures[f"{rate}/s"] = {**shown, "p50_ours_over_bare": round(median(ratios), 2)}
    return figures


def _plot(found: list[dict[str, Any]], rates: list[int], path: Path) -> None:
    series: dict[str, list[tuple[float, float]]] = {}
    for rate in rates:
        for way in ("bare", "ours"):
            ones = [one["percentiles_ms"] for one in found if (one["rate"], one["way"]) == (rate, way)]
            series[f"{way}, {rate}/s"] = [(float(n + 1), median(cuts[n] for cuts in ones)) for n in range(99)]
    path.write_text(plot.lines("From append to subscriber", "percentile", "ms", series, log_y=True))


async def _measure_all(rates: list[int], seconds: float, rounds: int, image: str, json: Path | None) -> None:
    async with own_server(image) as url:
        found = await measure(url, rates, seconds, rounds)
        figures = figures_of(found, rates)
        table = Table("", *figures, title=f"append → subscriber, medians of {rounds}", title_justify="left")
        for name in next(iter(figures.values())):
            table.add_row(name, *(str(of_rate[name]) for of_rate in figures.values()))
        console.print(table)
        options = {"rates": rates, "seconds": seconds, "rounds": rounds, "image": image, "sessions": len(SESSIONS)}
        path = keep(record("latency", url, options, figures, found), json, console)
        _plot(found, rates, path.with_suffix(".svg"))


def main(
    rate: Annotated[list[int] | None, typer.Option(help="Events a second; repeatable.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Length of a round, of each way at each rate.")] = 4.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, the two ways in turn.")] = 5,
    image: Annotated[str, typer.Option(help="A Docker image; the embedded server without one.")] = "",
    json: Annotated[Path | None, typer.Option(help="Where the result goes; default: a new file in .bench/.")] = None,
) -> None:
    """Measure, print the medians, write JSON and a plot of the percentiles beside it."""
    FOLDER.mkdir(exist_ok=True)
    asyncio.run(_measure_all(rate or [200, 2000], seconds, rounds, image, json))


@asynccontextmanager
async def _process(*command: str, **settings: str) -> AsyncGenerator[None]:
    process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **settings})
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


if __name__ == "__main__":
    typer.run(main)
