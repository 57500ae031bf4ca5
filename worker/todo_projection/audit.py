"""The audit: a slow sweep over all logs that finds rows nobody points at any more, at a fixed rate.

The log is the truth; a pointer can be lost by hands that delete a feed, restore a backup or trim what they should not.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from redis.exceptions import ResponseError

from todo_projection.beats import WORKING, read_beats, server_time
from todo_projection.census import START, Census
from todo_projection.look import Look, Repair, Standing, look_at, mending, point_again
from todo_projection.retry import Unavailable
from todo_projection.rows import is_wrong_type
from todo_projection.suspects import Suspects
from todo_projection.wire import Wire
from todo_write.events import Keys

SUSPECTS_MAX = 10_000
STEP_S = 1.0

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Audit:
    """One sweep after another; ``step`` a page. Raises redis errors, after which the next step goes on.

    A row that is behind for good is pointed at again, and so is one whose refold was asked for; one that is ahead,
    forked or not to be read is folded again, with all the ``mounted`` units (versions by key). A foreign log that is
    not adopted is reported, and pointed at once, so that it is marked; a row whose log is gone is reported.
    ``looked``, ``repaired`` and ``sweeps`` count.
    """

    wire: Wire
    keys: Keys
    mounted: Mapping[str, int]
    looked: int = 0
    repaired: int = 0
    sweeps: int = 0
    _cursor: str = START
    _told: dict[str, str] = field(default_factory=dict[str, str])  # what was said last of a session
    _suspects: Suspects = field(init=False)

    def __post_init__(self) -> None:
        self._suspects = Suspects(self.wire, self.keys, count_max=SUSPECTS_MAX)

    async def step(self, count: int) -> None:
        """Look at about ``count`` keys, and again at the suspects whose feeds have moved on."""
        found = await Census(self.wire, self.keys, "*").page(self._cursor, count)
        looks = await look_at(self.wire, self.keys, found.sessions)
        now = await server_time(self.wire)
        for look in looks:
            self._suspects.add(look, now)
            self._report(look)
        await self._mark_broken(looks)
        self.looked += len(looks)
        self.sweeps += found.cursor is None
        self._cursor = found.cursor or START
        lost = await self._suspects.judge()
        await self._repair([look for look in lost if look.foldable or self._is_news(look, "pointed", str(look.tail))])

    async def _mark_broken(self, looks: list[Look]) -> None:
        """Tell once, and in the index, which sessions can't be projected; those mended are indexed anew."""
        broken = [one for one in looks if one.standing is Standing.BROKEN and self._is_news(one, "broken", one.why)]
        for look in broken:
            logger.warning("session %r can't be projected: %s; rename or delete that key", look.session, look.why)
        index = self.keys.stale
        marks = [("HSETNX", index(self.keys.partition(one.session)), one.session, one.why) for one in broken]
        for reply in await self.wire.pipeline(marks):
            is_wrong_type(reply)
        mended = [one for one in looks if one.standing is Standing.EVEN and self._told.pop(f"broken {one.session}", "")]
        await point_again(self.wire, self.keys, [Repair(one, {**one.versions, **self.mounted}) for one in mended])

    async def _repair(self, lost: list[Look]) -> None:
        repairs = [mending(look, self.mounted) if look.foldable else Repair(look) for look in lost]
        for look, done in zip(lost, await point_again(self.wire, self.keys, repairs), strict=True):
            if done and look.foldable:
                self.repaired += 1
                told = (
                    "session %r: the row at %s is %s, its log ends with %s, and nobody points at it: pointed at again"
                )
                logger.warning(told, look.session, look.row, look.trouble, look.tail)

    def _report(self, look: Look) -> None:
        """Say once what only a person can mend, not again with every event that a foreign log goes on by."""
        if look.standing is Standing.ORPHAN and self._is_news(look, "orphan", str(look.row)):
            told = (
                "session %r: its log is gone, its row at %s is still shown; `verify --all --remove-orphans` removes it"
            )
            logger.warning(told, look.session, look.row)
        if look.tail and not look.foldable and self._is_news(look, "foreign", str(look.tail.epoch)):
            told = "session %r has a %s log: %s; `rebuild --session %s --partial` adopts it as it stands"
            logger.warning(told, look.session, look.lack, look.foreign, look.session)

    def _is_news(self, look: Look, what: str, told: str) -> bool:
        key = f"{what} {look.session}"
        if self._told.get(key) == told:
            return False
        if len(self._told) >= SUSPECTS_MAX:
            self._told.clear()
        self._told[key] = told
        return True


@dataclass(frozen=True, slots=True)
class Turn:
    """Whose turn it is to audit: of the workers that beat and do audit the lowest name's; two at once do no harm."""

    wire: Wire
    keys: Keys
    name: str
    missing_ms: int  # a worker whose last beat is older does not count

    async def is_ours(self) -> bool:
        """Whether it is this worker's; raises redis errors."""
        beats, now = await read_beats(self.wire, self.keys), await server_time(self.wire)
        # Of a clock that was stepped back a dead worker's beat would be of the future for as long.
        working = {name: beat for name, beat in beats.items() if beat.state == WORKING and beat.audits}
        there = [name for name, beat in working.items() if abs(now - beat.at) <= self.missing_ms]
        return self.name in there and self.name == min(there)


async def keep_auditing(audit: Audit, turn: Turn, *, rate: int, working: Callable[[], bool]) -> None:
    """Look at ``rate`` keys a second for ever, while it is this worker's turn and it is ``working``; 0: not at all."""
    refused = ""
    while rate:
        await asyncio.sleep(STEP_S)
        try:
            if working() and await turn.is_ours():
                await audit.step(rate)
        except ResponseError as error:
            if str(error) != refused:
                logger.warning("the audit is refused: %s", error)
            refused = str(error)
        except Unavailable as error:
            logger.debug("audit: %s", error)  # the worker's step meets the same server and says so loudly
