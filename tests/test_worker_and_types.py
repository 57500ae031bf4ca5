"""A partition with a key of another type waits, and its events with it; the other partitions go on."""

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from eventually import eventually
from field import PARTITIONS, Field, append, quick, right
from todo_write.log import Client, connect

KINDS = ["feed", "recent", "working", "stale"]


@pytest.fixture
def field(redis: Redis, namespace: str) -> Field:
    return Field(redis, namespace)


@pytest.fixture
async def client(redis_url: str, namespace: str) -> AsyncIterator[Client]:
    async with connect(redis_url, namespace=namespace, partitions=PARTITIONS) as client:
        yield client


def session_in(field: Field, partition: int) -> str:
    return next(f"s{n}" for n in range(1000) if field.keys.partition(f"s{n}") == partition)


async def is_right(field: Field, session: str) -> bool:
    await field.assert_right([session])
    return True


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before the worker starts", "while it works"])
async def test_a_partition_with_a_key_of_another_type_waits_and_the_others_go_on(
    redis_url: str, namespace: str, field: Field, client: Client, caplog: pytest.LogCaptureFixture, kind: str, when: str
) -> None:
    await client.keys()
    stuck, free = session_in(field, 1), session_in(field, 2)
    key = getattr(field.keys, kind)(1)
    if when == "before the worker starts":
        await field.redis.set(key, "mine")
    async with quick(redis_url, namespace, claim_idle_ms=200):
        if when == "while it works":
            await append(client, stuck)
            await append(client, free)
            await eventually(right(field, stuck, free))
            await field.redis.delete(key)
            await field.redis.set(key, "mine")
        before = await field.row(stuck)
        if kind != "feed":
            await append(client, stuck, 3)
        for _ in range(5):
            await append(client, free)
            await eventually(lambda: is_right(field, free))
        await eventually(lambda: "partition 1 waits, the others go on: WRONGTYPE" in caplog.text)
        assert key in caplog.text
        assert await field.row(stuck) == before, "the position stays where it was"
        assert caplog.text.count("partition 1 waits") == 1
        assert caplog.text.count("next try in") <= 5
        await field.redis.delete(key)
        await append(client, stuck)
        await eventually(right(field, stuck, free))
