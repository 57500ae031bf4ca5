"""Metrics: figures of a process and of the whole in the text format of Prometheus. The only adapter to its client.

No label names a session or a worker: both come and go, and each would be a series that stays.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, Literal, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST, ProcessCollector, generate_latest
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from todo_projection.beats import STEPPED_DOWN, WORKING
from todo_projection.status import SILENT, Status
from todo_projection.tally import Histogram, Tally
from todo_projection.vitals import Vitals

CONTENT_TYPE = CONTENT_TYPE_LATEST

Source = TypeVar("Source")
Reading = float | Mapping[str, float] | Histogram | None


@dataclass(frozen=True)
class Figure(Generic[Source]):
    """One metric: how it is called, what it says, and how it is read; a ``label`` where it is read as a mapping.

    One that is read as None is left out: it is not known.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    read: Callable[[Source], Reading]
    label: str = ""

    def family(self, source: Source) -> Metric | None:
        """The metric as it is now."""
        reading = self.read(source)
        if reading is None:
            return None
        if isinstance(reading, Histogram):
            bounds = [*map(str, reading.bounds), "+Inf"]
            buckets = list(zip(bounds, accumulate(reading.counts), strict=True))
            return HistogramMetricFamily(self.name, self.help, buckets=buckets, sum_value=reading.sum)
        made = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        family = made(self.name, self.help, labels=[self.label] if self.label else [])
        for value, number in reading.items() if isinstance(reading, Mapping) else [("", reading)]:
            family.add_metric([value] if self.label else [], number)
        return family


def _known(read: Callable[[Status], Reading]) -> Callable[[Vitals], Reading]:
    return lambda vitals: None if vitals.status is None else read(vitals.status)


def _workers(status: Status) -> Mapping[str, float]:
    states = [worker.state for worker in status.workers]
    return {state.replace(" ", "_"): states.count(state) for state in (WORKING, STEPPED_DOWN, SILENT)}


def _unix_s(monotonic_s: float) -> float:
    return time.time() - (time.monotonic() - monotonic_s)


WORKER: Sequence[Figure[Tally]] = (
    Figure(
        "todo_projection_events_total",
        "counter",
        "Events by what became of them: projected; repeated, the row held them already; conflict, put back because the "
        "session changed meanwhile; rewound, the feed held them no longer; broken, the row can't be written.",
        lambda tally: {
            "projected": tally.projected,
            "repeated": tally.repeated,
            "conflict": tally.conflicts,
            "rewound": tally.rewound,
            "broken": tally.broken,
        },
        "outcome",
    ),
    Figure("todo_projection_marks_total", "counter", "Times a session was marked stale.", lambda tally: tally.marked),
    Figure("todo_projection_publishes_total", "counter", "Frames published.", lambda tally: tally.published),
    Figure(
        "todo_projection_reclaimed_events_total",
        "counter",
        "Events taken over from other workers: dead, or slow.",
        lambda tally: {"dead": tally.reclaimed_dead, "slow": tally.reclaimed_slow},
        "holder",
    ),
    Figure(
        "todo_projection_repairs_total",
        "counter",
        "Sessions that nobody pointed at any more, found by this worker's audit.",
        lambda tally: tally.repaired,
    ),
    Figure(
        "todo_projection_step_seconds",
        "histogram",
        "Time of a step, from rows read to rows committed.",
        lambda tally: tally.step_s,
    ),
    Figure(
        "todo_projection_commit_seconds",
        "histogram",
        "Time of a step's commit, the server's part of it included.",
        lambda tally: tally.commit_s,
    ),
    Figure(
        "todo_projection_worker_step_timestamp_seconds",
        "gauge",
        "When this worker last got on, unix time.",
        lambda tally: _unix_s(tally.stepped_at),
    ),
    Figure(
        "todo_projection_worker_beat_timestamp_seconds",
        "gauge",
        "When redis last took this worker's beat, unix time; 0: not yet.",
        lambda tally: 0 if tally.beaten_at is None else _unix_s(tally.beaten_at),
    ),
)

WHOLE: Sequence[Figure[Vitals]] = (
    Figure(
        "todo_projection_redis_up",
        "gauge",
        "1 if redis answered this scrape in time; if 0, the other figures of the whole are left out.",
        lambda vitals: int(vitals.redis_up),
    ),
    Figure(
        "todo_projection_backlog_events",
        "gauge",
        "Events in the feeds, not projected yet or behind one that is not.",
        _known(lambda status: status.backlog.count),
    ),
    Figure(
        "todo_projection_backlog_age_seconds",
        "gauge",
        "For how long the oldest of them has waited.",
        _known(lambda status: status.backlog.age_s),
    ),
    Figure(
        "todo_projection_standing_feeds",
        "gauge",
        "Feeds whose oldest event has stayed the same for 10 s of scrapes: unread, no worker was given it; unfinished, "
        "one was.",
        lambda vitals: {"unread": vitals.unread, "unfinished": vitals.unfinished} if vitals.status else None,
        "state",
    ),
    Figure(
        "todo_projection_workers",
        "gauge",
        "Workers by state: working, stepped down for a newer one, silent.",
        _known(_workers),
        "state",
    ),
    Figure(
        "todo_projection_stale_sessions",
        "gauge",
        "Sessions marked stale.",
        _known(lambda status: status.stale.count),
    ),
    Figure(
        "todo_projection_key_problems",
        "gauge",
        "Keys of ours that hold another type, so can't be read.",
        _known(lambda status: len(status.problems)),
    ),
    Figure(
        "todo_projection_clock_offset_seconds",
        "gauge",
        "This machine's clock less the server's.",
        lambda vitals: vitals.clock_offset_s if vitals.status else None,
    ),
)


def families(figures: Iterable[Figure[Source]], source: Source) -> Iterator[Metric]:
    """The metrics of a source as they are now."""
    return (family for figure in figures if (family := figure.family(source)) is not None)


def text(*found: Iterable[Metric]) -> bytes:
    """Metrics as they are scraped, and those every process has: memory, processor time, open files, start."""
    return generate_latest(_Page([*(family for some in found for family in some), *_process.collect()]))


class _Page(CollectorRegistry):
    """A registry of what is there anyway."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        super().__init__()
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


_process = ProcessCollector(registry=None)
