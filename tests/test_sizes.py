"""Sizes: what must not grow with a log, with restarts or with viewers. CI runs a part; the whole sizes by hand:

    TODO_SIZE_EVENTS=500000 TODO_SIZE_RESTARTS=1000 TODO_SIZE_LOG_MB=100 pytest tests/test_sizes.py \
        tests/test_worker.py::test_starts_leave_no_consumers_behind \
        tests/test_rebuild.py::test_a_long_log_is_folded_again_in_bounded_memory --timeout 1800
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from eventually import eventually
from field import PARTITIONS, Field, append
from repairs import Yard
from running import Running, operator, running
from servers import Server
from stepping import TodosAt
from todo_projection.board import board
from todo_write.log import Client, connect
from workshop import Ear

EVENTS = int(os.environ.get("TODO_SIZE_EVENTS", "10000"))
WARM = 5_000
VIEWERS = 1000
GROWTH_KB_MAX = 16 * 1024
EPOCH = 1764517000000


@pytest.fixture
def field(redis: Redis, namespace: str) -> Field:
    return Field(redis, namespace)


@pytest.fixture
async def client(redis_url: str, namespace: str) -> AsyncIterator[Client]:
    async with connect(redis_url, namespace=namespace, partitions=PARTITIONS) as client:
        yield client


async def talk(field: Field, session: str, first: int, count: int) -> None:
    """Append events that no unit handles, as quickly as the server takes them."""
    log, feed = field.keys.log(session), field.keys.feed(field.keys.partition(session))
    for start in range(first, first + count, 5000):
        pipe: Any = field.redis.pipeline(transaction=False)
        for seq in range(start, min(start + 5000, first + count)):
            id = f"{EPOCH}-{seq}"
            pipe.xadd(log, {"type": "assistant/chunk", "time": "1", "op": "o", "data": '{"text":"…"}'}, id=id)
            pipe.xadd(feed, {"s": session, "i": id, "o": "o", "t": "assistant/chunk"})
        await pipe.execute()


async def reached(field: Field, session: str, seq: int) -> bool:
    return bool(await field.redis.hget(field.keys.row(session), "pos") == b"%d-%d" % (EPOCH, seq))


def peak_kb(process: Running) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


async def calls(field: Field, command: str) -> int:
    found = (await field.redis.info("commandstats")).get(f"cmdstat_{command}", {"calls": 0})
    return int(found["calls"])


@pytest.mark.timeout(1800)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read the way Linux tells it")
async def test_events_no_unit_handles_half_a_million_of_them_move_the_position_and_nothing_else(
    own_server: Server, namespace: str, field: Field, client: Client
) -> None:
    await client.keys()
    command = operator(own_server.url, namespace, TODO_AUDIT_RATE="0")
    async with running(command, "worker") as one:
        await talk(field, "s", 0, WARM)
        await eventually(lambda: reached(field, "s", WARM - 1), within=60)
        warm_kb = peak_kb(one)
        await talk(field, "s", WARM, EVENTS)
        await eventually(lambda: reached(field, "s", WARM + EVENTS - 1), within=600)
        assert peak_kb(one) - warm_kb < GROWTH_KB_MAX
    await field.redis.config_resetstat()
    async with running(command, "worker"):
        await append(client, "s", data={"todos": []})
        await eventually(lambda: reached(field, "s", WARM + EVENTS), within=60)
        read = await calls(field, "xrange")
        assert read <= 20, "of the log only the new event is read"
    assert (await field.row("s"))["todos"] == "[]"


async def test_a_version_that_rises_under_a_thousand_viewers_tells_each_at_most_once_and_nothing_old(
    yard: Yard, redis: Redis
) -> None:
    sessions = [f"s{number}" for number in range(VIEWERS)]
    pipe: Any = yard.redis.pipeline(transaction=False)
    for session in sessions:
        for seq in range(3):
            data = f'{{"todos":[{{"content":"plan {seq}","status":"pending"}}]}}'
            id = f"{EPOCH}-{seq}"
            pipe.xadd(yard.keys.log(session), {"type": "todo/write", "time": "1", "op": "o", "data": data}, id=id)
            pipe.xadd(yard.keys.feed(0), {"s": session, "i": id, "o": "o", "t": "todo/write"})
    await pipe.execute()
    await yard.work()
    async with Ear(redis, yard.keys, *sessions) as ear:
        for session in sessions:
            pointer = {"s": session, "i": f"{EPOCH}-2", "o": "o", "t": "todo/write"}
            pipe.xadd(yard.keys.feed(0), pointer)
        await pipe.execute()
        await yard.work(yard.projector([board, TodosAt(3, upper=True)]))
        heard = await ear.heard()
    assert sorted(frame["sessionId"] for frame in heard) == sorted(sessions)
    assert {frame["value"][0]["content"] for frame in heard} == {"PLAN 2"}
