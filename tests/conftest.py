"""Fixtures: a real server, a namespace of one's own in it, clients; and which servers this run covers."""

import contextlib
import os
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from types import FrameType
from typing import cast

import pytest
import redis.asyncio as redis_asyncio

from fleet import Fleet
from overheard import Overheard
from proxy import Proxy
from repairs import Yard
from servers import Server
from todo_projection.wire import Wire
from todo_write.log import Client, connect

FLEET = pytest.StashKey[Fleet]()


def pytest_sessionstart(session: pytest.Session) -> None:
    signal.signal(signal.SIGTERM, _interrupt)  # so that servers are stopped, as after Ctrl-C
    signal.signal(signal.SIGHUP, _interrupt)
    fleet = Fleet.discover()
    session.config.stash[FLEET] = fleet
    if os.environ.get("TODO_REQUIRE_DOCKER") == "1" and fleet.uncovered:
        raise pytest.UsageError(
            f"TODO_REQUIRE_DOCKER=1, but these servers are not to be had: {fleet.what_is_missing()}"
        )


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def pytest_report_header(config: pytest.Config) -> str:
    fleet = config.stash[FLEET]
    if not fleet.images:
        return f"servers: {fleet.embedded} (no Docker engine answers)"
    return f"servers: {' '.join(fleet.images)} through Docker, {fleet.embedded}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    every = metafunc.definition.get_closest_marker("every_topology")
    if every is not None and "topology" in metafunc.fixturenames:
        metafunc.parametrize("topology", ("server", "sentinel", "cluster"), indirect=True)
    if metafunc.definition.get_closest_marker("every_server") is None:
        return
    names = metafunc.config.stash[FLEET].names
    if "own_server" in metafunc.fixturenames:
        metafunc.parametrize("own_server", names, indirect=True)
    elif {"server", "target", "redis_url"}.intersection(metafunc.fixturenames):
        if "server" not in metafunc.fixturenames:
            metafunc.fixturenames.append("server")  # `target` asks for it only when it runs
        metafunc.parametrize("server", names, indirect=True, scope="session")
    else:
        raise pytest.UsageError(f"{metafunc.definition.nodeid} is marked every_server, but asks for no server")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[FLEET].uncovered:
        terminalreporter.write_line(f"servers not covered: {config.stash[FLEET].what_is_missing()}", yellow=True)


@pytest.fixture(scope="session")
def fleet(pytestconfig: pytest.Config) -> Iterator[Fleet]:
    """Every server this run covers."""
    fleet = pytestconfig.stash[FLEET]
    yield fleet
    fleet.stop()


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, fleet: Fleet) -> Server:
    """The shared server: each one in turn for tests marked every_server, else the default. Do it no harm."""
    return fleet.get(getattr(request, "param", fleet.names[0]))


@pytest.fixture
def launch(fleet: Fleet) -> Iterator[Callable[..., Server]]:
    """Start further servers of the test's own: ``launch("--maxmemory", "2mb")``; embedded unless ``name`` is given."""
    with contextlib.ExitStack() as stack:

        def start(*options: str, name: str = fleet.embedded) -> Server:
            server = fleet.launch(name, options)
            stack.callback(fleet.end, server)
            return server

        yield start


@pytest.fixture
def own_server(request: pytest.FixtureRequest, launch: Callable[..., Server], fleet: Fleet) -> Server:
    """A server of the test's own, to be killed, restarted, filled up; of each kind for tests marked every_server."""
    return launch(name=getattr(request, "param", fleet.embedded))


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Server:
    """The test's own server when it asks for one, else the shared one."""
    server: Server = request.getfixturevalue("own_server" if "own_server" in request.fixturenames else "server")
    return server


@pytest.fixture
def topology(request: pytest.FixtureRequest) -> str:
    """What stands behind the URL: one server, or what a test marked every_topology gets in turn."""
    return str(getattr(request, "param", "server"))


@pytest.fixture
def redis_url(request: pytest.FixtureRequest, topology: str, fleet: Fleet) -> str:
    """URL of the test's server, or of several that belong together."""
    if topology == "server":
        server: Server = request.getfixturevalue("target")
        return server.url
    return fleet.service.url if topology == "sentinel" else fleet.cluster.url


@pytest.fixture
def namespace(request: pytest.FixtureRequest, topology: str, fleet: Fleet) -> Iterator[str]:
    """A namespace no other test has; what stands in it is deleted after the test."""
    name = f"t{secrets.token_hex(5)}"
    if topology != "server":
        yield name
        return  # these are few, and end with the run
    target: Server = request.getfixturevalue("target")
    yield name
    if not fleet.is_shared(target):
        return  # it goes away with all it holds
    target.thaw()
    with target.connect() as client, client.pipeline(transaction=False) as removal:
        for key in cast("Iterator[bytes]", client.scan_iter(f"{name}:*", count=1000)):
            removal.unlink(key)
        removal.execute()


@pytest.fixture
async def proxy(target: Server) -> AsyncIterator[Proxy]:
    """A proxy in front of the test's server, for losing, holding and cutting what the test names."""
    async with Proxy(target.host, target.port) as proxy:
        yield proxy


@pytest.fixture
async def redis(redis_url: str, topology: str, fleet: Fleet) -> AsyncIterator[redis_asyncio.Redis]:
    """A plain client that answers in bytes, to look at what is stored."""
    if topology == "cluster":
        async with redis_asyncio.RedisCluster.from_url(fleet.cluster.servers[0].url) as client:
            yield cast("redis_asyncio.Redis", client)  # the commands are the same
        return
    url = fleet.service.primary.url if topology == "sentinel" else redis_url
    async with redis_asyncio.Redis.from_url(url) as client:
        yield client


@pytest.fixture
async def client(redis_url: str, namespace: str) -> AsyncIterator[Client]:
    """The product's own client, for this test's namespace."""
    async with connect(redis_url, namespace=namespace) as client:
        yield client


@pytest.fixture(scope="session")
def todo_redis_url(server: Server) -> str:
    """The server of the kit (``todo_projection.testing``): the one other tests use too."""
    return server.url


@pytest.fixture
async def wire(redis_url: str) -> AsyncIterator[Wire]:
    """A worker's wire."""
    wire = Wire(redis_url)
    yield wire
    await wire.aclose()


@pytest.fixture
async def overheard(redis_url: str) -> AsyncIterator[Overheard]:
    """A worker's wire with a memory."""
    overheard = Overheard(redis_url)
    yield overheard
    await overheard.aclose()


@pytest.fixture
def yard(redis: redis_asyncio.Redis, namespace: str, wire: Wire) -> Yard:
    """Logs and rows to break and mend."""
    return Yard(redis, namespace, wire)
