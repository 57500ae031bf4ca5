"""What repair tests share: a namespace with a worker that is asked step by step, and events to fill it with."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.asyncio import Redis

from todo_projection.audit import Audit
from todo_projection.look import Look, look_at
from todo_projection.projector import Projector
from todo_projection.unit import Unit, mounted_units
from todo_projection.verify import Finding, Verifier
from todo_projection.wire import Wire
from todo_write.events import Event
from todo_write.log import Client, SessionLog, connect
from workshop import Workshop

Given = tuple[str, Any]
MOUNTED = {unit.key: unit.state_version for unit in mounted_units()}
TALK: Given = ("assistant/chunk", {"text": "…"})
TURN: Given = ("turn/start", {"turn": 1})
POISON: Given = ("todo/write", {"todos": [{"content": "", "status": "pending"}]})


def write(*items: str, status: str = "pending") -> Given:
    return "todo/write", {"todos": [{"content": item, "status": status} for item in items]}


class Tally:
    """A unit that counts writes, refuses those of two items until its code is mended, and never heals by itself."""

    key = "tally"
    state_version = 1
    handles = frozenset({"todo/write"})
    heals_on = frozenset[str]()
    published = True

    def __init__(self, *, mended: bool = True, state_version: int = 1) -> None:
        self.mended = mended
        self.state_version = state_version

    def init(self) -> int:
        return 0

    def apply(self, state: int, event: Event) -> int:
        if not self.mended and len(event.read(dict[str, Any])["todos"]) > 1:
            raise ValueError("too many for this code")
        return state + 1

    def view(self, state: int) -> int:
        return state

    def encode(self, state: int) -> bytes:
        return b"%d" % state

    def decode(self, raw: bytes) -> int:
        return int(raw)


class Yard(Workshop):
    """A workshop with what finds and mends."""

    def __init__(self, redis: Redis, namespace: str, wire: Wire) -> None:
        super().__init__(redis, namespace, wire)
        self.audit = Audit(wire, self.keys, MOUNTED)

    async def work(self, by: Projector | None = None) -> int:
        """Project all that is in the feed; how many pointers that were."""
        done = 0
        while batch := await self.deliver():
            batches: Any = {0: batch}
            while batches:
                batches = (await (by or self.projector()).project(batches)).conflicts
            done += len(batch)
        return done

    async def look(self, session: str = "s") -> Look:
        return (await look_at(self.wire, self.keys, [session]))[0]

    async def sweep(self) -> None:
        """One whole sweep of the audit."""
        sweeps = self.audit.sweeps
        while self.audit.sweeps == sweeps:
            await self.audit.step(1000)

    async def verify(self, session: str = "s", units: Sequence[Unit] | None = None) -> Finding:
        """The finding; of one that is lost that it is."""
        verifier = Verifier(self.wire, self.keys, mounted_units() if units is None else units)
        found = [finding async for finding in verifier.verify([session])]
        return (await verifier.lost() or found)[0]

    async def pointed(self) -> int:
        """How many pointers stand in the feed."""
        return int(await self.redis.xlen(self.keys.feed(0)))


class Interrupted(Wire):
    """A wire on which something happens before a command with this word in it goes out for the first time."""

    def __init__(self, url: str, word: str, happens: Callable[[], Awaitable[None]]) -> None:
        super().__init__(url)
        self._word = word
        self._happens: Callable[[], Awaitable[None]] | None = happens

    async def pipeline(self, commands: Sequence[Any]) -> list[Any]:
        happens = self._happens
        if happens is not None and any(self._word in command for command in commands):
            self._happens = None
            await happens()
        return await super().pipeline(commands)


async def fill(redis_url: str, namespace: str, *sessions: str, events: int = 1, partitions: int = 4) -> None:
    """Write some sessions as agents would."""
    async with connect(redis_url, namespace=namespace, partitions=partitions) as client:
        for session in sessions:
            await plan(client, session, *[str(number) for number in range(events)])


async def plan(client: Client, session: str, *items: str) -> None:
    """A write for each item."""
    log = SessionLog(client, session)
    await log.append_all([write(item, status="in_progress") for item in items])
