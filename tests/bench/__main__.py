"""``make bench``: how fast a worker drains a backlog, beside what a team would use instead, in the same run."""

import asyncio
import pstats
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import redis
import typer
from rich.console import Console

from bench.backlog import load_logs, load_stream
from bench.check import Truth, Undone, check_plans, check_rows
from bench.contenders import CONTENDERS, OURS, Contender
from bench.fleet import Drained, drain
from bench.fleet import show as show_fleets
from bench.hook import show_waits
from bench.host import describe, own_server
from bench.measure import Job, Measurement
from bench.mix import MIXES, Mix
from bench.report import Case, Result, figures_of, legend, show, title
from todo_write.events import Keys

FOLDER = Path(".bench")
DRAIN_S_MAX = 300.0
PROFILE_LINES = 40

console = Console()
app = typer.Typer(add_completion=False, rich_markup_mode=None)


class Run:
    """One run on one server: every contender in turn, round after round, each on a backlog of its own."""

    def __init__(self, url: str, contenders: Sequence[Contender]) -> None:
        self._url = url
        self._contenders = contenders
        self._keys = Keys()

    def case(self, mix: Mix, sessions: int, events: int, rounds: int) -> Case:
        """Measure all contenders on a mix; raises Undone."""
        case = Case(mix.name, sessions, events, {contender.name: [] for contender in self._contenders})
        for round in range(1, rounds + 1):
            for contender in self._contenders:
                with console.status(f"{title(case)}: round {round} of {rounds}, {contender.name}"):
                    count = max(1, int(events * contender.part))
                    case.rounds[contender.name].append(self.drain(contender, mix, sessions, count))
        return case

    def drain(self, contender: Contender, mix: Mix, sessions: int, count: int, profile: str = "") -> Measurement:
        """Write a backlog, let the contender drain it in its own process, check what it did; raises Undone."""
        with redis.Redis.from_url(self._url, socket_timeout=60) as client:
            client.flushall()
            if contender.reads == "feeds":
                load_logs(client, self._keys, mix.events(count, sessions))
            else:
                load_stream(client, mix.events(count, sessions))
            measurement = _in_own_process(Job(contender.name, self._url, count, profile))
            truth = Truth(mix.events(count, sessions))
            if contender.reads == "feeds":
                check_rows(client, self._keys, truth)
            else:
                check_plans(client, truth)
        return measurement


def _in_own_process(job: Job) -> Measurement:
    command = [sys.executable, "-m", "bench.contender", msgspec.json.encode(job).decode()]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=DRAIN_S_MAX)
    except subprocess.TimeoutExpired as error:
        raise Undone(f"{job.name} was not done after {DRAIN_S_MAX:.0f} s") from error
    except subprocess.CalledProcessError as error:
        raise Undone(f"{job.name} ended with exit code {error.returncode}:\n{error.stderr.decode()}") from error
    sys.stderr.write(done.stderr.decode())
    return msgspec.json.decode(done.stdout, type=Measurement)


async def _bench(
    mixes: Sequence[Mix],
    sessions: Sequence[int],
    events: int,
    rounds: int,
    image: str,
    contenders: Sequence[Contender],
    skipped: dict[str, str],
    *,
    waits: bool,
    workers: Sequence[int] = (),
) -> Result:
    started = datetime.now(UTC).isoformat(timespec="seconds")
    async with own_server(image) as url:
        with redis.Redis.from_url(url) as client:
            machine = describe(client)
        console.print(
            f"{machine.server}, {machine.python}, {machine.cores} cores {machine.processor}, commit {machine.commit}",
            highlight=False,
        )
        run = Run(url, contenders)
        cases: list[Case] = []
        for mix in mixes:
            for count in (1,) if mix.one_log else sessions:
                # In a thread: this loop keeps the server's life.
                cases.append(await asyncio.to_thread(run.case, mix, count, events, rounds))
                show(console, cases[-1])
        fleets = await asyncio.to_thread(_drain_by_fleets, url, mixes[0], sessions[0], events, workers)
        if waits:
            await asyncio.to_thread(show_waits, console, url)
    return Result(started, machine, cases, {title(case): figures_of(case) for case in cases}, skipped, fleets)


