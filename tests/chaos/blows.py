"""What happens to a run, one blow a step. Each waits for itself, or leaves its undoing to a task that ``calm`` ends."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

from redis.exceptions import RedisError, ResponseError

from chaos.actor import Actor, Role
from chaos.cast import Cast
from chaos.script import MORTAL, NAMESPACE, PARTITIONS, SESSIONS, TRIMMED
from chaos.shifts import Shifts
from chaos.stage import Stage
from eventually import eventually
from todo_write.events import GROUP
from todo_write.log import NotSaved, OutcomeUnknown, SessionLog, connect

WEIGHTS = {
    "kill a worker": 4,
    "stop a worker": 3,
    "end a worker": 2,
    "kill a writer": 3,
    "kill a viewer": 1,
    "stop a viewer": 1,
    "cut connections": 2,
    "cut subscribers": 2,
    "freeze the server": 2,
    "restart the server": 1,
    "forget scripts": 2,
    "delete a feed": 1,
    "destroy a group": 1,
    "fill the server": 2,
    "trim a log": 3,
    "delete a session": 4,
    "poison sessions": 4,
}
OF_ONE = {"freeze the server", "restart the server", "fill the server", "trim a log"}
POINTERS_LOST, LOST_S = 50, 30.0
HANDS_FULL_S = 0.2


class Blows:
    """``strike`` one by name. ``deleted`` holds, per session, the epochs of logs that may be gone by our hand."""

    def __init__(self, stage: Stage, cast: Cast, pick: random.Random, shifts: Shifts | None) -> None:
        self.deleted: dict[str, set[int]] = {}
        self.weights = WEIGHTS
        self._shifts = shifts
        self._stage, self._cast, self._pick = stage, cast, pick
        self._undoing: set[asyncio.Task[None]] = set()
        self._blows: dict[str, Callable[[], Awaitable[str]]] = {
            "kill a worker": lambda: self._kill(Role.WORKER),
            "stop a worker": lambda: self._stop(Role.WORKER),
            "end a worker": self._end,
            "kill a writer": lambda: self._kill(Role.WRITER),
            "kill a viewer": lambda: self._kill(Role.VIEWER),
            "stop a viewer": lambda: self._stop(Role.VIEWER),
            "cut connections": lambda: self._cut("normal"),
            "cut subscribers": lambda: self._cut("pubsub"),
            "freeze the server": self._freeze,
            "restart the server": self._restart,
            "forget scripts": self._forget_scripts,
            "delete a feed": self._delete_feed,
            "destroy a group": self._destroy_group,
            "fill the server": self._fill,
            "trim a log": self._trim,
            "delete a session": self._delete_session,
            "poison sessions": self._poison,
        }
        if shifts is not None:
            steady = {name: weight for name, weight in WEIGHTS.items() if name not in OF_ONE}
            self.weights = {**steady, **shifts.weights}
            self._blows |= {name: shifts.blow(name) for name in shifts.weights}

    async def strike(self, name: str) -> str:
        """Do it; what was done, in a few words."""
        return await self._blows[name]()

    async def calm(self) -> None:
        """Everything undone that was to be undone later."""
        while self._undoing:
            await asyncio.gather(*self._undoing)
        for actor in self._cast.actors:
            actor.send(signal.SIGCONT)
        if self._shifts is not None:
            await self._shifts.settled()
        else:
            await self._stage.redis.config_set("maxmemory", "0")

    async def lose_pointers(self) -> str:
        """End the writers; what they wrote last is in the hands of workers that die, or has no pointer any more."""
        workers, stage = self._cast.of(Role.WORKER), self._stage
        for worker in workers:
            worker.send(signal.SIGSTOP)
        partition = self._pick.randrange(PARTITIONS)
        await eventually(lambda: stage.written(stage.feeds[partition], POINTERS_LOST), within=LOST_S)
        await self._cast.dismiss(*self._cast.of(Role.WRITER))
        lost = await stage.drop_feed(partition)
        for worker in workers:
            await self._cast.kill(worker)
            await self._cast.start(Role.WORKER, worker.place)
        return f"{lost} of them"

    def end(self) -> None:
        """Leave no task behind."""
        for task in self._undoing:
            task.cancel()

    def _later(self, seconds: float, undo: Callable[[], Awaitable[None]]) -> None:
        async def wait_and_undo() -> None:
            await asyncio.sleep(seconds)
            await undo()

        task = asyncio.create_task(wait_and_undo())
        self._undoing.add(task)
        task.add_done_callback(self._undoing.discard)

    async def _kill(self, role: Role) -> str:
        victim, full = self._cast.pick(self._pick, role), self._pick.random() < 1 / 2
        if full:
            victim.send(signal.SIGSTOP)  # what a read of a worker waits for is delivered to it all the same
            await asyncio.sleep(HANDS_FULL_S)
        await self._cast.kill(victim)
        await self._cast.start(role, victim.place)
        return f"{victim.name}{', its hands full' if full else ''}"

    async def _end(self) -> str:
        victim = self._cast.pick(self._pick, Role.WORKER)
        await self._cast.dismiss(victim)
        await self._cast.start(Role.WORKER, victim.place)
        return victim.name

    async def _stop(self, role: Role) -> str:
        victim, seconds = self._cast.pick(self._pick, role), self._pick.uniform(0.5, 3.0)
        victim.send(signal.SIGSTOP)
        self._later(seconds, lambda: _go_on(victim))
        return f"{victim.name} for {seconds:.1f} s"

    async def _cut(self, kind: str) -> str:
        cut = await self._stage.everywhere("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
        return f"{sum(cut)} of them"

    async def _freeze(self) -> str:
        seconds, (server,) = self._pick.uniform(0.2, 3.0), self._stage.ground.servers
        killed = self._pick.random() < 1 / 2
        await asyncio.to_thread(server.freeze)
        try:
            told = f", {await self._kill(Role.WORKER)} killed meanwhile" if killed else ""
            await asyncio.sleep(seconds)
        finally:
            await asyncio.to_thread(server.thaw)
        return f"for {seconds:.1f} s{told}"

    async def _restart(self) -> str:
        (server,) = self._stage.ground.servers
        await asyncio.to_thread(server.restart)
        return "with all it had"

    async def _forget_scripts(self) -> str:
        await self._stage.everywhere("SCRIPT", "FLUSH")
        return "all"

    async def _delete_feed(self) -> str:
        partition = self._pick.randrange(PARTITIONS)
        return f"of partition {partition}, {await self._stage.drop_feed(partition)} in it"

    async def _destroy_group(self) -> str:
        partition = self._pick.randrange(PARTITIONS)
        with suppress(ResponseError):  # no feed at the moment
            await self._stage.redis.xgroup_destroy(self._stage.feeds[partition], GROUP)
        return f"of partition {partition}"

    async def _fill(self) -> str:
        seconds, redis = self._pick.uniform(0.3, 2.0), self._stage.redis
        await redis.config_set("maxmemory", "1")
        self._later(seconds, lambda: redis.config_set("maxmemory", "0"))
        return f"for {seconds:.1f} s"

    async def _trim(self) -> str:
        session = self._pick.choice(TRIMMED)
        return f"{session}: {await self._stage.trim(session)} events"

    async def _delete_session(self) -> str:
        session = self._pick.choice(MORTAL)
        async with connect(self._stage.ground.url, namespace=NAMESPACE, partitions=PARTITIONS) as client:
            log, tail = SessionLog(client, session), await self._stage.tail(session)
            if tail is None:
                return f"{session}, which is not there"
            # A log that began after this look stays: at most this one goes.
            self.deleted.setdefault(session, set()).add(int(tail[0].partition("-")[0]))
            try:
                return f"{session}: {'deleted' if await log.delete() else 'nothing was there'}"
            except (NotSaved, OutcomeUnknown) as error:
                return f"{session}: {type(error).__name__}"

    async def _poison(self) -> str:
        sessions = self._pick.sample(SESSIONS, self._pick.randint(1, 6))
        with suppress(RedisError):  # a full server refuses
            for session in sessions:
                await self._stage.poison(self._pick, session)
        return ", ".join(sessions)


async def _go_on(actor: Actor) -> None:
    actor.send(signal.SIGCONT)
