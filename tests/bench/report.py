"""The result of a run: medians and ratios, as a table and as JSON."""

from collections.abc import Iterator, Sequence
from statistics import median

import msgspec
from rich.console import Console
from rich.table import Table

from bench.contenders import CONTENDERS, OURS
from bench.fleet import Drained
from bench.host import Machine
from bench.measure import Measurement


class Case(msgspec.Struct, frozen=True):
    """One mix over so many sessions: the measurements of each contender, one a round."""

    mix: str
    sessions: int
    events: int
    rounds: dict[str, list[Measurement]]


class Figures(msgspec.Struct, frozen=True):
    """Medians over the rounds; ``ours_over`` is the median of our rate over this one's, taken round by round."""

    contender: str
    events_per_s: float
    redis_bound_per_s: float
    share_of_bound: float
    cpu_us_per_event: float
    redis_cpu_us_per_event: float
    ours_over: float | None


class Result(msgspec.Struct, frozen=True):
    """All that is written to the JSON file."""

    started: str
    machine: Machine
    cases: list[Case]
    figures: dict[str, list[Figures]]
    skipped: dict[str, str]
    fleets: list[Drained]


def figures_of(case: Case) -> list[Figures]:
    """A line of figures for each contender that took part."""
    ours = case.rounds.get(OURS.name)
    return [_figures(name, found, ours) for name, found in case.rounds.items()]


def title(case: Case) -> str:
    """``real, 1 000 sessions``."""
    sessions = f"{case.sessions:,}".replace(",", " ")
    return f"{case.mix}, {sessions} {'session' if case.sessions == 1 else 'sessions'}"


def show(console: Console, case: Case) -> None:
    """Print the table of a case."""
    rounds = max(map(len, case.rounds.values()))
    table = Table(title=f"{title(case)}, {case.events:,} events, medians of {rounds}", title_justify="left")
    table.add_column("", no_wrap=True)
    for head in ("events/s", "worker / this", "CPU µs/event", "Redis CPU µs/event", "Redis-bound limit/s", "of limit"):
        table.add_column(head, justify="right")
    for line in figures_of(case):
        table.add_row(line.contender, *_cells(line))
    console.print(table)


def legend(console: Console, names: Sequence[str]) -> None:
    """Say who is who."""
    for contender in CONTENDERS:
        if contender.name in names:
            console.print(f"  {contender.name:<17} {contender.about}", highlight=False)


def _figures(name: str, found: Sequence[Measurement], ours: Sequence[Measurement] | None) -> Figures:
    paired = zip(ours or (), found, strict=False)
    return Figures(
        contender=name,
        events_per_s=median(one.rate for one in found),
        redis_bound_per_s=median(one.redis_bound for one in found),
        share_of_bound=median(one.rate / one.redis_bound for one in found),
        cpu_us_per_event=median(one.cpu_s / one.events for one in found) * 1e6,
        redis_cpu_us_per_event=median(one.redis_cpu_s / one.events for one in found) * 1e6,
        ours_over=median(mine.rate / one.rate for mine, one in paired) if ours else None,
    )


def _cells(line: Figures) -> Iterator[str]:
    yield f"{line.events_per_s:,.0f}"
    yield "" if line.ours_over is None or line.contender == OURS.name else f"{line.ours_over:.2f}"
    yield f"{line.cpu_us_per_event:.1f}"
    yield f"{line.redis_cpu_us_per_event:.1f}"
    yield f"{line.redis_bound_per_s:,.0f}"
    yield f"{line.share_of_bound:.2f}"
