"""examples/append.ts, run by Node: the same protocol from another language, beside our own writer."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial

import pytest
from redis.asyncio import Redis

from append_vectors import FOLDER, VECTORS
from eventually import eventually
from proxy import Proxy
from servers import Server
from stored import Stored
from todo_write.log import Client, SessionLog
from typescript import Driver, build

EVENTS = 120
FREEZES = 2
FROZEN_S = 1.3  # longer than a try of either writer, shorter than its budget


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    build()


@pytest.fixture
async def driver(redis_url: str, namespace: str) -> AsyncIterator[Driver]:
    async with Driver(redis_url, namespace) as driver:
        yield driver


@pytest.fixture
def stored(redis: Redis, namespace: str) -> Stored:
    return Stored(redis, namespace, "s1")


@pytest.mark.every_server
async def test_every_vector_is_answered_and_stored_as_it_says(redis: Redis, namespace: str, driver: Driver) -> None:
    for vector in (vector.within(namespace) for vector in VECTORS):
        await vector.prepare(redis)
        answer = await driver.ask(keys=vector.keys, argv=vector.argv)
        vector.check_answer(answer.get("reply") or answer["error"])
        await vector.check_what_stands(redis, namespace)
        await redis.delete(*vector.keys)


async def test_every_session_of_the_recorded_ones_has_the_recorded_keys(driver: Driver) -> None:
    for line in (FOLDER / "keys.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        answer = await driver.ask(keysOf=row["session"], partitions=row["partitions"])
        assert answer == {"slot": row["slot"], "keys": [row["log"], row["feed"], row["row"]]}


async def test_events_are_appended_together_and_read_back_by_us(driver: Driver, client: Client) -> None:
    todos = {"todos": [{"content": "計画 🎯", "status": "in_progress"}]}
    positions = await driver.append("s1", ("turn/start", {"turn": 1}), ("todo/write", todos))
    entries = [entry async for entry in SessionLog(client, "s1").events()]
    assert [str(entry.position) for entry in entries] == positions
    assert [entry.event.type for entry in entries] == ["turn/start", "todo/write"]
    assert json.loads(bytes(entries[1].event.data)) == todos
    assert entries[0].op == entries[1].op


async def test_the_number_of_partitions_is_the_stored_one(redis_url: str, redis: Redis, namespace: str) -> None:
    await redis.hset(f"{namespace}:meta", mapping={"layout": 1, "partitions": 16})
    async with Driver(redis_url, namespace) as driver:
        await driver.append("s1", ("x", 0))
    assert await Stored(redis, namespace, "s1", partitions=16).contents() == [0]


async def test_another_writers_events_stay_where_they_are(driver: Driver, client: Client, stored: Stored) -> None:
    log = SessionLog(client, "s1")
    await log.append("x", "ours")  # before the other looked
    await driver.append("s1", ("x", "theirs"), ("x", "theirs, too"))
    await log.append("x", "ours, behind it")  # each keeps its own place, so both are told to move
    await driver.append("s1", ("x", "last"))
    assert await stored.contents() == ["ours", "theirs", "theirs, too", "ours, behind it", "last"]


@pytest.mark.parametrize("lost", ["the request", "the reply"])
async def test_a_call_that_gets_no_answer_is_stored_once(
    proxy: Proxy, namespace: str, stored: Stored, lost: str
) -> None:
    async with Driver(proxy.url, namespace) as driver:
        await driver.append("s1", ("x", 0))
        fault = proxy.lose_request(b"evalsha") if lost == "the request" else proxy.lose_reply(b"evalsha")
        await driver.append("s1", ("x", 1), ("x", 2))
        assert fault.hit.is_set()
        await driver.append("s1", ("x", 3))
    assert await stored.contents() == [0, 1, 2, 3]


async def test_lost_events_are_told_once(driver: Driver, redis: Redis, stored: Stored) -> None:
    await driver.append("s1", ("x", 0))
    await redis.delete(stored.log, stored.feed)
    answer = await driver.ask(session="s1", events=[("x", 1)])
    assert answer == {"error": "not saved: rewound, the log ends with nothing"}
    assert await driver.append("s1", ("x", 2)) == await stored.ids()
    assert await stored.contents() == [2]


async def test_a_refusal_that_stays_is_told_at_once(driver: Driver, redis: Redis, stored: Stored) -> None:
    await redis.set(stored.feed, "mine")
    answer = await driver.ask(session="s1", events=[("x", 0)])
    assert answer["error"].startswith(f"not saved: WRONGTYPE {stored.feed} is a string, not a stream")
    assert await stored.entries() == []


async def test_a_refusal_that_passes_is_waited_for(
    own_server: Server, driver: Driver, redis: Redis, stored: Stored
) -> None:
    await driver.append("s1", ("x", 0))
    await redis.config_set("maxmemory", "1")
    driver.send(session="s1", events=[("x", 1)])
    await eventually(lambda: _refused(redis))
    await redis.config_set("maxmemory", "0")
    assert "positions" in await driver.receive()
    assert await stored.contents() == [0, 1]


async def test_two_languages_write_one_session_on_a_server_that_freezes(
    own_server: Server, driver: Driver, client: Client, stored: Stored
) -> None:
    log = SessionLog(client, "s1")
    ours: list[str] = []

    async def write_ours() -> None:
        while len(ours) < EVENTS:
            ours.append(str(await log.append("x", {"by": "python", "n": len(ours)})))

    async def write_theirs() -> list[str]:
        for n in range(EVENTS):
            driver.send(session="s1", events=[("x", {"by": "node", "n": n})])
        return [(await driver.receive())["positions"][0] for _ in range(EVENTS)]

    async def freeze_now_and_then() -> None:
        for done in range(EVENTS // (FREEZES + 1), EVENTS, EVENTS // (FREEZES + 1)):
            await eventually(partial(_reached, ours, done), within=20)
            own_server.freeze()
            await asyncio.sleep(FROZEN_S)  # the time is what the test is about
            own_server.thaw()

    _, theirs, _ = await asyncio.gather(write_ours(), write_theirs(), freeze_now_and_then())
    contents = await stored.contents()
    ids = await stored.ids()
    for name, told in (("python", ours), ("node", theirs)):
        assert [content["n"] for content in contents if content["by"] == name] == list(range(EVENTS))
        assert [id for id, content in zip(ids, contents, strict=True) if content["by"] == name] == told
    assert len(contents) == 2 * EVENTS


def _reached(positions: list[str], count: int) -> bool:
    return len(positions) >= count


async def _refused(redis: Redis) -> bool:
    stats = await redis.info("errorstats")
    return "errorstat_OOM" in stats
