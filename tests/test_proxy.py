"""The proxy: exactly what a test names is lost, held or cut, and nothing else."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis.asyncio as redis_asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from eventually import eventually
from proxy import Proxy


@pytest.fixture
async def behind(proxy: Proxy) -> AsyncIterator[redis_asyncio.Redis]:
    """A client that reaches the server only through the proxy, and repeats nothing."""
    once = Retry(NoBackoff(), 0)
    async with redis_asyncio.Redis(host=proxy.host, port=proxy.port, socket_timeout=0.3, retry=once) as client:
        yield client


async def test_everything_passes(behind: redis_asyncio.Redis, namespace: str) -> None:
    large = b"\x00\r\n*3" * 200_000
    await behind.set(f"{namespace}:large", large)
    assert await behind.get(f"{namespace}:large") == large
    async with behind.pipeline(transaction=False) as pipeline:
        for _ in range(2000):
            pipeline.incr(f"{namespace}:n")
        assert await pipeline.execute() == list(range(1, 2001))


async def test_a_lost_reply_was_done_by_the_server(
    proxy: Proxy, behind: redis_asyncio.Redis, redis: redis_asyncio.Redis, namespace: str
) -> None:
    key = f"{namespace}:n"
    fault = proxy.lose_reply(b"INCR", nth=2)
    assert await behind.incr(key) == 1
    assert not fault.hit.is_set()
    with pytest.raises(RedisTimeoutError):
        await behind.incr(key)
    assert fault.hit.is_set()
    assert await redis.get(key) == b"2"
    assert await behind.incr(key) == 3


async def test_a_lost_request_was_not(
    proxy: Proxy, behind: redis_asyncio.Redis, redis: redis_asyncio.Redis, namespace: str
) -> None:
    key = f"{namespace}:n"
    fault = proxy.lose_request(b"INCR", nth=2)
    await behind.incr(key)
    await behind.get(key)  # not counted
    with pytest.raises(RedisTimeoutError):
        await behind.incr(key)
    assert fault.hit.is_set()
    assert await redis.get(key) == b"1"
    assert await behind.incr(key) == 2


async def test_cut_after_the_server_did_it(
    proxy: Proxy, behind: redis_asyncio.Redis, redis: redis_asyncio.Redis, namespace: str
) -> None:
    proxy.cut_after(b"INCR")
    with pytest.raises(RedisConnectionError):
        await behind.incr(f"{namespace}:n")
    assert await redis.get(f"{namespace}:n") == b"1"
    assert await behind.incr(f"{namespace}:n") == 2


async def test_cut_before_the_server_got_it(
    proxy: Proxy, behind: redis_asyncio.Redis, redis: redis_asyncio.Redis, namespace: str
) -> None:
    proxy.cut_before(b"INCR")
    with pytest.raises(RedisConnectionError):
        await behind.incr(f"{namespace}:n")
    assert await redis.get(f"{namespace}:n") is None
    assert await behind.incr(f"{namespace}:n") == 1


async def test_a_held_request_arrives_after_its_client_gave_up(
    proxy: Proxy, behind: redis_asyncio.Redis, redis: redis_asyncio.Redis, namespace: str
) -> None:
    key = f"{namespace}:list"
    fault = proxy.hold_request(b"late")
    with pytest.raises(RedisTimeoutError):
        await behind.rpush(key, "late")
    await behind.rpush(key, "early")
    fault.release()

    async def both() -> bool:
        return await redis.lrange(key, 0, -1) == [b"early", b"late"]

    assert await eventually(both)


async def test_a_held_reply_comes_when_released(
    proxy: Proxy, behind: redis_asyncio.Redis, redis: redis_asyncio.Redis, namespace: str
) -> None:
    proxy.hold_reply(b"INCR", delay_s=0.1)
    assert await behind.incr(f"{namespace}:n") == 1
    fault = proxy.hold_reply(b"INCR")
    with pytest.raises(RedisTimeoutError):
        await behind.incr(f"{namespace}:n")
    assert fault.hit.is_set()
    assert await redis.get(f"{namespace}:n") == b"2"


async def test_silence_keeps_connections_and_loses_nothing(
    proxy: Proxy, behind: redis_asyncio.Redis, redis: redis_asyncio.Redis, namespace: str
) -> None:
    await behind.incr(f"{namespace}:n")
    proxy.silence()
    with pytest.raises(RedisTimeoutError):
        await behind.incr(f"{namespace}:n")
    assert await redis.get(f"{namespace}:n") == b"1"
    proxy.resume()

    async def two() -> bool:
        return await redis.get(f"{namespace}:n") == b"2"

    assert await eventually(two)


async def test_a_reply_on_its_way_is_silenced_too(proxy: Proxy, redis: redis_asyncio.Redis, namespace: str) -> None:
    async with redis_asyncio.Redis.from_url(proxy.url) as behind:

        async def pop() -> object:
            return await behind.blpop([f"{namespace}:list"])

        async def waits() -> bool:
            return any(client["cmd"] == "blpop" for client in await redis.client_list())

        popped = asyncio.create_task(pop())
        await eventually(waits)
        proxy.silence()
        await redis.rpush(f"{namespace}:list", "x")
        await asyncio.wait({popped}, timeout=0.1)  # a time: there is no sign of what must not come
        assert not popped.done()
        proxy.resume()
        assert await popped == (f"{namespace}:list".encode(), b"x")


async def test_what_a_client_sent_before_it_went_away_is_still_done(
    proxy: Proxy, redis: redis_asyncio.Redis, namespace: str
) -> None:
    key = f"{namespace}:list"
    _, writer = await asyncio.open_connection(proxy.host, proxy.port)
    writer.write(
        b"*3\r\n$5\r\nRPUSH\r\n$%d\r\n%b\r\n$100000\r\n%b\r\n" % (len(key), key.encode(), b"x" * 100_000) * 100
    )
    writer.write_eof()

    async def all_of_them() -> bool:
        return await redis.llen(key) == 100

    assert await eventually(all_of_them)
    writer.transport.abort()


async def test_cut_connections_are_opened_anew(proxy: Proxy, behind: redis_asyncio.Redis) -> None:
    await behind.ping()
    proxy.cut()
    with pytest.raises(RedisConnectionError):
        await behind.ping()
    assert await behind.ping()


async def test_refused_until_accepted_again(proxy: Proxy, behind: redis_asyncio.Redis) -> None:
    await behind.ping()
    proxy.refuse()
    with pytest.raises(RedisConnectionError):
        await behind.ping()
    with pytest.raises(RedisConnectionError, match=r"refused|Connect call failed"):
        await behind.ping()
    await proxy.accept()
    assert await behind.ping()
