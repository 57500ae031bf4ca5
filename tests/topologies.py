"""Several servers that belong together, as real processes: a primary with replicas and sentinels, and a cluster."""

import functools
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from servers import OPTIONS, ProcessServer, Server
from todo_projection.embedded import free_port, server_command
from todo_write.events import slot

SERVICE = "plans"
UP_S = 60.0  # two processors that do other things as well
SLOTS = 16384
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")  # so that a restart loses nothing
QUICK = (*DURABLE, "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--repl-timeout", "5")
DOWN_MS = 1000
SAID_LINES = 12
# What a sentinel does every second or ten, more often; and for 30 s it trusts nobody once it stood still. Two of these
# are held against the second that it leaves between its looks at replicas without a primary, whatever is set here: one
# whose word is older than five pings is not promoted, one promoted but not told of within four hellos is sent back.
PERIODS_MS = {"ping-period": 500, "ask-period": 100, "info-period": 200, "publish-period": 400, "tilt-period": 1000}


def wait(condition: Callable[[], object], what: str) -> None:
    """Return once it holds; these places are started outside of any event loop."""
    deadline = time.monotonic() + UP_S
    last: object = None
    while time.monotonic() < deadline:
        try:
            if last := condition():
                return
        except redis.RedisError as error:
            last = error
        time.sleep(0.02)
    raise TimeoutError(f"{what}: {last!r}")


def ask(server: Server, *command: Any) -> Any:
    """One command to one server, its answer flat and in text."""
    once = Retry(NoBackoff(), 0)
    with redis.Redis(server.host, server.port, protocol=2, socket_timeout=5, retry=once) as client:
        client.response_callbacks.clear()
        return text(client.execute_command(*command))


def text(answer: Any) -> Any:
    """An answer in text instead of bytes."""
    parts: Any = answer
    if isinstance(answer, list):
        return [text(one) for one in parts]
    return answer.decode() if isinstance(answer, bytes) else answer


def _raise_up(servers: Iterable[Server]) -> None:
    for server in servers:
        server.thaw()
        if not server.alive():
            server.restart()


class Member(ProcessServer):
    """A server with a file of its configuration, where others that change its part in the whole can keep that."""

    def _build_command(self, program: Path, options: tuple[str, ...]) -> list[str]:
        words = server_command(program, folder=self.folder, port=self.port, options=(*OPTIONS, *options))[1:]
        empty = '""'
        pairs = zip(words[::2], words[1::2], strict=True)
        lines = [f"{name.removeprefix('--')} {value or empty}" for name, value in pairs]
        config = self.folder / "server.conf"
        config.write_text("\n".join(lines) + "\n")
        return [str(program), str(config)]


class Sentinel(ProcessServer):
    """A sentinel that watches one primary."""

    def __init__(self, program: Path, watched: Server) -> None:
        self._watched = watched
        super().__init__(program, "sentinel")

    def _build_command(self, program: Path, options: tuple[str, ...]) -> list[str]:
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self.folder}",
            f"sentinel monitor {SERVICE} {self._watched.host} {self._watched.port} 2",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_MS}",
            f"sentinel failover-timeout {SERVICE} 3000",
        ]
        config = self.folder / "sentinel.conf"
        config.write_text("\n".join(lines) + "\n")
        return [str(program), str(config), "--sentinel"]


