"""The worker and servers that go and come: flushed, killed, frozen, full."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from redis.asyncio import Redis

from eventually import eventually
from field import (
    PARTITIONS,
    Field,
    append,
    quick,
    right,
)
from servers import Server
from todo_write.events import GROUP
from todo_write.log import Client, connect


@pytest.fixture
def field(redis: Redis, namespace: str) -> Field:
    return Field(redis, namespace)


@pytest.fixture
async def client(redis_url: str, namespace: str) -> AsyncIterator[Client]:
    async with connect(redis_url, namespace=namespace, partitions=PARTITIONS) as client:
        yield client


# --- servers that go and come


async def test_everything_flushed_under_a_running_worker(
    own_server: Server, namespace: str, field: Field, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await client.keys()
    async with quick(own_server.url, namespace):
        await append(client, "s")
        await eventually(right(field, "s"))
        await field.redis.flushall()
        await append(client, "t")
        await eventually(right(field, "t"))
        await append(client, "s2")
        await eventually(right(field, "s2"))
    assert 1 <= caplog.text.count("next try in") <= 5  # told, waited, done: nothing spins


async def test_a_feed_deleted_under_a_waiting_worker(
    own_server: Server, namespace: str, field: Field, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await client.keys()
    async with quick(own_server.url, namespace, block_ms=1000):
        await append(client, "s")
        await eventually(right(field, "s"))
        await field.redis.delete(*field.feeds)
        await append(client, "s")
        await eventually(right(field, "s"))
    assert 1 <= caplog.text.count("next try in") <= 5


async def test_a_group_destroyed_with_pointers_unread_loses_none_of_them(
    redis_url: str, namespace: str, field: Field, client: Client
) -> None:
    await client.keys()
    async with quick(redis_url, namespace):
        await append(client, "s")
        await eventually(right(field, "s"))
        pipe = field.redis.pipeline()
        for feed in field.feeds:
            pipe.xgroup_destroy(feed, GROUP)
        await pipe.execute()
        await append(client, "s", 5)
        await eventually(right(field, "s"))


async def test_scripts_forgotten_and_connections_killed(
    own_server: Server, namespace: str, field: Field, client: Client
) -> None:
    await client.keys()
    async with quick(own_server.url, namespace):
        for round in range(5):
            await append(client, "s")
            await field.redis.script_flush()
            await field.redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await append(client, f"t{round}")
            await eventually(right(field, "s", f"t{round}"))


async def test_a_server_killed_and_started_again_with_what_it_had(
    launch: Callable[..., Server], namespace: str
) -> None:
    server = launch("--appendonly", "yes", "--appendfsync", "always")
    async with (
        Redis.from_url(server.url) as redis,
        connect(server.url, namespace=namespace, partitions=PARTITIONS) as client,
    ):
        field = Field(redis, namespace)
        await client.keys()
        async with quick(server.url, namespace):
            await append(client, "s")
            await eventually(right(field, "s"))
            await append(client, "s", 50)
            await asyncio.to_thread(server.restart)
            await redis.connection_pool.disconnect()
            await append(client, "s")
            await eventually(right(field, "s"), within=20)
            assert len(await field.log("s")) == 52


async def test_a_frozen_server_is_waited_for(
    own_server: Server, namespace: str, field: Field, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await client.keys()
    async with quick(own_server.url, namespace):
        await append(client, "s")
        await eventually(right(field, "s"))
        own_server.freeze()
        await eventually(lambda: "next try in" in caplog.text)
        own_server.thaw()
        await append(client, "s")
        await eventually(right(field, "s"))


async def test_a_full_server_is_drained_by_a_worker_that_comes_late(
    own_server: Server, namespace: str, field: Field, client: Client
) -> None:
    await client.keys()
    sessions = [f"s{n}" for n in range(10)]
    for session in sessions:
        await append(client, session, 3)
    await field.redis.config_set("maxmemory", "1")
    async with quick(own_server.url, namespace) as worker:
        await eventually(right(field, *sessions))
        await field.redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await eventually(lambda: field.redis.hexists(field.keys.workers, worker.name))
        await field.redis.config_set("maxmemory", "0")
        await append(client, "s0")
        await eventually(right(field, *sessions))
