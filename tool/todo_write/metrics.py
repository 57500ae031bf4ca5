"""Metrics of a process that writes: its appends in the text format of Prometheus. The only adapter to its client.

A Python host with metrics of its own registers ``Appends`` there; the commands that keep running have ``--metrics``.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from todo_write.settings import InvalidSetting
from todo_write.tally import Tally

APPENDS = "todo_write_appends_total"
HELP = (
    "Appends by how they ended: appended; landed, an earlier try had; overtaken by another writer; not_saved; unknown, "
    "nobody answered; rewound, the log had lost what it once confirmed; invalid."
)


class Appends(Collector):
    """Collects a tally: ``registry.register(Appends(client.tally))``."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def collect(self) -> Iterable[Metric]:
        """How many appends ended how, since the start."""
        family = CounterMetricFamily(APPENDS, HELP, labels=["outcome"])
        for ending, count in self._tally.appends.items():
            family.add_metric([ending], count)
        yield family


@contextmanager
def exposing(tally: Tally, host: str, port: int) -> Generator[None]:
    """Serve ``/metrics`` from a thread while the block runs; raises InvalidSetting when it can't listen there."""
    registry = CollectorRegistry()
    registry.register(Appends(tally))
    ProcessCollector(registry=registry)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise InvalidSetting(f"--metrics {host}:{port}: {error.strerror}; choose another address") from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