class Service:
    """One primary, two replicas and three sentinels; ``url`` is what a client gets."""

    def __init__(self, program: Path) -> None:
        self.servers: list[Server] = []
        self.sentinels: list[Server] = []
        try:
            self._start(program)
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        """URL of the service."""
        return f"redis+sentinel://{','.join(f'{one.host}:{one.port}' for one in self.sentinels)}/{SERVICE}/0"

    @property
    def primary(self) -> Server:
        """The server that the sentinels call the primary."""
        named = [ask(one, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE) for one in self.sentinels]
        (port,) = {int(port) for _, port in named}
        return next(server for server in self.servers if server.port == port)

    @property
    def replicas(self) -> list[Server]:
        """The others."""
        primary = self.primary
        return [server for server in self.servers if server is not primary]

    def hurry(self) -> None:
        """Have sentinels that have just started be quick: this is kept in no file of theirs."""
        for sentinel in self.sentinels:
            ask(sentinel, "SENTINEL", "DEBUG", *[part for pair in PERIODS_MS.items() for part in pair])

    def fail_over(self) -> None:
        """Have the sentinels promote a replica, and wait until all of them name it."""
        before, asked = self.primary, self.sentinels[0]

        def led() -> bool:
            _, port = ask(asked, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
            if int(port) == before.port:  # not asked yet, refused since one is under way, or given up
                ask(asked, "SENTINEL", "FAILOVER", SERVICE)
            return self._is_led_by_other(before)

        self._wait(led, "no fail-over")

    def wait_until_led_by_other(self, before: Server) -> None:
        """Return once all sentinels name another primary, and it is one."""
        self._wait(lambda: self._is_led_by_other(before), "no fail-over")

    def wait_until_whole(self) -> None:
        """Return once there is one primary with two replicas in touch, and all sentinels know."""

        def followed() -> bool:
            now = self._named()
            return now is not None and len(ask(now, "ROLE")[2]) == len(self.servers) - 1

        self._wait(followed, "replicas")
        self._wait(lambda: all(self._knows_all(one) for one in self.sentinels), "sentinels")

    def heal(self) -> None:
        """Have all of them run, and wait until they are whole."""
        _raise_up((*self.servers, *self.sentinels))
        self.hurry()
        self.wait_until_whole()

    def stop(self) -> None:
        """End all of it."""
        for server in (*self.sentinels, *self.servers):
            server.stop()

    def _start(self, program: Path) -> None:
        self.servers.append(Member(program, "primary", QUICK))
        first = self.servers[0]
        for _ in range(2):
            self.servers.append(Member(program, "replica", (*QUICK, "--replicaof", f"{first.host} {first.port}")))
        wait(lambda: len(ask(first, "ROLE")[2]) == len(self.servers) - 1, "no replicas")
        for _ in range(3):
            self.sentinels.append(Sentinel(program, first))
        self.hurry()
        self.wait_until_whole()

    def _named(self) -> Server | None:
        try:
            return self.primary
        except ValueError:  # they disagree
            return None

    def _is_led_by_other(self, before: Server) -> bool:
        now = self._named()
        return now is not None and now is not before and bool(ask(now, "ROLE")[0] == "master")

    def _wait(self, condition: Callable[[], object], what: str) -> None:
        """As ``wait`` does; what it raises says how the sentinels see it."""
        try:
            wait(condition, what)
        except TimeoutError as error:
            raise TimeoutError("\n".join((str(error), *map(_view, self.sentinels)))) from error

    def _knows_all(self, sentinel: Server) -> bool:
        state, replicas = _state(sentinel), _replicas(sentinel)
        counts = (state["num-other-sentinels"], state["num-slaves"])
        linked = all((one["flags"], one["master-link-status"]) == ("slave", "ok") for one in replicas)
        return counts == ("2", "2") and state["flags"] == "master" and linked


def _state(sentinel: Server) -> dict[str, str]:
    flat = ask(sentinel, "SENTINEL", "MASTER", SERVICE)
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _replicas(sentinel: Server) -> list[dict[str, str]]:
    return [dict(zip(one[::2], one[1::2], strict=True)) for one in ask(sentinel, "SENTINEL", "REPLICAS", SERVICE)]


def _view(sentinel: Server) -> str:
    """What a sentinel says of primary and replicas, and what it did of late."""
    did = "\n".join(f"    {line}" for line in sentinel.logs().splitlines()[-SAID_LINES:])
    try:
        return f"{sentinel}: {_state(sentinel)}, replicas {_replicas(sentinel)}\n{did}"
    except redis.RedisError as error:
        return f"{sentinel}: {error}\n{did}"


class Cluster:
    """Three primaries, each with a replica; ``url`` is what a client gets."""

    def __init__(self, program: Path) -> None:
        self.servers: list[Server] = []
        try:
            self._start(program)
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        """URL of the cluster."""
        return f"redis+cluster://{','.join(f'{one.host}:{one.port}' for one in self.servers)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def owner(self, key: str) -> Server:
        """The primary that serves a key."""
        place = slot(key.partition("{")[2].partition("}")[0] or key)
        for first, last, primary, *_ in ask(self._answering(), "CLUSTER", "SLOTS"):
            if first <= place <= last:
                return self._at(primary[1])
        raise LookupError(f"slot {place} is served by nobody")

    @property
    def primaries(self) -> list[Server]:
        """All primaries with slots."""
        return [self._at(port) for port in sorted({one[2][1] for one in ask(self._answering(), "CLUSTER", "SLOTS")})]

    def replica_of(self, server: Server) -> Server:
        """A replica of this primary."""
        rows = ask(self._answering(), "CLUSTER", "REPLICAS", self.id(server))
        return self._at(int(rows[0].split()[1].partition("@")[0].rpartition(":")[2]))

    def id(self, server: Server) -> str:
        """How the cluster calls a server."""
        name: str = ask(server, "CLUSTER", "MYID")
        return name

    def fail_over(self, server: Server) -> Server:
        """Have a primary's replica take its place, orderly; the new primary."""
        replica = self.replica_of(server)
        ask(replica, "CLUSTER", "FAILOVER")
        wait(lambda: ask(replica, "ROLE")[0] == "master", "no fail-over")
        return replica

    def wait_until_whole(self) -> None:
        """Return once every server agrees on who serves what, and every primary has a replica in touch."""
        wait(lambda: all("cluster_state:ok" in ask(one, "CLUSTER", "INFO") for one in self.servers), "not ok")
        wait(lambda: len({str(sorted(self._owners(one))) for one in self.servers}) == 1, "no agreement")
        wait(lambda: all(ask(one, "ROLE")[2] for one in self.primaries), "no replicas")

    def heal(self) -> None:
        """Have all of them run, and wait until they are whole."""
        _raise_up(self.servers)
        self.wait_until_whole()

    def stop(self) -> None:
        """End all of it."""
        for server in self.servers:
            server.stop()

    def _start(self, program: Path) -> None:
        for _ in range(6):
            bus = ("--cluster-port", str(free_port()))
            options = ("--cluster-enabled", "yes", "--cluster-node-timeout", str(DOWN_MS), *bus)
            more = ("--cluster-replica-validity-factor", "0", "--cluster-allow-replica-migration", "no")
            self.servers.append(Member(program, f"node {len(self.servers)}", (*QUICK, *options, *more)))
        first = self.servers[0]
        for number, server in enumerate(self.servers):
            ask(server, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number < 3:
                bounds = [n * SLOTS // 3 for n in (number, number + 1)]
                ask(server, "CLUSTER", "ADDSLOTSRANGE", bounds[0], bounds[1] - 1)
            if server is not first:
                bus = ask(server, "CONFIG", "GET", "cluster-port")[1]
                ask(first, "CLUSTER", "MEET", server.host, server.port, bus)
        wait(lambda: all("cluster_known_nodes:6" in ask(one, "CLUSTER", "INFO") for one in self.servers), "no meeting")
        for primary, replica in zip(self.servers[:3], self.servers[3:], strict=True):
            follow = functools.partial(ask, replica, "CLUSTER", "REPLICATE", self.id(primary))
            wait(follow, "no replica")
        self.wait_until_whole()

    def _owners(self, server: Server) -> list[tuple[int, int, int]]:
        return [(first, last, at[1]) for first, last, at, *_ in ask(server, "CLUSTER", "SLOTS")]

    def _answering(self) -> Server:
        return next(one for one in self.servers if one.alive() and not one.frozen)

    def _at(self, port: int) -> Server:
        return next(server for server in self.servers if server.port == port)


class Move:
    """A slot on its way from one primary to another, step by step as an operator's tool does it."""

    def __init__(self, cluster: Cluster, key: str, to: Server) -> None:
        self._cluster = cluster
        self.slot = slot(key.partition("{")[2].partition("}")[0] or key)
        self.source, self.target = cluster.owner(key), to

    def begin(self) -> None:
        """From now on the source sends those who ask for what it lacks to the target."""
        ask(self.target, "CLUSTER", "SETSLOT", self.slot, "IMPORTING", self._cluster.id(self.source))
        ask(self.source, "CLUSTER", "SETSLOT", self.slot, "MIGRATING", self._cluster.id(self.target))

    def carry(self, *names: str) -> None:
        """Carry these keys over, all that there are when none is named."""
        while found := names or ask(self.source, "CLUSTER", "GETKEYSINSLOT", self.slot, 100):
            ask(self.source, "MIGRATE", self.target.host, self.target.port, "", 0, 5000, "KEYS", *found)
            if names:
                return

    def end(self) -> None:
        """Say whose it is now; all nodes are told."""
        name = self._cluster.id(self.target)
        for server in (self.target, self.source):
            ask(server, "CLUSTER", "SETSLOT", self.slot, "NODE", name)
        self._cluster.wait_until_whole()

    def whole(self) -> None:
        """All of it."""
        self.begin()
        self.carry()
        self.end()
