"""The worker as it is shipped, ended once it has committed the backlog."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.measure import Job
from todo_projection.settings import Settings
from todo_projection.span import Pointer
from todo_projection.unit import mounted_units
from todo_projection.worker import Worker


class Drain(Worker):
    """A worker that stops after so many commits."""

    def __init__(self, settings: Settings, events: int) -> None:
        super().__init__(settings, mounted_units())
        self._left = events
        self.drained_at: float | None = None

    async def _project(self, parts: Any, batches: Mapping[int, Sequence[Pointer]], *, unseen: bool = False) -> int:
        committed = await super()._project(parts, batches, unseen=unseen)
        self._left -= committed
        if self._left <= 0:
            self.drained_at = self.drained_at or time.perf_counter()  # other lanes may wait for new ones for a second
            self.stop()
        return committed


async def drain(job: Job) -> float | None:
    """Everything on: beats, claims, both units. When the last event was committed."""
    worker = Drain(Settings(redis_url=job.url), job.events)
    await worker.run()
    return worker.drained_at
