"""Rebuilding: has workers fold rows again from the start of their logs, at a bounded rate, and goes on where it was.

A request is durable: it stands in the row and in the feed, so nothing is lost when this process or a worker dies.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping

import msgspec

from todo_projection.look import Look, Standing, look_at, point_again
from todo_projection.wire import Wire, settled
from todo_write.events import Keys

PAGE = 100
TRIES_MAX = 10


class Place(msgspec.Struct, frozen=True):
    """How far a rebuild of all sessions has got: the partition, and the cursor in its index."""

    partition: int = 0
    cursor: str = "0"
    asked: int = 0


class Rebuild:
    """Asks for refolds of ``units``, keys out of the mounted ones. Raises redis errors."""

    def __init__(self, wire: Wire, keys: Keys, units: Collection[str], mounted: Mapping[str, int]) -> None:
        self._wire = wire
        self._keys = keys
        self._units = units
        self._mounted = mounted
        self._field = f"rebuild:{','.join(sorted(units))}"

    async def session(self, session: str, *, partial: bool = False) -> Look:
        """Ask for one session; returns the look it was asked on. ``partial`` adopts a log with holes as it stands."""
        (look,) = await look_at(self._wire, self._keys, [session])
        for _ in range(TRIES_MAX):
            if look.standing in (Standing.ORPHAN, Standing.NOTHING, Standing.BROKEN):
                break
            whole = partial or look.standing is Standing.AHEAD or not look.versions
            units = self._mounted if whole else self._units
            if await point_again(self._wire, self._keys, look, refold=units, partial=partial):
                break
            (look,) = await look_at(self._wire, self._keys, [session])
        return look

    async def place(self) -> Place:
        """Where an earlier rebuild of all sessions was cut; the start when there is none."""
        raw = await self._wire.command("HGET", self._keys.meta, self._field)
        return Place() if raw is None else msgspec.json.decode(raw, type=Place)

    async def all(self, *, rate_s: float, restart: bool = False) -> AsyncIterator[tuple[Place, list[Look]]]:
        """Ask for every session of the indexes, ``rate_s`` a second at most; yields after each page."""
        place = Place() if restart else await self.place()
        while place.partition < self._keys.partitions:
            started = asyncio.get_running_loop().time()
            index = self._keys.recent(place.partition)
            cursor, flat = await self._wire.command("ZSCAN", index, place.cursor, "COUNT", PAGE)
            looks = [await self.session(name.decode()) for name in flat[::2]]
            place = _next(place, cursor.decode(), len(looks))
            await self._wire.command("HSET", self._keys.meta, self._field, msgspec.json.encode(place))
            yield place, looks
            pause_s = len(looks) / rate_s - (asyncio.get_running_loop().time() - started)
            await asyncio.sleep(max(0.0, pause_s))
        await self._wire.command("HDEL", self._keys.meta, self._field)

    async def size(self) -> int:
        """How many sessions the indexes hold."""
        partitions = range(self._keys.partitions)
        return sum(settled(await self._wire.pipeline([("ZCARD", self._keys.recent(p)) for p in partitions])))


def _next(place: Place, cursor: str, asked: int) -> Place:
    partition = place.partition + 1 if cursor == "0" else place.partition
    return Place(partition, cursor, place.asked + asked)
