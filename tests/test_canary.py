"""The canary: it is heard, nobody sees it, and a gateway says when delivery is dead though all else looks well."""

import json
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from command import Command
from eventually import eventually
from projecting import projected, working
from running import running
from scraped import Scraped
from servers import Server
from serving import plan, serving
from sse import Http
from todo_write.canary import EVENTS_MAX, sing
from todo_write.events import CANARY, TODO_WRITE
from todo_write.log import Client, SessionLog, connect

ALIVE = "todo_gateway_delivery_alive"
AGE = "todo_gateway_canary_age_seconds"


@pytest.fixture
async def http(redis_url: str, namespace: str) -> AsyncIterator[Http]:
    async with serving(redis_url, namespace) as http:
        yield http


async def scraped(http: Http) -> Scraped:
    return Scraped((await http.get("/metrics")).body.decode())


async def singing_until(client: Client, http: Http, alive: float | None) -> None:
    """Have the canary sing until the gateway says this of delivery."""

    async def sung() -> bool:
        await sing(client)
        return (await scraped(http)).value(ALIVE) == alive

    await eventually(sung, within=30)


async def test_a_canary_that_is_heard_says_that_delivery_lives(
    http: Http, redis_url: str, namespace: str, client: Client
) -> None:
    never = await scraped(http)
    assert (never.value(ALIVE), never.value(AGE)) == (None, None)
    async with working(redis_url, namespace):
        await singing_until(client, http, 1)
        found = await scraped(http)
        assert (found.value("todo_gateway_canary_seconds_count") or 0) >= 1
        assert -1 < (found.value(AGE) or 0) < 30
        assert found.value("todo_gateway_canary_seconds_bucket", le="10.0") == found.value(
            "todo_gateway_canary_seconds_count"
        )


async def test_delivery_is_dead_while_no_worker_works_and_lives_again_with_one(
    http: Http, redis_url: str, namespace: str, client: Client
) -> None:
    async with working(redis_url, namespace):
        await singing_until(client, http, 1)
    await singing_until(client, http, 0)
    assert (await http.get("/readyz")).status == 200
    async with working(redis_url, namespace):
        await singing_until(client, http, 1)


async def test_delivery_is_dead_while_frames_are_refused_though_rows_are_right(
    own_server: Server, redis_url: str, namespace: str, redis: Redis, client: Client
) -> None:
    redis_any: Any = redis
    await redis_any.execute_command("ACL", "SETUSER", "mute", "on", "nopass", "~*", "+@all", "resetchannels")
    mute = redis_url.replace("redis://", "redis://mute:x@")
    async with serving(redis_url, namespace) as http, working(mute, namespace):
        await singing_until(client, http, 0)
        await projected(redis, await client.keys(), CANARY, await sing(client))
        await redis_any.execute_command("ACL", "SETUSER", "mute", "allchannels")
        await singing_until(client, http, 1)


async def test_how_long_it_has_been_silent_is_known_to_a_gateway_that_never_heard_it_and_not_while_redis_is_away(
    own_server: Server, redis_url: str, namespace: str, client: Client
) -> None:
    async def age(http: Http) -> float | None:
        return (await scraped(http)).value(AGE)

    async def unknown(http: Http) -> bool:
        return await age(http) is None

    await sing(client)
    async with serving(redis_url, namespace) as http:
        await eventually(lambda: age(http), within=30)
        assert (await scraped(http)).value(ALIVE) is None
        own_server.freeze()
        await eventually(lambda: unknown(http), within=60)
        own_server.thaw()
        await eventually(lambda: age(http), within=30)


async def test_the_canary_is_in_no_list_and_no_index(
    http: Http, redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    keys = await client.keys()
    async with working(redis_url, namespace):
        await projected(redis, keys, CANARY, await sing(client))
        await projected(redis, keys, "s1", await SessionLog(client, "s1").append(TODO_WRITE, plan("a")))
        listed = (await http.get("/api/sessions")).json
        assert [entry["sessionId"] for entry in listed["sessions"]] == ["s1"]
        assert sum(listed["counts"].values()) == 1
        asked = await Command("todo-projection", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)(
            "sessions", "--json"
        )
        assert [entry["sessionId"] for entry in json.loads(asked.out)["sessions"]] == ["s1"]
        shown = (await http.get(f"/api/sessions/{CANARY}")).json
        assert shown["projections"]["values"]["todos"] == [{"content": "canary", "status": "pending"}]


async def test_its_log_begins_anew_before_it_grows(client: Client) -> None:
    log = SessionLog(client, CANARY)
    nothing: dict[str, list[str]] = {"todos": []}
    await log.append_all([(TODO_WRITE, nothing)] * EVENTS_MAX)
    assert (await sing(client)).seq == 0
    assert (await sing(client)).seq == 1


async def test_its_time_is_the_servers(client: Client, redis: Redis) -> None:
    before = (await redis.time())[0]
    await sing(client)
    entry = await anext(aiter(SessionLog(client, CANARY).events()))
    assert before * 1000 <= entry.event.time <= ((await redis.time())[0] + 1) * 1000


async def test_the_command_sings_once_or_until_it_is_told_to_end(
    redis_url: str, namespace: str, client: Client
) -> None:
    command = Command("todo-write", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)
    once = await command("canary")
    assert (once.code, once.out.strip().endswith("-0")) == (0, True)
    async with running(command, "canary", "--every", "0.1") as process:
        log = SessionLog(client, CANARY)

        async def sung() -> bool:
            tail = await log.tail()
            return tail is not None and tail.seq >= 3

        await eventually(sung, within=30)
        process.send(signal.SIGTERM)
        assert await process.ended() == 0
    assert process.err == ""


async def test_one_that_can_not_sing_says_so_and_goes_on(own_server: Server, redis_url: str, namespace: str) -> None:
    command = Command("todo-write", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)
    async with (
        running(command, "canary", "--every", "0.1") as process,
        connect(redis_url, namespace=namespace) as client,
    ):
        await eventually(lambda: SessionLog(client, CANARY).tail(), within=30)
        own_server.kill()
        await process.says("the canary is not heard")
        own_server.restart()
        await eventually(lambda: SessionLog(client, CANARY).tail(), within=30)
