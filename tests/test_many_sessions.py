"""Many sessions at once: one that is poison, many committed together, and workers that do not agree on units."""

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from eventually import eventually
from field import COMMIT, PARTITIONS, PLAN, Field, append, quick, right, worker
from proxy import Proxy
from repairs import Tally
from running import operator, running
from servers import Server
from todo_projection.unit import mounted_units
from todo_write.log import Client, connect

MANY = 10_000
POISON = '{"todos":[{"content":"","status":"pending"}]}'
SOUND = '{"todos":[{"content":"a","status":"pending"}]}'
EPOCH = 1764517000000


@pytest.fixture
def field(redis: Redis, namespace: str) -> Field:
    return Field(redis, namespace)


@pytest.fixture
async def client(redis_url: str, namespace: str) -> AsyncIterator[Client]:
    async with connect(redis_url, namespace=namespace, partitions=PARTITIONS) as client:
        yield client


async def test_poison_in_one_of_ten_thousand_sessions_leaves_the_others_alone(
    own_server: Server, namespace: str, field: Field, client: Client
) -> None:
    keys = await client.keys()
    pipe: Any = field.redis.pipeline(transaction=False)
    for number in range(MANY):
        session, data = f"s{number}", POISON if number == MANY // 2 else SOUND
        fields = {"type": "todo/write", "time": "1", "op": "o", "data": data}
        pipe.xadd(keys.log(session), fields, id=f"{EPOCH}-0")
        pointer = {"s": session, "i": f"{EPOCH}-0", "o": "o", "t": "todo/write"}
        pipe.xadd(keys.feed(keys.partition(session)), pointer)
    await pipe.execute()
    async with quick(own_server.url, namespace, block_ms=1000):
        await eventually(field.drained, within=60)
    for number in range(MANY):
        pipe.hmget(keys.row(f"s{number}"), "pos", "todos", "todos.stale")
    rows = await pipe.execute()
    (poisoned,) = [number for number, row in enumerate(rows) if row[2] is not None]
    assert poisoned == MANY // 2
    assert {tuple(row) for number, row in enumerate(rows) if number != poisoned} == {
        (b"%d-0" % EPOCH, SOUND[len('{"todos":') : -1].encode(), None)
    }
    assert rows[poisoned][:2] == [b"%d-0" % EPOCH, b"null"]


async def test_after_a_commit_of_many_sessions_and_a_kill_each_position_is_that_of_its_value(
    own_server: Server, namespace: str, field: Field, client: Client, proxy: Proxy
) -> None:
    await client.keys()
    sessions = [f"s{number}" for number in range(200)]
    for session in sessions:
        await append(client, session, 2)
    proxy.hold_reply(COMMIT)
    async with running(operator(proxy.url, namespace, TODO_BEAT_MS="100", TODO_AUDIT_RATE="0"), "worker") as one:
        await eventually(lambda: field.redis.exists(field.keys.row("s0")), within=30)
        one.send(signal.SIGKILL)
        await one.ended()
    rows = [await field.row(session) for session in sessions]
    assert any(rows)
    await field.assert_right(sessions, up_to_date=False)
    async with quick(own_server.url, namespace, claim_idle_ms=100):
        await eventually(right(field, *sessions), within=20)


async def test_an_append_between_the_last_read_and_its_acknowledgement_is_projected(
    namespace: str, field: Field, client: Client, proxy: Proxy
) -> None:
    await client.keys()
    held = proxy.hold_request(COMMIT)
    async with quick(proxy.url, namespace):
        await append(client, "s")
        await asyncio.wait_for(held.hit.wait(), 10)
        await append(client, "s", data={"todos": []})
        held.release()
        await eventually(right(field, "s"))
        assert len(await field.log("s")) == 2


async def test_a_unit_mounted_on_half_of_the_workers_is_in_every_row_and_the_others_stand_by(
    redis_url: str, namespace: str, field: Field, client: Client
) -> None:
    keys = await client.keys()
    sessions = [f"s{number}" for number in range(40)]
    few, more = list(mounted_units()), [*mounted_units(), Tally()]
    workers = [worker(redis_url, namespace, units) for units in (few, few, more, more)]
    tasks = [asyncio.create_task(one.run()) for one in workers]
    try:
        for number in range(3):
            for session in sessions:
                await append(client, session, data=PLAN if number % 2 else {"todos": []})
        for session in sessions:
            await eventually(lambda session=session: counted(field, session, 3), within=30)  # type: ignore[misc]
        beats = await field.redis.hgetall(keys.workers)
        assert len(beats) == 4
    finally:
        for one in workers:
            one.stop()
        await asyncio.gather(*tasks)


async def counted(field: Field, session: str, count: int) -> bool:
    row = await field.row(session)
    return (row.get("tally"), row.get("units")) == (str(count), "board:1,tally:1,todos:2")


async def test_a_mark_that_can_not_be_written_keeps_the_position_where_it_is(
    redis_url: str, namespace: str, field: Field, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    keys = await client.keys()
    partition = keys.partition("s")
    async with quick(redis_url, namespace, claim_idle_ms=200):
        await append(client, "s")
        await eventually(right(field, "s"))
        before = await field.row("s")
        await field.redis.set(keys.stale(partition), "mine")
        id = f"{before['pos'].partition('-')[0]}-1"
        fields = {"type": "todo/write", "time": "1", "op": "o", "data": POISON}
        await field.redis.xadd(keys.log("s"), fields, id=id)
        await field.redis.xadd(keys.feed(partition), {"s": "s", "i": id, "o": "o", "t": "todo/write"})
        await eventually(lambda: f"partition {partition} waits" in caplog.text)
        assert await field.row("s") == before
        await field.redis.delete(keys.stale(partition))
        await eventually(right(field, "s"))
        assert await field.redis.hexists(keys.stale(partition), "s")
