"""The demo: what its agents write, that a seed decides it, how it waits and how it ends."""

import asyncio
import json
import signal
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from command import Command
from eventually import eventually
from proxy import Proxy
from todo_write.events import Event, check_sound
from todo_write.plans import ERRANDS, PLANS

Log = list[tuple[str, Any]]
Logs = dict[str, Log]

SEED = "109"  # by which some agents send errands, and some are interrupted


@pytest.fixture
def todo_write(redis_url: str, namespace: str) -> Command:
    return Command("todo-write", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)


async def read_logs(redis: Redis, namespace: str) -> Logs:
    """What every session of the namespace holds."""
    raw: Any = redis  # redis-py types its answers for str and bytes alike
    logs: Logs = {}
    async for key in raw.scan_iter(f"{namespace}:*:log:*"):
        session = key.decode().split(":log:")[1]
        logs[session] = [(fields[b"type"].decode(), json.loads(fields[b"data"])) for _, fields in await raw.xrange(key)]
    return logs


def ends(logs: Logs) -> Iterator[str]:
    for log in logs.values():
        assert log[-1][0] == "turn/end"
        yield log[-1][1]["reason"]["kind"]


def writes(log: Log) -> list[dict[str, str]]:
    return [{todo["content"]: todo["status"] for todo in data["todos"]} for type, data in log if type == "todo/write"]


async def test_once_is_one_plan_for_each_agent(todo_write: Command, redis: Redis, namespace: str) -> None:
    done = await todo_write("demo", "--once", "--speed", "1000", "--seed", SEED, "--sessions", "12")
    assert (done.code, done.err) == (0, "")
    logs = await read_logs(redis, namespace)
    agents = {f"demo-{SEED}-{number:02}" for number in range(1, 13)}
    children = logs.keys() - agents
    assert agents <= logs.keys()
    assert children
    assert all(session.rpartition("/")[0] in agents for session in children)
    assert set(ends(logs)) == {"completed", "interrupted"}
    for session, log in logs.items():
        types = [type for type, _ in log]
        assert types[:3] == ["session/start", "session/title", "turn/start"]
        assert "assistant/message" in types or session in children
        assert set(types[3:-1]) <= {"todo/write", "assistant/message"}
        for seq, (type, data) in enumerate(log):
            check_sound(Event(type, seq, 0, msgspec.Raw(msgspec.json.encode(data))))
        assert set(map(tuple, writes(log))) == {plan_of(log)}
        assert log[0][1]["label"]
        assert log[0][1].get("parentSession") == (session.rpartition("/")[0] if session in children else None)


def plan_of(log: Log) -> tuple[str, ...]:
    plans = [*PLANS, *(plan for _, plan in ERRANDS)]
    (steps,) = [plan.steps for plan in plans if plan.title == log[1][1]["title"]]
    return steps


async def test_a_plan_moves_forward_only_and_is_done_at_the_end(
    todo_write: Command, redis: Redis, namespace: str
) -> None:
    await todo_write("demo", "--once", "--speed", "1000", "--seed", SEED)
    order = ["pending", "in_progress", "completed"]
    overlaps = 0
    for log in (await read_logs(redis, namespace)).values():
        found = writes(log)
        for before, after in pairwise(found):
            assert all(order.index(before[content]) <= order.index(after[content]) for content in after)
        assert next(iter(found[0].values())) == "in_progress"
        if log[-1][1]["reason"]["kind"] == "completed":
            assert set(found[-1].values()) == {"completed"}
        overlaps += sum(list(each.values()).count("in_progress") > 1 for each in found)
    assert overlaps  # several at once is what the default mode of the board must show


async def test_a_seed_decides_what_happens(todo_write: Command, redis: Redis, namespace: str) -> None:
    plot = ("demo", "--once", "--speed", "1000", "--sessions", "3")
    await todo_write(*plot, "--seed", "3")
    first = await read_logs(redis, namespace)
    raw: Any = redis
    await raw.delete(*[key async for key in raw.scan_iter(f"{namespace}:*")])
    await todo_write(*plot, "--seed", "3")
    again = await read_logs(redis, namespace)
    assert first == again != {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_with_0_every_turn_ended_and_nothing_deleted(
    todo_write: Command, redis: Redis, namespace: str, number: signal.Signals
) -> None:
    async def working() -> bool:
        logs = await read_logs(redis, namespace)
        return len(logs) >= 12 and all(writes(log) for log in logs.values())

    async with todo_write.started("demo", "--speed", "10") as process:
        await eventually(working, within=30)
        before = await read_logs(redis, namespace)
        process.send_signal(number)
        _, err = await process.communicate()
        assert (process.returncode, err) == (0, b"")
    logs = await read_logs(redis, namespace)
    assert "interrupted" in set(ends(logs))
    assert all(logs[session][: len(log)] == log for session, log in before.items())


async def test_it_waits_for_the_store_at_the_start_and_in_between_and_says_so(
    todo_write: Command, redis: Redis, namespace: str, proxy: Proxy
) -> None:
    proxy.refuse()
    away = todo_write.having(TODO_REDIS_URL=proxy.url, TODO_APPEND_BUDGET_MS="300")

    async def more_than(number: int) -> bool:
        return await count() > number

    async def count() -> int:
        return sum(len(writes(log)) for log in (await read_logs(redis, namespace)).values())

    async with away.started("demo", "--speed", "20", "--sessions", "2") as process:
        told: list[bytes] = []
        reading = asyncio.create_task(read_lines(process.stderr, told))
        await eventually(lambda: told, within=30)
        await proxy.accept()
        await eventually(lambda: more_than(0), within=30)
        told.clear()
        proxy.refuse()
        await eventually(lambda: len(told) >= 3, within=30)
        await proxy.accept()
        before = await count()
        await eventually(lambda: more_than(before), within=30)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        await reading
    assert all(b"going on when the store is back" in line for line in told)


async def read_lines(stream: asyncio.StreamReader | None, lines: list[bytes]) -> None:
    assert stream is not None
    while line := await stream.readline():
        lines.append(line)
