"""``make chaos``: seeded runs with processes that die and a server that fails, one after another."""

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from chaos.ground import Alone, Ground, Together
from chaos.run import Totals, run
from chaos.script import Plan
from fleet import Fleet

OPTIONS = (
    *("--appendonly", "yes", "--appendfsync", "always"),  # so that a restart loses nothing
    *("--auto-aof-rewrite-min-size", "4mb"),  # so that it takes no longer the more has happened
)

TOGETHER = ("sentinel", "cluster")

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


async def _all(plans: list[Plan], fleet: Fleet) -> Totals:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    totals = Totals()
    for plan in plans:
        folder = Path(tempfile.mkdtemp(prefix="todo-chaos-"))
        ground, end = await asyncio.to_thread(_open, plan.server, fleet)
        try:
            found = await run(plan, ground, folder, typer.echo)
        except BaseException:
            typer.echo(f"seed {plan.seed} did not end well; what everybody said: {folder}; again: {plan.again}")
            raise
        finally:
            await asyncio.to_thread(end)
        totals.add(found)
        typer.echo(found.told)
        for line in found.verdict.wrong:
            typer.echo(f"WRONG: {line}")
        if found.verdict.wrong:
            typer.echo(f"what everybody said: {folder}; again: {plan.again}")
        else:
            shutil.rmtree(folder)
    return totals


def _open(name: str, fleet: Fleet) -> tuple[Ground, Callable[[], None]]:
    """What the run stands on, and what ends it."""
    if name in TOGETHER:
        whole = fleet.launch_whole(name)
        return Together(whole), partial(fleet.end, whole)
    server = fleet.launch(name, OPTIONS)
    return Alone(server), partial(fleet.end, server)


@app.command(
    epilog="Example: make chaos SEEDS='1 2 3' STEPS=100 SERVERS='redis:7.0 redis:8.0'. Exit 1: something is wrong."
)
def chaos(
    seeds: Annotated[str, typer.Option(help="whole numbers, one run each on each server")] = "1",
    steps: Annotated[int, typer.Option(min=0, help="blows of each run")] = 60,
    servers: Annotated[str, typer.Option(help="images of Docker, `embedded`, `sentinel`, `cluster`")] = "embedded",
) -> None:
    """Run everything under blows, and say what was lost, doubled or reordered."""
    wanted = servers.split()
    fleet = Fleet((), {}) if {"embedded", *TOGETHER}.issuperset(wanted) else Fleet.discover()
    try:
        names = [fleet.embedded if name == "embedded" else name for name in wanted]
        missing = [name for name in names if name not in (*fleet.names, *TOGETHER)]
        if missing:
            raise typer.BadParameter(f"{missing} are not to be had; {', '.join((*fleet.names, *TOGETHER))} are")
        plans = [Plan(int(seed), steps, name) for name in names for seed in seeds.split()]
        totals = asyncio.run(_all(plans, fleet))
    finally:
        fleet.stop()
    typer.echo(f"\nall {len(plans)} runs: {totals.told}")
    raise typer.Exit(code=1 if totals.verdict.wrong else 0)


if __name__ == "__main__":
    app()
