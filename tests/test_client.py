"""The client: how a namespace is laid out once and for all, and what it says about where it is."""

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from eventually import eventually
from servers import Server
from todo_write.events import Keys
from todo_write.log import Client, LayoutMismatch, SessionLog, connect
from todo_write.settings import InvalidSetting, Settings


async def test_the_first_writer_stores_the_layout_for_life(redis: Redis, client: Client, namespace: str) -> None:
    await SessionLog(client, "s1").append("x", 1)
    assert await redis.hgetall(f"{namespace}:meta") == {b"layout": b"1", b"partitions": b"64"}


async def test_the_number_asked_for_at_birth_is_stored_and_then_used_by_all(
    redis: Redis, redis_url: str, namespace: str
) -> None:
    async with connect(redis_url, namespace=namespace, partitions=3) as first:
        assert (await first.keys()).partitions == 3
    async with connect(redis_url, namespace=namespace) as later:
        assert (await later.keys()).partitions == 3
    assert await redis.hget(f"{namespace}:meta", "partitions") == b"3"


async def test_another_number_is_refused_with_both_and_nothing_is_written(
    redis: Redis, redis_url: str, namespace: str
) -> None:
    async with connect(redis_url, namespace=namespace, partitions=3) as first:
        await first.keys()
    async with connect(redis_url, namespace=namespace, partitions=64) as later:
        for _ in range(2):
            with pytest.raises(LayoutMismatch, match=r"partitions is 3, TODO_PARTITIONS asks for 64"):
                await SessionLog(later, "s1").append("x", 1)
    assert await redis.keys(f"{namespace}:*") == [f"{namespace}:meta".encode()]
    assert await redis.hget(f"{namespace}:meta", "partitions") == b"3"


async def test_of_two_first_writers_who_ask_for_different_numbers_one_is_refused(
    redis: Redis, redis_url: str, namespace: str
) -> None:
    async with (
        connect(redis_url, namespace=namespace, partitions=3) as one,
        connect(redis_url, namespace=namespace, partitions=5) as two,
    ):
        answers = await asyncio.gather(one.keys(), two.keys(), return_exceptions=True)
    stored = int(await redis.hget(f"{namespace}:meta", "partitions") or 0)
    refused = [answer for answer in answers if isinstance(answer, LayoutMismatch)]
    assert len(refused) == 1
    assert [keys.partitions for keys in answers if isinstance(keys, Keys)] == [stored]


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        ({"layout": "2", "partitions": "64"}, "layout version is 2, this program knows 1"),
        ({"partitions": "64"}, "layout version is not stored"),
        ({"layout": "1"}, "number of partitions is not stored"),
        ({"layout": "1", "partitions": "many"}, "number of partitions is many"),
        ({"layout": "1", "partitions": "0"}, "number of partitions is 0"),
        ({"layout": "1", "partitions": "2000"}, "number of partitions is 2000"),
    ],
)
async def test_a_layout_nobody_knows_is_refused(
    redis: Redis, client: Client, namespace: str, meta: dict[str, str], why: str
) -> None:
    key = f"{namespace}:meta"
    for field, value in meta.items():
        await redis.hset(key, field, value)
    before = await redis.hgetall(key)
    with pytest.raises(LayoutMismatch, match=why):
        await client.keys()
    assert await redis.hgetall(key) == before


async def test_a_reader_of_an_empty_namespace_writes_nothing_and_does_not_hold_on_to_its_guess(
    redis: Redis, redis_url: str, client: Client, namespace: str
) -> None:
    assert (await client.keys(create=False)).partitions == 64
    assert await redis.exists(f"{namespace}:meta") == 0
    async with connect(redis_url, namespace=namespace, partitions=3) as writer:
        await writer.keys()
    assert (await client.keys(create=False)).partitions == 3


async def test_the_layout_is_read_once(redis: Redis, client: Client, namespace: str) -> None:
    await client.keys()
    await redis.delete(f"{namespace}:meta")
    assert (await client.keys()).partitions == 64


async def test_what_is_asked_is_answered_in_bytes_as_the_server_says_it(client: Client) -> None:
    assert await client.ask("HMGET", "nothing", "a") == [None]
    assert await client.redis.get("nothing") is None
    assert await client.redis.config_get("maxmemory")  # redis-py sends a name of two words


async def test_the_address_shows_no_password() -> None:
    assert connect("redis://me:geheim@example.org:7000/3").address == "example.org:7000/3"
    assert connect("redis://").address == "localhost:6379/0"
    assert connect("unix:///run/redis.sock?db=2").address == "/run/redis.sock/2"


async def test_frames_are_published_the_way_the_server_is_set_up(client: Client, launch: Any) -> None:
    assert await client.publish_command() == "PUBLISH"
    cluster: Server = launch("--cluster-enabled", "yes")
    async with connect(cluster.url) as clustered:
        assert await clustered.publish_command() == "SPUBLISH"


async def test_settings_are_taken_as_they_are_and_bad_ones_refused(redis_url: str) -> None:
    async with connect(Settings(redis_url=redis_url, namespace="n", append_budget_ms=7)) as client:
        assert (client.settings.namespace, client.settings.append_budget_ms) == ("n", 7)
    with pytest.raises(InvalidSetting, match="TODO_NAMESPACE is 'Ü'"):
        connect(redis_url, namespace="Ü")


async def test_a_closed_client_leaves_no_connection_behind(redis: Redis, redis_url: str) -> None:
    before = len(await redis.client_list())
    async with connect(redis_url) as client:
        await client.ask("PING")
        await client.redis.get("nothing")
        assert len(await redis.client_list()) > before

    async def as_before() -> bool:
        return len(await redis.client_list()) == before

    await eventually(as_before)  # the server notices in its own time
