"""The test ground itself: what the fixtures promise."""

import pytest
import redis as redis_py
import redis.asyncio as redis_asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from eventually import eventually
from servers import Server

ONCE = Retry(NoBackoff(), 0)


@pytest.mark.every_server
async def test_every_server_answers_under_its_own_name(server: Server, redis: redis_asyncio.Redis) -> None:
    info = await redis.info("server")
    kind = "valkey" if "valkey" in server.name else "redis"
    version = info["valkey_version"] if kind == "valkey" else info["redis_version"]
    assert info.get("server_name", "redis") == kind
    assert version.startswith(server.name.replace(":", " ").rpartition(" ")[2])


@pytest.mark.every_server
async def test_a_frozen_server_does_not_answer_and_goes_on_when_thawed(server: Server) -> None:
    async with redis_asyncio.Redis(host=server.host, port=server.port, socket_timeout=0.3, retry=ONCE) as client:
        await client.ping()
        server.freeze()
        with pytest.raises(redis_py.TimeoutError):
            await client.ping()
        server.thaw()
        assert await eventually(client.ping)  # pyright: ignore[reportUnknownArgumentType]  redis-py's kwargs have no type


async def test_an_own_server_comes_back_empty_on_the_same_port(own_server: Server, redis_url: str) -> None:
    assert redis_url == own_server.url
    async with redis_asyncio.Redis.from_url(redis_url) as before:
        await before.set("kept", "no")
    own_server.restart()
    async with redis_asyncio.Redis.from_url(redis_url) as after:
        assert await after.get("kept") is None
    assert "Ready to accept connections" in own_server.logs()
