"""Rebuilding: has workers fold rows again from the start of their logs, at a bounded rate, and goes on where it was.

A request is durable: it stands in the row and in the feed, so nothing is lost when this process or a worker dies.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from todo_projection.census import Census, Place
from todo_projection.look import Look, Repair, Standing, look_at, point_again
from todo_projection.wire import Wire
from todo_write.events import Keys

PAGE_KEYS = 500
ASKS_PER_TRIP = 100
TRIES_MAX = 10


class Asked(NamedTuple):
    """The looks on which sessions were asked for, and why the others were not, by session."""

    looks: list[Look]
    refused: dict[str, str]


class Rebuild:
    """Asks for refolds of ``units``, keys out of the ``mounted`` ones (versions by key). Raises redis errors."""

    def __init__(self, wire: Wire, keys: Keys, units: Collection[str], mounted: Mapping[str, int]) -> None:
        self._wire = wire
        self._keys = keys
        self._units = units
        self._mounted = mounted
        self._field = f"rebuild:{','.join(sorted(units))}"
        self._saved: bytes | None = None
        self._census = Census(wire, keys)

    async def ask(self, sessions: Sequence[str], *, partial: bool = False) -> Asked:
        """Ask for these sessions; ``partial`` adopts logs with holes as they stand."""
        asked = Asked([], {})
        for _ in range(TRIES_MAX):
            looks = await look_at(self._wire, self._keys, sessions)
            repairs: list[Repair] = []
            for look in looks:
                why = _refusal(look, partial=partial)
                if why:
                    asked.refused[look.session] = why
                else:
                    repairs.append(self._repair(look, partial=partial))
            done = await point_again(self._wire, self._keys, repairs)
            asked.looks.extend(repair.look for repair, fine in zip(repairs, done, strict=True) if fine)
            sessions = [repair.look.session for repair, fine in zip(repairs, done, strict=True) if not fine]
            if not sessions:
                return asked
        asked.refused.update(dict.fromkeys(sessions, "it changes too fast to be asked for; try again"))
        return asked

    async def place(self, *, restart: bool = False) -> Place:
        """Where an earlier rebuild of all sessions was cut; the start when there is none that can be gone on with."""
        self._saved = await self._wire.command("HGET", self._keys.meta, self._field)
        run = await self._census.run()
        try:
            place = Place() if self._saved is None else msgspec.json.decode(self._saved, type=Place)
        except msgspec.MsgspecError:
            place = Place()
        return place if run and place.run == run and not restart else Place(run=run)

    async def all(self, place: Place, *, rate_s: float) -> AsyncGenerator[tuple[Place, Asked]]:
        """Ask for every session that has a log, ``rate_s`` a second at most; yields after each page."""
        cursor: str | None = place.cursor
        while cursor is not None:
            found = await self._census.page(cursor, PAGE_KEYS)
            for start in range(0, len(found.sessions), ASKS_PER_TRIP):
                started = asyncio.get_running_loop().time()
                part = found.sessions[start : start + ASKS_PER_TRIP]
                yield place, await self.ask(part)
                place = msgspec.structs.replace(place, count=place.count + len(part))
                await asyncio.sleep(max(0.0, len(part) / rate_s - (asyncio.get_running_loop().time() - started)))
            cursor = found.cursor
            if cursor is not None:
                place = msgspec.structs.replace(place, cursor=cursor)
                await self._save(place)
        await self._wire.command("HDEL", self._keys.meta, self._field)

    async def _save(self, place: Place) -> None:
        """Say how far this one has got, unless another is saying so: one of two is enough to go on from."""
        if await self._wire.command("HGET", self._keys.meta, self._field) == self._saved:
            self._saved = msgspec.json.encode(place)
            await self._wire.command("HSET", self._keys.meta, self._field, self._saved)

    def _repair(self, look: Look, *, partial: bool) -> Repair:
        if look.standing is Standing.BEHIND and not look.versions and not partial:
            return Repair(look)  # there is no row yet: whoever is pointed at it folds it whole
        whole = partial or look.standing in (Standing.AHEAD, Standing.FORKED, Standing.CORRUPT)
        return Repair(look, {**look.versions, **self._mounted} if whole else self._units, partial)


def _refusal(look: Look, *, partial: bool) -> str:
    """Why a session can't be asked for, '' when it can."""
    match look.standing:
        case Standing.ORPHAN:
            return "it has a row and no log: `verify --all --remove-orphans` removes such rows"
        case Standing.NOTHING:
            return "there is no log of it"
        case Standing.BROKEN:
            return f"{look.why}; rename or delete that key"
        case _:
            if look.foldable or partial:
                return ""
            adopt = f"`rebuild --session {look.session} --partial` takes the log as it stands"
            return f"its log can't be folded from the start: {look.foreign}; {adopt}"
