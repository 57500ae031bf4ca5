"""The audit: a slow sweep over all logs that finds rows nobody points at any more, at a fixed rate.

The log is the truth; a pointer can be lost by hands that delete a feed, restore a backup or trim what they should not.
"""

import logging
from dataclasses import dataclass, field

from todo_projection.look import Look, Standing, look_at, point_again
from todo_projection.wire import Wire, settled
from todo_write.events import Keys

SUSPECTS_MAX = 10_000

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Audit:
    """One sweep after another; ``step`` a page. Raises redis errors, after which the next step goes on.

    A row that is behind at a first look is pointed at again only when it is still behind once its feed has nothing
    older than that look: until then its pointer may simply wait. A row that is ahead is folded again. ``looked``,
    ``repaired`` and ``sweeps`` count.
    """

    wire: Wire
    keys: Keys
    looked: int = 0
    repaired: int = 0
    sweeps: int = 0
    _cursor: str = "0"
    _suspects: dict[str, int] = field(default_factory=dict[str, int])

    async def step(self, count: int) -> None:
        """Look at about ``count`` keys, and again at the suspects whose feeds have moved on."""
        sessions, now = await self._next_page(count)
        for look in await look_at(self.wire, self.keys, sessions):
            self.looked += 1
            self._suspect(look, now)
        await self._look_again()

    async def _next_page(self, count: int) -> tuple[list[str], int]:
        pattern = f"{self.keys.namespace}:{{*}}:log:*"
        clock, (cursor, names) = settled(
            await self.wire.pipeline([("TIME",), ("SCAN", self._cursor, "MATCH", pattern, "COUNT", count)])
        )
        self._cursor = cursor.decode()
        self.sweeps += self._cursor == "0"
        sessions = [name.decode("utf-8", "replace").split(":", 3)[3] for name in names]
        return sessions, int(clock[0]) * 1000 + int(clock[1]) // 1000

    def _suspect(self, look: Look, now: int) -> None:
        if look.standing in (Standing.BEHIND, Standing.AHEAD) and len(self._suspects) < SUSPECTS_MAX:
            self._suspects.setdefault(look.session, now)

    async def _look_again(self) -> None:
        """A second look at those whose feed holds nothing from before the first."""
        partitions = sorted({self.keys.partition(session) for session in self._suspects})
        firsts = settled(
            await self.wire.pipeline([("XRANGE", self.keys.feed(p), "-", "+", "COUNT", 1) for p in partitions])
        )
        oldest = {p: _ms(first) for p, first in zip(partitions, firsts, strict=True)}
        due = [s for s, seen in self._suspects.items() if (oldest[self.keys.partition(s)] or seen + 1) > seen]
        for look in await look_at(self.wire, self.keys, due):
            del self._suspects[look.session]
            if look.standing in (Standing.BEHIND, Standing.AHEAD):
                await self._repair(look)

    async def _repair(self, look: Look) -> None:
        if look.foreign and look.versions:
            return  # marked when it was folded; an operator adopts it or not
        refold = look.versions if look.standing is Standing.AHEAD else ()
        if await point_again(self.wire, self.keys, look, refold=refold):
            self.repaired += 1
            told = "session %r: the row at %s is %s of the log at %s and nobody points at it; pointed at again"
            logger.warning(told, look.session, look.row, look.standing, look.tail)


def _ms(first: list[tuple[bytes, object]]) -> int | None:
    return int(first[0][0].partition(b"-")[0]) if first else None
