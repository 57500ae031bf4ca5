"""A verification of many sessions as one run: what was found, asked to be mended, removed, and what is left."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from todo_projection.awaited import Awaited
from todo_projection.census import START, Census, indexed
from todo_projection.look import Standing, look_at, point_again
from todo_projection.retention import Idle, Retention
from todo_projection.store import Store
from todo_projection.unit import Unit
from todo_projection.verify import Finding, Verifier

PAGE_KEYS = 500
SESSIONS_PER_TRIP = 200

Tell = Callable[[int, int], None]


class Counts(NamedTuple):
    """Sessions looked at, those that were not sound, those that are sound after a repair, rows removed."""

    checked: int
    unsound: int
    repaired: int = 0
    removed: int = 0


class Check:
    """Verifies sessions of a store; ``unsound`` gathers what was not as it should be. Raises redis errors."""

    def __init__(self, store: Store, units: Sequence[Unit], report: Callable[[Finding], None], tell: Tell) -> None:
        self.unsound: dict[str, Finding] = {}
        self.checked = 0
        self._store = store
        self._units = units
        self._report = report
        self._tell = tell
        self._astray: dict[str, list[int]] = {}  # partitions whose indexes hold sessions of others
        self._total = 0
        self._verifier = Verifier(store.wire, store.keys, units)
        self._census = Census(store.wire, store.keys)

    async def sessions(self, sessions: Sequence[str]) -> None:
        """Verify these."""
        self._total = max(self._total, len(sessions))
        for start in range(0, len(sessions), SESSIONS_PER_TRIP):
            await self._verify(sessions[start : start + SESSIONS_PER_TRIP])
        for finding in await self._verifier.lost():
            self._take(finding)

    async def named(self, sessions: Sequence[str]) -> None:
        """Verify these, and take it as a finding when there is no such session."""
        await self.sessions(sessions)
        for start in range(0, len(sessions), SESSIONS_PER_TRIP):
            for look in await look_at(self._store.wire, self._store.keys, sessions[start : start + SESSIONS_PER_TRIP]):
                if look.standing is Standing.NOTHING:
                    self._take(Finding(look.session, sound=False, why="is unknown: there is neither a log nor a row"))

    async def sample(self, count: int) -> None:
        """Verify about so many, by chance."""
        await self.sessions(await self._census.sample(count))

    async def all(self) -> None:
        """Verify every session that has a log; then find rows, and entries of indexes, that have none."""
        self._total = await self._census.size()
        await self._pages(self._census, self._verify)
        for finding in await self._verifier.lost():
            self._take(finding)
        await self._pages(Census(self._store.wire, self._store.keys, "proj"), self._find_orphans)
        for partition in range(self._store.keys.partitions):
            await self._find_ghosts(partition, await indexed(self._store.wire, self._store.keys, partition))

    async def repair(self, *, beat_ms: int) -> bool:
        """Have workers mend what they can, wait, and verify that again; False when no worker is beating."""
        repairs = [finding.repair for finding in self.unsound.values() if finding.repair]
        awaited = Awaited(self._store.wire, self._store.keys)
        for start in range(0, len(repairs), SESSIONS_PER_TRIP):
            part = repairs[start : start + SESSIONS_PER_TRIP]
            await point_again(self._store.wire, self._store.keys, part)
            awaited.add([one.look for one in part], [unit.key for unit in self._units])
        worked = await awaited.wait(beat_ms=beat_ms, told=lambda: self._tell(awaited.done, len(repairs)))
        if worked:
            for repair in repairs:
                del self.unsound[repair.look.session]
            await self.sessions([repair.look.session for repair in repairs])
        return worked

    @property
    def orphans(self) -> list[str]:
        """What stands there without a log."""
        return [session for session, finding in self.unsound.items() if finding.orphan]

    async def remove_orphans(self, publish: str) -> int:
        """Remove what stands there without a log; a session that has one by now stays."""
        removed = 0
        retention = Retention(self._store.wire, self._store.keys, self._units)
        await self._remove_astray()
        for start in range(0, len(orphans := self.orphans), SESSIONS_PER_TRIP):
            part = orphans[start : start + SESSIONS_PER_TRIP]
            done = await retention.drop([Idle(session, 0, None) for session in part], publish)
            for session, gone in zip(part, done, strict=True):
                removed += gone
                del self.unsound[session]
        return removed

    async def _remove_astray(self) -> None:
        keys = self._store.keys
        for session, partitions in self._astray.items():
            for partition in partitions:
                removals = [("ZREM", keys.recent(partition), session), ("ZREM", keys.working(partition), session)]
                await self._store.wire.pipeline([*removals, ("HDEL", keys.stale(partition), session)])

    async def _pages(self, census: Census, step: Callable[[Sequence[str]], Awaitable[Any]]) -> None:
        cursor: str | None = START
        while cursor is not None:
            found = await census.page(cursor, PAGE_KEYS)
            await step(found.sessions)
            cursor = found.cursor

    async def _verify(self, sessions: Sequence[str]) -> None:
        async for finding in self._verifier.verify(sessions):
            self.checked += 1
            self._take(finding)
            self._tell(self.checked, self._total)

    async def _find_orphans(self, sessions: Sequence[str]) -> None:
        looks = await look_at(self._store.wire, self._store.keys, sessions)
        await self._verify([look.session for look in looks if look.standing is Standing.ORPHAN])

    async def _find_ghosts(self, partition: int, members: Sequence[str]) -> None:
        """Take what the indexes of a partition know and nobody else; a session of another partition they can't know."""
        own = self._store.keys.partition
        for session in members:
            if own(session) != partition:
                self._astray.setdefault(session, []).append(partition)
                self._take(Finding(session, sound=False, why="an index of another partition knows it", orphan=True))
        sessions = [session for session in members if own(session) == partition]
        for start in range(0, len(sessions), SESSIONS_PER_TRIP):
            part = sessions[start : start + SESSIONS_PER_TRIP]
            for look in await look_at(self._store.wire, self._store.keys, part):
                if look.standing is Standing.NOTHING:
                    why = "an index knows it, and there is neither a log nor a row"
                    self._take(Finding(look.session, sound=False, why=why, orphan=True))

    def _take(self, finding: Finding) -> None:
        if not finding.sound:
            self.unsound[finding.session] = finding
            self._report(finding)
