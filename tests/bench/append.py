"""What an append of the library costs beside a bare XADD: ``PYTHONPATH=tests python -m bench.append``.

Both one at a time, in one process and on one loop; an append also compares, and writes a pointer.
"""

import asyncio
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import redis
import redis.asyncio
import typer
from rich.console import Console

from bench.host import own_server
from bench.mix import MESSAGE, MESSAGE_BYTES
from bench.record import keep, record
from todo_write.log import SessionLog, connect

STREAM = "events"

console = Console()


async def measure(url: str, calls: int, rounds: int) -> list[dict[str, float]]:
    """Rates of each round, in turn, calls a second."""
    data = {"text": "x" * (MESSAGE_BYTES - len('{"text":""}'))}
    raw = f'{{"text":"{data["text"]}"}}'
    found: list[dict[str, float]] = []
    async with connect(url, session_rate_max=0, process_rate_max=0) as client, redis.asyncio.from_url(url) as bare:
        log = SessionLog(client, "s")

        async def append() -> None:
            await log.append(MESSAGE, data)

        async def add() -> None:
            await bare.xadd(STREAM, {"session": "s", "type": MESSAGE, "data": raw})

        async def add_raw() -> None:
            await client.ask("XADD", STREAM, "*", "session", "s", "type", MESSAGE, "data", raw)

        ways = {"append": append, "xadd": add, "xadd_thin": add_raw}
        for one in ways.values():
            await one()
        for number in range(1, rounds + 1):
            with console.status(f"round {number} of {rounds}"):
                found.append({name: await _rate(one, calls) for name, one in ways.items()})
        stored: Any = await bare.xlen((await client.keys()).log("s"))
        if stored != calls * rounds + 1:
            raise SystemExit(f"the log holds {stored} events, not {calls * rounds + 1}")
    return found


async def _rate(call: Any, calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        await call()
    return calls / (time.perf_counter() - began)


async def _measure_all(calls: int, rounds: int, image: str, loop: str, json: Path | None) -> None:
    async with own_server(image) as url:
        found = await asyncio.to_thread(_on_loop, loop, url, calls, rounds)
        figures: dict[str, Any] = {f"{name}_per_s": round(median(one[name] for one in found)) for name in found[0]}
        figures["append_over_xadd"] = round(median(one["append"] / one["xadd"] for one in found), 3)
        figures["append_over_xadd_thin"] = round(median(one["append"] / one["xadd_thin"] for one in found), 3)
        console.print(
            f"{MESSAGE_BYTES} bytes, one at a time, on {loop}, medians of {rounds}: {figures}", highlight=False
        )
        options = {"calls": calls, "rounds": rounds, "image": image, "loop": loop}
        keep(record("append", url, options, figures, found), json, console)


def _on_loop(loop: str, url: str, calls: int, rounds: int) -> list[dict[str, float]]:
    factory: Any = None
    if loop == "uvloop":
        import uvloop  # noqa: PLC0415 - not there on every machine

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(measure(url, calls, rounds))


def main(
    calls: Annotated[int, typer.Option(min=1, help="Calls a round, of each.")] = 5000,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, the ways in turn.")] = 5,
    image: Annotated[str, typer.Option(help="A Docker image; the embedded server without one.")] = "",
    loop: Annotated[str, typer.Option(help="asyncio or uvloop.")] = "asyncio",
    json: Annotated[Path | None, typer.Option(help="Where the result goes; default: a new file in .bench/.")] = None,
) -> None:
    """Measure, and print the medians.

    ``xadd`` is redis-py's client as it comes, ``xadd_thin`` XADD through the library's own connections.
    """
    if loop not in ("asyncio", "uvloop") or (loop == "uvloop" and not find_spec("uvloop")):
        raise typer.BadParameter(f"no loop {loop!r} here")
    asyncio.run(_measure_all(calls, rounds, image, loop, json))


if __name__ == "__main__":
    typer.run(main)
