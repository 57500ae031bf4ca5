"""The worker: reads pointers, projects them, and outlives whatever happens to the server."""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from todo_projection.beats import BEATS_MISSED_MAX, STEPPED_DOWN, WORKING, Beats, read_beats, server_time, worker_name
from todo_projection.feed import Batch, Feeds
from todo_projection.projector import Outdated, Projector
from todo_projection.retry import Unavailable, patiently
from todo_projection.rows import Rows
from todo_projection.settings import Settings
from todo_projection.span import Pointer
from todo_projection.unit import Unit
from todo_projection.wire import BLOCK_SLACK_S, Script, Wire, settled
from todo_write.events import GROUP, Keys
from todo_write.log import connect

STEP_POINTERS_MAX = 4096
CONFLICT_TRIES_MAX = 10
LEAVE_S = 1.0

logger = logging.getLogger(__name__)

_retire = Script("retire")


@dataclass(frozen=True, slots=True)
class Parts:
    """What a worker works with once the server has told the layout."""

    keys: Keys
    feeds: Feeds
    rows: Rows
    projector: Projector
    beats: Beats


class Worker:
    """One of any number of copies that keep the rows of a namespace up to date.

    ``await run()`` ends after ``stop()``, once the batch in hand is committed. While the server is away it waits; it
    raises only what a person must mend: LayoutMismatch, and mistakes of ours.
    ``in_hand`` counts pointers that were read and are not committed: they stay pending in their feeds.
    """

    def __init__(self, settings: Settings, units: Sequence[Unit]) -> None:
        self.name = worker_name()
        self._settings = settings
        self._units = units
        self._client = connect(settings.redis_url, namespace=settings.namespace, partitions=settings.partitions)
        self._commands = Wire(settings.redis_url)
        self._reads = Wire(settings.redis_url, timeout_s=settings.block_ms / 1000 + BLOCK_SLACK_S)
        self._stop = asyncio.Event()
        self._parts: Parts | None = None
        self._recovering = True
        self._claim_at = 0.0
        self._stepped_down = ""
        self.in_hand = 0

    def stop(self) -> None:
        """Finish the batch in hand, then end ``run``; harmless when called twice."""
        self._stop.set()

    async def run(self) -> None:
        """Work until stopped."""
        beating = asyncio.create_task(self._keep_beating())
        try:
            while not self._stop.is_set():
                if beating.done():
                    await beating
                await patiently(self._step, address=self._client.address, stop=self._stop)
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating
            await self._leave()

    async def _step(self) -> None:
        try:
            parts = self._parts or await self._assemble()
            if self._stepped_down:
                await asyncio.wait_for(self._stop.wait(), None)
            elif self._recovering:
                await parts.feeds.ensure_groups()
                self._recovering = await self._project(parts, await parts.feeds.own_pending()) > 0
            elif asyncio.get_running_loop().time() >= self._claim_at:
                await self._claim(parts)
            else:
                count, block = self._settings.batch_max, self._settings.block_ms
                await self._project(parts, await parts.feeds.read(count_max=count, block_ms=block))
        except Outdated as outdated:
            self._stepped_down = str(outdated)
            logger.error("stepping down: %s; upgrade this worker", outdated)  # noqa: TRY400 - the message says it all
        except BaseException:
            self._recovering = True
            raise

    async def _assemble(self) -> Parts:
        keys = await self._client.keys()
        rows = Rows(self._commands, keys)
        versions = {unit.key: unit.state_version for unit in self._units}
        self._parts = Parts(
            keys=keys,
            feeds=Feeds(self._reads, self._commands, keys, self.name),
            rows=rows,
            projector=Projector(self._commands, keys, self._units, rows),
            beats=Beats(self._commands, keys, self.name, versions),
        )
        await self._parts.beats.beat()
        logger.info("worker %s: redis at %s, %d partitions", self.name, self._client.address, keys.partitions)
        return self._parts

    async def _claim(self, parts: Parts) -> None:
        """Take over what workers that died left behind, then clean up after them."""
        await self._project(parts, await parts.feeds.claim(idle_ms_min=self._settings.claim_idle_ms))
        beats, now = await read_beats(self._commands, parts.keys), await server_time(self._commands)
        dead = {name for name, beat in beats.items() if now - beat.at > self._settings.beat_ms * BEATS_MISSED_MAX}
        alive = [name for name in (*beats, self.name) if name not in dead]
        left = await _retire.call_all(
            self._commands, [([parts.keys.feed(p)], [GROUP, *alive]) for p in range(parts.keys.partitions)]
        )
        if dead and not any(settled(left)):
            await self._commands.command("HDEL", parts.keys.workers, *dead)
        self._claim_at = asyncio.get_running_loop().time() + self._settings.claim_idle_ms / 2000

    async def _project(self, parts: Parts, batches: Mapping[int, Batch]) -> int:
        """Project batches in steps of bounded size, conflicts again from the rows as they then are; returns commits."""
        committed, left = 0, 0
        self.in_hand = sum(map(len, batches.values()))
        for step in _steps(batches):
            pending: Mapping[int, Sequence[Pointer]] = step
            for _ in range(CONFLICT_TRIES_MAX):
                outcome = await parts.projector.project(pending)
                committed += outcome.committed
                self.in_hand -= outcome.committed
                if outcome.rewound:
                    parts.rows.forget_all()
                    self._recovering = True
                pending = outcome.conflicts
                if not pending:
                    break
            else:
                self._recovering = True
                left += sum(map(len, pending.values()))
        self.in_hand = left
        return committed

    async def _keep_beating(self) -> None:
        while True:
            await asyncio.sleep(self._settings.beat_ms / 1000)
            if self._parts is None:
                continue
            try:
                await self._parts.beats.beat(STEPPED_DOWN if self._stepped_down else WORKING, self._stepped_down)
            except Unavailable as error:
                logger.debug("beat missed: %s", error)  # the step meets the same server and says so loudly

    async def _leave(self) -> None:
        """Take beat and empty consumers away, as far as the server lets us, and close the connections."""
        with suppress(*Unavailable):
            if self._parts is not None:
                async with asyncio.timeout(LEAVE_S):
                    await self._parts.beats.withdraw()
        for wire in (self._commands, self._reads, self._client):
            await wire.aclose()


def _steps(batches: Mapping[int, Batch]) -> Iterator[dict[int, Sequence[Pointer]]]:
    """Batches in steps of at most ``STEP_POINTERS_MAX`` pointers, each partition in order."""
    step: dict[int, Sequence[Pointer]] = {}
    size = 0
    for partition, batch in batches.items():
        for start in range(0, len(batch), STEP_POINTERS_MAX):
            piece = batch[start : start + STEP_POINTERS_MAX]
            if step and (size + len(piece) > STEP_POINTERS_MAX or partition in step):
                yield step
                step, size = {}, 0
            step[partition] = piece
            size += len(piece)
    if step:
        yield step
