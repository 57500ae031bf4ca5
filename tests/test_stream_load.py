"""Many clients and slow ones: what one of them does costs the others nothing, and memory is bounded."""

import asyncio
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from redis.asyncio import Redis

from command import Command
from eventually import eventually
from projecting import projected, working
from serving import plan, serving
from sse import Http, of
from todo_projection.embedded import free_port
from todo_write.log import Client, SessionLog

HEAVY = "x" * 200_000


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    """A client and its stream are two open files of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
async def worker(redis_url: str, namespace: str) -> AsyncIterator[None]:
    async with working(redis_url, namespace):
        yield


@pytest.mark.parametrize("clients", [300, pytest.param(1000, marks=pytest.mark.chaos)])
async def test_every_one_of_many_clients_sees_the_newest_plan(
    redis_url: str, namespace: str, client: Client, redis: Redis, worker: None, clients: int
) -> None:
    others = await _subscribed(redis)
    async with serving(redis_url, namespace) as http, AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(http.stream(of(f"s{n % 3}"))) for n in range(clients)]
        await eventually(lambda: all(stream.state() == "live" for stream in streams), within=30)
        for n in range(20):
            for session in ("s0", "s1", "s2"):
                await SessionLog(client, session).append("todo/write", plan(f"{session} {n}"))
        for n, stream in enumerate(streams):
            await stream.shows(f"s{n % 3}", plan(f"s{n % 3} 19")["todos"], within=30)
        assert len(await _subscribed(redis) - others) == 1


async def test_clients_that_never_read_are_cut_off_and_cost_neither_memory_nor_the_others(
    redis_url: str, namespace: str, client: Client, worker: None, tmp_path: Path
) -> None:
    port = free_port()
    gateway = Command(
        "todo-projection", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace, TODO_SEND_TIMEOUT_MS="2000"
    )
    http = Http("127.0.0.1", port)
    log = tmp_path / "log"
    async with AsyncExitStack() as stack:
        said = stack.enter_context(log.open("wb"))
        process = await stack.enter_async_context(gateway.started("gateway", "--port", str(port), stderr=said.fileno()))
        await eventually(lambda: _lives(http), within=30)
        deaf = [await stack.enter_async_context(http.deaf(of("s1"))) for _ in range(30)]
        hearing = await stack.enter_async_context(http.stream(of("s1")))
        await hearing.got("snapshot")
        before = _resident_bytes(process.pid)
        for n in range(100):
            await SessionLog(client, "s1").append("todo/write", plan(f"{n}", HEAVY))
        await hearing.until(lambda: hearing.held("s1") == plan("99", HEAVY)["todos"])
        assert _resident_bytes(process.pid) - before < 100 * 2**20  # kept for them all, it were 600 MB
        await eventually(lambda: log.read_text().count("cut off") == len(deaf))
        for client_that_did_not_read in deaf:
            await (await client_that_did_not_read.hear()).finished()
        await SessionLog(client, "s1").append("todo/write", plan("last"))
        await hearing.shows("s1", plan("last")["todos"])


async def test_a_client_that_reads_again_skips_to_the_newest_plan(
    redis_url: str, namespace: str, client: Client, redis: Redis, worker: None
) -> None:
    async with serving(redis_url, namespace) as http, http.deaf(of("s1")) as deaf:
        log = SessionLog(client, "s1")
        for n in range(50):
            position = await log.append("todo/write", plan(f"{n}", HEAVY))
            await projected(redis, await client.keys(), "s1", position)
        stream = await deaf.hear()
        await stream.shows("s1", plan("49", HEAVY)["todos"])
        assert len(stream.of("projection")) < 8  # with the kernel's own choice of buffers it were twenty


async def test_a_gateway_carries_no_more_streams_than_it_may(redis_url: str, namespace: str) -> None:
    async with serving(redis_url, namespace, streams_max=2) as http:
        async with http.stream(of("s1")) as one, http.stream("board=1") as two:
            await one.got("snapshot")
            await two.got("status")
            for query in (of("s1"), of("s1", events=1), "board=1"):
                refused = await http.get(f"/api/stream?{query}")
                assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        async with asyncio.timeout(10), http.stream(of("s1")) as three:
            await three.got("snapshot")


async def _subscribed(redis: Redis) -> set[str]:
    return {connection["id"] for connection in await redis.client_list() if connection["sub"] != "0"}


async def _lives(http: Http) -> bool:
    try:
        return (await http.get("/livez")).status == 200
    except (ConnectionError, asyncio.IncompleteReadError):
        return False


def _resident_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))
