"""What happens to servers that belong together: one shift is under way at a time, and others are hit meanwhile."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from redis.exceptions import RedisError

from chaos.ear import Ear
from chaos.script import NAMESPACE, PARTITIONS, SESSIONS
from servers import Server
from todo_write.events import Keys
from topologies import Cluster, Move, Service, ask, wait

OF_BOTH = {
    "promote a replica": 3,
    "kill a primary": 2,
    "restart a primary": 2,
    "freeze a primary": 3,
    "lose a tail": 3,
    "freeze a replica": 2,
    "cut replication": 2,
    "restart all servers": 1,
}
OF_SERVICE = {**OF_BOTH, "freeze sentinels": 2}
OF_CLUSTER = {**OF_BOTH, "force a replica up": 2, "move a slot": 4}
UNSENT_S = 0.5  # shorter than the silence after which a server is taken for dead
HEARD_S = 0.5


class Shifts:
    """``begin`` one by name, ``settled`` waits for its end: what was hit is there again, and all agree."""

    def __init__(self, whole: Service | Cluster, pick: random.Random, ear: Ear) -> None:
        self._whole, self._pick, self._ear = whole, pick, ear
        self._task: asyncio.Task[None] | None = None
        self._shifts: dict[str, Callable[[], tuple[str, Callable[[], object]]]] = {
            "promote a replica": self._promote,
            "force a replica up": self._force,
            "kill a primary": self._kill,
            "restart a primary": self._restart,
            "freeze a primary": self._freeze_primary,
            "freeze a replica": self._freeze_replica,
            "lose a tail": self._lose,
            "cut replication": self._cut,
            "restart all servers": self._restart_all,
            "move a slot": self._move,
            "freeze sentinels": self._freeze_sentinels,
        }

    @property
    def weights(self) -> dict[str, int]:
        """Those of this kind of servers, and how often each."""
        return OF_CLUSTER if isinstance(self._whole, Cluster) else OF_SERVICE

    def blow(self, name: str) -> Callable[[], Awaitable[str]]:
        """What begins it."""
        return partial(self.begin, name)

    async def begin(self, name: str) -> str:
        """Once the last one is over."""
        await self.settled()
        told, work = await asyncio.to_thread(self._shifts[name])
        self._task = asyncio.create_task(self._run(work))
        return told

    async def settled(self) -> None:
        """Return once nothing is under way; raises what went wrong with it."""
        if self._task is not None:
            await self._task
            self._task = None

    async def _run(self, work: Callable[[], object]) -> None:
        # A server that went back to an older state publishes what carriers had seen: they find out by the poll.
        self._ear.minds = False
        await asyncio.to_thread(work)
        await asyncio.to_thread(self._whole.wait_until_whole)
        await asyncio.sleep(HEARD_S)  # what was said before this is heard by then
        self._ear.minds = True

    def _primary(self) -> Server:
        if isinstance(self._whole, Service):
            return self._whole.primary
        return self._pick.choice(self._whole.primaries)

    def _replicas(self, primary: Server) -> list[Server]:
        if isinstance(self._whole, Service):
            return [server for server in self._whole.servers if server is not primary]
        return [self._whole.replica_of(primary)]

    def _replaced(self, primary: Server) -> None:
        """Return once another server is the primary instead."""
        if isinstance(self._whole, Service):
            self._whole.wait_until_led_by_other(primary)
        else:
            wait(lambda: primary not in self._cluster().primaries, "no fail-over")

    def _cluster(self) -> Cluster:
        assert isinstance(self._whole, Cluster)
        return self._whole

    def _promote(self) -> tuple[str, Callable[[], object]]:
        primary = self._primary()
        if isinstance(self._whole, Service):
            return f"of {primary.port}", self._whole.fail_over
        return f"of {primary.port}", partial(self._cluster().fail_over, primary)

    def _force(self) -> tuple[str, Callable[[], object]]:
        (replica,), how = self._replicas(self._primary()), self._pick.choice(["FORCE", "TAKEOVER"])

        def work() -> None:
            ask(replica, "CLUSTER", "FAILOVER", how)
            wait(lambda: ask(replica, "ROLE")[0] == "master", "no fail-over")

        return f"{replica.port}, {how}", work

    def _kill(self) -> tuple[str, Callable[[], object]]:
        primary = self._primary()

        def work() -> None:
            primary.kill()
            self._replaced(primary)
            primary.restart()

        return f"{primary.port}, until another is", work

    def _restart(self) -> tuple[str, Callable[[], object]]:
        primary = self._primary()
        return f"{primary.port}", primary.restart

    def _freeze_primary(self) -> tuple[str, Callable[[], object]]:
        return self._freeze([self._primary()], self._pick.uniform(0.3, 4.0))

    def _freeze_replica(self) -> tuple[str, Callable[[], object]]:
        return self._freeze([self._pick.choice(self._replicas(self._primary()))], self._pick.uniform(0.3, 4.0))

    def _freeze_sentinels(self) -> tuple[str, Callable[[], object]]:
        assert isinstance(self._whole, Service)
        some = self._pick.sample(self._whole.sentinels, self._pick.randint(1, 3))
        return self._freeze(some, self._pick.uniform(0.3, 4.0))

    def _freeze(self, servers: list[Server], seconds: float) -> tuple[str, Callable[[], object]]:
        def work() -> None:
            for server in servers:
                server.freeze()
            time.sleep(seconds)
            for server in servers:
                server.thaw()

        return f"{', '.join(str(server.port) for server in servers)} for {seconds:.1f} s", work

    def _lose(self) -> tuple[str, Callable[[], object]]:
        """What is written from here on is sent to nobody, and its server dies."""
        primary = self._primary()
        replicas = self._replicas(primary)

        def work() -> None:
            for replica in replicas:
                replica.freeze()
            with suppress(RedisError):
                ask(primary, "CLIENT", "KILL", "TYPE", "replica")
            time.sleep(UNSENT_S)
            primary.kill()
            for replica in replicas:
                replica.thaw()
            self._replaced(primary)
            primary.restart()

        return f"of {primary.port}", work

    def _cut(self) -> tuple[str, Callable[[], object]]:
        kind = self._pick.choice(["replica", "master"])

        def work() -> None:
            for server in self._whole.servers:
                ask(server, "CLIENT", "KILL", "TYPE", kind)

        return f"of each {kind}", work

    def _restart_all(self) -> tuple[str, Callable[[], object]]:
        servers, seconds = list(self._whole.servers), self._pick.uniform(0.0, 2.0)
        if isinstance(self._whole, Service):
            servers += self._whole.sentinels
        self._pick.shuffle(servers)

        def work() -> None:
            for server in servers:
                server.kill()
            time.sleep(seconds)
            for server in servers:
                server.restart()
            if isinstance(self._whole, Service):
                self._whole.hurry()

        return f"after {seconds:.1f} s", work

    def _move(self) -> tuple[str, Callable[[], object]]:
        cluster, session = self._cluster(), self._pick.choice(SESSIONS)
        key = Keys(NAMESPACE, PARTITIONS).log(session)
        target = self._pick.choice([one for one in cluster.primaries if one is not cluster.owner(key)])
        move = Move(cluster, key, target)
        return f"{move.slot} of {session} from {move.source.port} to {target.port}", move.whole
