"""The worker and servers that answer, but refuse: it waits, says why now and then, and goes on where it was."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from eventually import eventually
from field import PARTITIONS, Field, append, quick, right
from proxy import Proxy
from servers import Server
from todo_projection.embedded import free_port
from todo_projection.feed import Feeds
from todo_projection.wire import Wire
from todo_write.log import Client, connect

LOAD_DELAY_US, KEYS = "250", 4096  # a second of loading, in which the server looks up four times


@pytest.fixture
def field(redis: Redis, namespace: str) -> Field:
    return Field(redis, namespace)


@pytest.fixture
async def client(redis_url: str, namespace: str) -> AsyncIterator[Client]:
    async with connect(redis_url, namespace=namespace, partitions=PARTITIONS) as client:
        yield client


def assert_waited(caplog: pytest.LogCaptureFixture, cause: str) -> None:
    """It said why it waits, and not over and over."""
    told = [line for line in caplog.text.splitlines() if "next try in" in line]
    assert any(cause in line for line in told), caplog.text
    assert len(told) <= 8, told


async def test_a_server_that_is_loading_is_waited_for_by_a_worker_that_starts_then(
    launch: Callable[..., Server], namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = launch("--appendonly", "yes", "--appendfsync", "always", "--key-load-delay", LOAD_DELAY_US)
    async with (
        Redis.from_url(server.url) as redis,
        connect(server.url, namespace=namespace, partitions=PARTITIONS) as client,
    ):
        field = Field(redis, namespace)
        await append(client, "s")
        pipe = redis.pipeline(transaction=False)
        for number in range(KEYS):
            pipe.set(f"key{number}", "x")
        await pipe.execute()
        server.kill()
        restarted = asyncio.create_task(asyncio.to_thread(server.restart))
        async with quick(server.url, namespace):
            await eventually(lambda: "loading the dataset" in caplog.text, within=20)
            await restarted
            await redis.connection_pool.disconnect()
            await append(client, "s")
            await eventually(right(field, "s"), within=20)
    assert_waited(caplog, "loading the dataset")


async def test_a_server_that_is_read_only_for_a_while_is_waited_for(
    own_server: Server, namespace: str, field: Field, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await client.keys()
    async with quick(own_server.url, namespace):
        await append(client, "s")
        await eventually(right(field, "s"))
        await append(client, "s", 5)
        await field.redis.replicaof("127.0.0.1", free_port())
        await eventually(lambda: "read only replica" in caplog.text)
        await eventually(lambda: "next try in 0.8" in caplog.text or "next try in 0.9" in caplog.text)
        await field.redis.replicaof("NO", "ONE")
        await append(client, "s")
        await eventually(right(field, "s"))
    assert_waited(caplog, "read only replica")


async def test_a_server_busy_with_an_endless_script_is_waited_for(
    own_server: Server, namespace: str, field: Field, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await client.keys()
    await field.redis.config_set("busy-reply-threshold", "50")
    async with quick(own_server.url, namespace, audit_rate=0):
        await append(client, "s")
        await eventually(right(field, "s"))

        async def endless() -> None:
            with pytest.raises(ResponseError, match="killed"):
                await field.redis.eval("while true do end", 0)

        script = asyncio.create_task(endless())
        await eventually(lambda: "busy running a script" in caplog.text)
        async with Redis.from_url(own_server.url) as other:
            await other.script_kill()
        await script
        await append(client, "s")
        await eventually(right(field, "s"))
    assert_waited(caplog, "busy running a script")


async def test_two_workers_that_create_the_groups_at_once_both_go_on(
    redis_url: str, namespace: str, field: Field, client: Client
) -> None:
    keys = await client.keys()
    wires = [Wire(redis_url) for _ in range(4)]
    feeds = [Feeds(wire, wire, keys, f"w{number}") for number, wire in enumerate(wires)]
    for _ in range(20):
        await asyncio.gather(*(one.ensure_groups() for one in feeds))
        assert [len(await field.redis.xinfo_groups(feed)) for feed in field.feeds] == [1] * PARTITIONS
        await field.redis.delete(*field.feeds)
    for wire in wires:
        await wire.aclose()


async def test_a_server_that_refuses_to_be_read_while_it_answers_all_else_is_asked_ever_more_seldom(
    own_server: Server, namespace: str, field: Field, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await client.keys()
    await field.redis.execute_command("ACL", "SETUSER", "w", "on", ">p", "~*", "&*", "+@all", "-xreadgroup")
    async with quick(f"redis://w:p@{own_server.host}:{own_server.port}/0", namespace):
        await eventually(lambda: "next try in 1." in caplog.text)
        await field.redis.execute_command("ACL", "SETUSER", "w", "+xreadgroup")
        await append(client, "s")
        await eventually(right(field, "s"))
    assert_waited(caplog, "xreadgroup")


async def test_half_open_connections_are_given_up_and_others_opened(
    namespace: str, field: Field, client: Client, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    await client.keys()
    async with quick(proxy.url, namespace):
        await append(client, "s")
        await eventually(right(field, "s"))
        proxy.silence()
        await append(client, "s")
        await eventually(lambda: "no answer to XREADGROUP within" in caplog.text, within=20)
        proxy.cut()
        proxy.resume()
        await append(client, "s")
        await eventually(right(field, "s"), within=20)
    assert_waited(caplog, "no answer to XREADGROUP")


async def test_refused_connections_are_tried_again_until_they_are_taken(
    namespace: str, field: Field, client: Client, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    await client.keys()
    async with quick(proxy.url, namespace):
        await append(client, "s")
        await eventually(right(field, "s"))
        proxy.refuse()
        await eventually(lambda: "next try in 0.8" in caplog.text or "next try in 0.9" in caplog.text)
        await proxy.accept()
        await append(client, "s")
        await eventually(right(field, "s"))
    assert_waited(caplog, "Connect")
