"""How long an agent waits for its plan to be kept: one run of the hook, one call through a ``serve`` child.

``PYTHONPATH=tests python -m bench.hook`` prints this table alone.
"""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import quantiles
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.host import own_server
from bench.serve import child, one_by_one

RUNS = 20

Figures = tuple[float, float]


def told(event: str, number: int = 0, **more: Any) -> bytes:
    """What Claude Code tells a hook."""
    return json.dumps({"hook_event_name": event, "session_id": f"bench-{number}", **more}).encode()


def called(tool: str, number: int) -> bytes:
    """A call of a tool, the task or list of one item each time."""
    inputs: dict[str, Any] = {"TaskCreate": {"subject": f"step {number}"}, "TodoWrite": {"todos": []}}
    answer = {"task": {"id": str(number)}}
    return told("PostToolUse", tool_name=tool, tool_use_id=str(number), tool_input=inputs[tool], tool_response=answer)


def run_ms(command: list[str], inputs: list[bytes]) -> Figures:
    """Median and 99th percentile of a process from its start to its end; raises SystemExit for one that complains."""
    found: list[float] = []
    for input in inputs:
        started = time.perf_counter()
        done = subprocess.run(command, input=input, capture_output=True, check=True)
        found.append((time.perf_counter() - started) * 1000)
        if done.stderr:
            raise SystemExit(f"a run was not what it should be: {done.stderr.decode()}")
    share = quantiles(found, n=100, method="inclusive")
    return share[49], share[98]


def measure(url: str, runs: int = RUNS) -> dict[str, Figures]:
    """Time by what is done, in ms."""
    python = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    # Exactly as Claude Code starts it: with no flags, so the address comes from the environment.
    hook = ["env", f"TODO_REDIS_URL={url}", str(Path(sys.executable).with_name("todo-write")), "hook", "claude-code"]
    with child(url) as pipes:
        wait_ms = one_by_one(pipes, 1, runs * 25).wait_ms
    assert wait_ms is not None
    numbers = range(1, runs + 1)
    return {
        "a bare start of Python": run_ms(python, [b""] * runs),
        "hook: TaskCreate": run_ms(hook, [called("TaskCreate", number) for number in numbers]),
        "hook: TodoWrite": run_ms(hook, [called("TodoWrite", number) for number in numbers]),
        "hook: UserPromptSubmit": run_ms(hook, [told("UserPromptSubmit", number) for number in numbers]),
        "serve: one call": wait_ms,
    }


def show_waits(console: Console, url: str, runs: int = RUNS) -> None:
    """Measure, and print the table."""
    table = Table(title=f"time per hook run and per serve call, {runs} runs each", title_justify="left")
    table.add_column("", no_wrap=True)
    table.add_column("ms, median", justify="right")
    table.add_column("ms, 99 %", justify="right")
    for name, (median, worst) in measure(url, runs).items():
        table.add_row(name, f"{median:.1f}", f"{worst:.1f}")
    console.print(table)


def main(
    runs: Annotated[int, typer.Option(min=2, help="Runs of each.")] = RUNS,
    image: Annotated[str, typer.Option(help="A Docker image; the embedded server without one.")] = "",
) -> None:
    """Measure and print the table."""

    async def body() -> None:
        async with own_server(image) as url:
            await asyncio.to_thread(show_waits, Console(), url, runs)

    asyncio.run(body())


if __name__ == "__main__":
    typer.run(main)
