"""The worker: reads pointers, projects them, and outlives whatever happens to the server."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress

from todo_projection.advance import Outdated
from todo_projection.audit import Turn, keep_auditing
from todo_projection.background import end
from todo_projection.beats import (
    BEATS_MISSED_MAX,
    STEPPED_DOWN,
    WORKING,
    newer,
    read_beats,
    server_time,
    worker_name,
)
from todo_projection.cluster import open_wire
from todo_projection.feed import Batch, Feeds
from todo_projection.killers import set_apart
from todo_projection.lanes import Lane
from todo_projection.mandate import read_mandate
from todo_projection.parts import Parts, Wires, assemble
from todo_projection.projector import Outcome
from todo_projection.retry import Contended, Patience, Unavailable, patiently
from todo_projection.row import encode_versions
from todo_projection.settings import Settings
from todo_projection.span import Pointer
from todo_projection.steps import steps
from todo_projection.tally import Tally
from todo_projection.unit import Unit
from todo_projection.wire import BLOCK_SLACK_S
from todo_write.log import connect

CONFLICT_TRIES_MAX = 10
LEAVE_S = 1.0
STAND_BY_S = 1.0

logger = logging.getLogger(__name__)


class Worker:
    """One of any number of copies that keep the rows of a namespace up to date.

    ``await run()`` ends after ``stop()``, once the batch in hand is committed. While the server is away it waits; it
    raises only what a person must mend: LayoutMismatch, and mistakes of ours.
    ``in_hand`` counts pointers that were read and are not committed: they stay pending in their feeds. ``tally`` tells
    those who watch it what it has done.
    """

    def __init__(self, settings: Settings, units: Sequence[Unit]) -> None:
        self.name = worker_name()
        self._settings = settings
        self._units = units
        self._client = connect(settings.redis_url, namespace=settings.namespace, partitions=settings.partitions)
        self._commands = open_wire(settings.redis_url)
        self._reads = open_wire(settings.redis_url, timeout_s=settings.block_ms / 1000 + BLOCK_SLACK_S)
        self._wires = Wires(self._client, self._commands, self._reads)
        self._stop = asyncio.Event()
        self._parts: Parts | None = None
        self._assembled = asyncio.Event()
        self._recovering = True
        self._sweep: dict[int, bytes] | None = None
        self._sweep_at = 0.0
        self._stepped_down = ""
        self._patience = Patience()
        self.in_hand = 0
        self.tally = Tally()

    def stop(self) -> None:
        """Finish the batch in hand, then end ``run``; harmless when called twice."""
        self._stop.set()

    async def run(self) -> None:
        """Work until stopped."""
        asides = [asyncio.create_task(aside) for aside in (self._keep_beating(), self._keep_auditing())]
        try:
            while not self._stop.is_set():
                for aside in asides:
                    if aside.done():
                        await aside
                await patiently(self._step, address=self._client.address, stop=self._stop, patience=self._patience)
        finally:
            for aside in asides:
                aside.cancel()
                with suppress(asyncio.CancelledError):
                    await aside
            await self._leave()

    async def _step(self) -> None:
        self.tally.step()
        try:
            parts = self._parts or await self._assemble()
            if self._stepped_down:
                await self._stand_by(parts)
            elif self._recovering:
                await self._recover(parts)
            elif self._sweep is not None or asyncio.get_running_loop().time() >= self._sweep_at:
                await self._take_over(parts)
            else:
                lanes = [self._drain(parts, lane) for lane in parts.lanes.all]
                _raise_first(await asyncio.gather(*lanes, return_exceptions=True))
        except Outdated as outdated:
            self._stepped_down = str(outdated)
            logger.error("stepping down: %s; upgrade this worker", outdated)  # noqa: TRY400 - the message says it all
        except BaseException:
            self._recovering, self._sweep, self._sweep_at = True, None, 0.0
            raise

    async def _drain(self, parts: Parts, lane: Lane) -> None:
        """Read and project what is new in a lane, until it is time for something else, or some lane has trouble.

        Where a lane is behind, its next batch is read while one is projected. All end before an error of one is raised,
        so that nothing is under way when it is met.
        """
        clock, ahead = asyncio.get_running_loop().time, None
        try:
            while not (self._recovering or self._stop.is_set()) and (left_s := self._sweep_at - clock()) > 0:
                batches = await (ahead or lane.read(left_s))
                ahead = asyncio.create_task(lane.read(left_s)) if lane.is_behind else None
                await self._project(parts, batches, unseen=True)
                if not self._recovering:  # another lane may have met trouble while this one waited
                    self._patience.rest()
                self.tally.step()
            if ahead is not None:
                await self._project(parts, await ahead, unseen=True)
        except BaseException:
            self._recovering = True
            raise
        finally:
            if ahead is not None:
                await end(ahead)

    async def _assemble(self) -> Parts:
        parts = await assemble(self._settings, self._units, self.name, self._wires, self.tally)
        await parts.beats.beat()
        await self._meet(parts)
        self._parts = parts
        self._assembled.set()
        logger.info("worker %s: redis at %s, %d partitions", self.name, self._client.address, parts.keys.partitions)
        return parts

    async def _stand_by(self, parts: Parts) -> None:
        """Read nothing, until an operator mandates this worker's units and no newer worker has beaten for long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STAND_BY_S):
                await self._stop.wait()
            return
        if not await self._is_newest(parts):
            return
        if await read_mandate(self._commands, parts.keys) == parts.projector.versions:
            logger.warning("back at work: units set asks for %s", encode_versions(parts.projector.versions))
            parts.projector.obey(mandated=True)
            parts.rows.forget_all()
            self._stepped_down, self._recovering = "", True

    async def _is_newest(self, parts: Parts) -> bool:
        since = await server_time(self._commands) - self._settings.newer_gone_ms
        return not newer(await read_beats(self._commands, parts.keys), parts.projector.versions, since=since)

    async def _recover(self, parts: Parts) -> None:
        """Do again what this worker had in hand when something went wrong, a page a step."""
        await parts.feeds.ensure_groups()
        pending = await parts.feeds.own_pending()
        self._recovering, self.in_hand = False, 0
        if await self._project_with_care(parts, pending):
            self._recovering = True

    async def _take_over(self, parts: Parts) -> None:
        """Take over what has been pending for long, a page a step; then clean up after workers that died."""
        if self._sweep is None:
            if await parts.feeds.reopen():
                self._recovering = True
                return
            alive = await parts.beats.alive()
            inherited = await parts.feeds.inherit(alive, idle_ms_min=self._settings.claim_idle_ms)
            self.tally.reclaimed_dead += sum(map(len, inherited.batches.values()))
            await self._project_with_care(parts, inherited.batches)
            if inherited.more:
                return
        # Twice as long: what a dead worker held has been inherited by then, as a delivery that counts.
        claimed = await parts.feeds.claim(self._sweep, idle_ms_min=2 * self._settings.claim_idle_ms)
        self.tally.reclaimed_slow += sum(map(len, claimed.batches.values()))
        await self._project(parts, claimed.batches)
        self._sweep = claimed.cursors or None
        if self._sweep is None:
            await self._clean_up(parts)
            self._sweep_at = asyncio.get_running_loop().time() + self._settings.claim_idle_ms / 2000

    async def _clean_up(self, parts: Parts) -> None:
        alive = await parts.beats.alive()
        none_left = await parts.feeds.retire(alive)
        dead = set(await read_beats(self._commands, parts.keys)) - alive
        if dead and none_left:
            await self._commands.command("HDEL", parts.keys.workers, *dead)
        if not await self._is_newest(parts):
            parts.projector.obey(mandated=False)  # rolled forward again: what is newer is not to be folded back

    async def _meet(self, parts: Parts) -> None:
        """See who else reads, and so which feeds are this one's."""
        parts.affinity.meet(await parts.beats.alive(reading=True), asyncio.get_running_loop().time())

    async def _project_with_care(self, parts: Parts, batches: Mapping[int, Batch]) -> int:
        """Project what others may have died of: each session that may kill alone, and none for ever."""
        rest, killers = set_apart(batches, parts.feeds.deaths)
        done = await self._project(parts, rest)
        for killer in killers:
            if not killer.skipped:
                logger.warning("session %r: %d workers died with it in hand", killer.session, killer.deaths)
                done += await self._project(parts, {killer.partition: killer.pointers})
                continue
            reason = f"{killer.deaths} workers died with these events in hand; they are skipped"
            logger.error("session %r: %s", killer.session, reason)
            outcome = await parts.projector.skip(killer.partition, killer.pointers, reason)
            _close(parts.feeds, outcome)
            self._recovering = self._recovering or not (outcome.committed or outcome.refused)
            done += outcome.committed
        return done

    async def _project(self, parts: Parts, batches: Mapping[int, Sequence[Pointer]], *, unseen: bool = False) -> int:
        """Project batches, in steps of bounded size; returns how many pointers are done with. Raises Contended."""
        count, done = sum(map(len, batches.values())), 0
        self.in_hand += count
        for step in steps(batches, parts.projector.handles, parts.projector.spares):
            done += await self._project_step(parts, step, unseen=unseen)
        self.in_hand -= count - done
        return done

    async def _project_step(self, parts: Parts, pending: Mapping[int, Sequence[Pointer]], *, unseen: bool) -> int:
        """One step; conflicts again, from the rows as they then are."""
        done = 0
        for n in range(CONFLICT_TRIES_MAX):
            outcome = await parts.projector.project(pending, unseen=unseen and n == 0)
            done += outcome.committed
            self.in_hand -= outcome.committed
            if outcome.rewound:
                feeds = ", ".join(parts.keys.feed(partition) for partition in outcome.rewound)
                logger.info("%s: what was read there is gone or done by others; looking again", feeds)
                parts.rows.forget_all()
                self._recovering = True
            _close(parts.feeds, outcome)
            pending = outcome.conflicts
            if not pending:
                return done
        sessions = {pointer.session for batch in pending.values() for pointer in batch}
        raise Contended(
            f"{len(sessions)} sessions changed under each of {CONFLICT_TRIES_MAX} tries: {min(sessions)!r} …"
        )

    async def _keep_beating(self) -> None:
        await self._assembled.wait()
        while self._parts is not None:
            beats, state = self._parts.beats, STEPPED_DOWN if self._stepped_down else WORKING
            try:
                self.tally.repaired = self._parts.audit.repaired
                await beats.beat(state, self._stepped_down, repaired=self.tally.repaired)
                self.tally.beat()
                await self._meet(self._parts)
            except Unavailable as error:
                logger.debug("beat missed: %s", error)  # the step meets the same server and says so loudly
            await asyncio.sleep(self._settings.beat_ms / 1000)

    async def _keep_auditing(self) -> None:
        await self._assembled.wait()
        if parts := self._parts:
            turn = Turn(self._commands, parts.keys, self.name, self._settings.beat_ms * BEATS_MISSED_MAX)
            rate = self._settings.audit_rate
            await keep_auditing(parts.audit, turn, rate=rate, working=lambda: not self._stepped_down)

    async def _leave(self) -> None:
        """Take beat and empty consumers away, as far as the server lets us, and close the connections."""
        with suppress(*Unavailable, Outdated):
            if self._parts is not None:
                async with asyncio.timeout(LEAVE_S):
                    await self._reads.aclose()
                    await self._project(self._parts, await self._parts.feeds.own_pending())  # of reads left waiting
                    await self._parts.beats.withdraw()
                    await self._parts.feeds.retire(await read_beats(self._commands, self._parts.keys))
        for wire in (self._commands, self._reads, self._client):
            await wire.aclose()


def _close(feeds: Feeds, outcome: Outcome) -> None:
    for partition, why in outcome.refused.items():
        feeds.close(partition, why)


def _raise_first(found: Sequence[BaseException | None]) -> None:
    for error in found:
        if error is not None:
            raise error