def _drain_by_fleets(url: str, mix: Mix, sessions: int, events: int, workers: Sequence[int]) -> list[Drained]:
    """With and without affinity, which one alone has no use of."""
    drained: list[Drained] = []
    with redis.Redis.from_url(url, socket_timeout=60) as client:
        for count in workers:
            for affinity in (True, False)[: 1 if count == 1 else 2]:
                with console.status(f"{count} workers, {'with' if affinity else 'without'} affinity"):
                    drained.append(drain(client, url, mix, sessions, events, count, affinity=affinity))
    if drained:
        show_fleets(console, drained)
    return drained


async def _profile(mix: Mix, sessions: int, events: int, image: str, path: Path) -> None:
    async with own_server(image) as url:
        await asyncio.to_thread(Run(url, [OURS]).drain, OURS, mix, sessions, events, str(path))
    pstats.Stats(str(path)).strip_dirs().sort_stats("tottime").print_stats(PROFILE_LINES)
    console.print(f"processor time by function, also in {path}: python -m pstats {path}")


@app.command(epilog="Example: make bench ARGS='--mix real --sessions 1000 --rounds 5'")
def main(
    mix: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(MIXES)}; repeatable.")] = None,
    sessions: Annotated[list[int] | None, typer.Option(help="Number of sessions; repeatable.", min=1)] = None,
    events: Annotated[int, typer.Option(help="Events to drain.", min=1)] = 100_000,
    rounds: Annotated[int, typer.Option(help="Drains of each contender, in turn.", min=1)] = 5,
    only: Annotated[
        list[str] | None, typer.Option(help="Names of the contenders that take part, nothing else; repeatable.")
    ] = None,
    image: Annotated[str, typer.Option(help="Run the server from this Docker image, say redis:8.0.")] = "",
    json: Annotated[Path | None, typer.Option(help="Where the result goes; default: a new file in .bench/.")] = None,
    profile: Annotated[
        Path | None, typer.Option(help="Profile one drain by the worker into this file instead.")
    ] = None,
    *,
    workers: Annotated[
        list[int] | None,
        typer.Option(help="So many workers on one backlog too, with and without affinity; repeatable."),
    ] = None,
    quick: Annotated[bool, typer.Option(help="Real mix, 1 000 sessions, 50 000 events, 3 rounds.")] = False,
    suite: Annotated[
        bool, typer.Option(help="Every figure the README has of throughput: all of these, and 1, 2 and 4 workers.")
    ] = False,
) -> None:
    """Drain prepared backlogs with a todo-projection worker and with its peers, in turn, on a server of its own.

    Exit code 1 when a contender leaves work undone, 2 for a wrong argument.
    """
    if quick:
        mix, sessions, events, rounds = mix or ["real"], sessions or [1000], min(events, 50_000), min(rounds, 3)
    if suite:
        mix, sessions, workers = mix or ["real", "heavy"], sessions or [1000, 60_000], workers or [1, 2, 4]
    chosen, skipped = _take_part(only)
    unknown = set(mix or ()) - set(MIXES)
    if unknown:
        raise typer.BadParameter(f"no mix {', '.join(sorted(unknown))}; there are {', '.join(MIXES)}")
    mixes = [MIXES[name] for name in mix or ("real", "heavy")]
    counts = sessions or [1000, 60_000]
    if profile:
        asyncio.run(_profile(mixes[0], counts[0], events, image, profile))
        return
    legend(console, [contender.name for contender in chosen])
    for name, why in skipped.items():
        console.print(f"  {name:<17} [yellow]skipped: {why}[/]", highlight=False)
    try:
        result = asyncio.run(
            _bench(mixes, counts, events, rounds, image, chosen, skipped, waits=not only, workers=workers or ())
        )
    except Undone as undone:
        console.print(f"[red]failed:[/] {undone}", highlight=False)
        raise typer.Exit(1) from undone
    path = json or FOLDER / f"{result.started.replace(':', '')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result)))
    console.print(f"written to {path}")


def _take_part(only: Sequence[str] | None) -> tuple[list[Contender], dict[str, str]]:
    names = [contender.name for contender in CONTENDERS]
    if unknown := set(only or ()) - set(names):
        raise typer.BadParameter(f"no contender {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    wanted = [contender for contender in CONTENDERS if not only or contender.name in only]
    skipped = {
        contender.name: f"{contender.missing} is not installed (make bench installs it from requirements.lock)"
        for contender in wanted
        if contender.missing
    }
    return [contender for contender in wanted if contender.name not in skipped], skipped


if __name__ == "__main__":
    app()
