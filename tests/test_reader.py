"""Reading a log: bounded pages both ways, and following it."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from eventually import eventually
from stored import Stored
from todo_write.events import Entry, Position, Unsound
from todo_write.log import (
    Client,
    LogRewound,
    SessionLog,
)


@pytest.fixture
def log(client: Client) -> SessionLog:
    return SessionLog(client, "s1")


@pytest.fixture
def stored(redis: Redis, namespace: str) -> Stored:
    return Stored(redis, namespace, "s1")


async def test_an_empty_log(log: SessionLog) -> None:
    assert await log.tail() is None
    assert await log.read(count_max=10) == []
    assert await log.read_back(count_max=10) == []
    assert [entry async for entry in log.events()] == []


@pytest.mark.every_topology
async def test_pages_forward_and_backward(log: SessionLog) -> None:
    positions = [await log.append("x", number) for number in range(5)]
    assert await log.tail() == positions[-1]
    assert _data(await log.read(count_max=2)) == [0, 1]
    assert _data(await log.read(positions[1], count_max=2)) == [2, 3]
    assert _data(await log.read(Position(positions[0].epoch, -1), count_max=1)) == [0]
    assert _data(await log.read_back(count_max=2)) == [4, 3]
    assert _data(await log.read_back(positions[3], count_max=10)) == [2, 1, 0]
    assert await log.read_back(positions[0], count_max=10) == []


async def test_an_entry_is_position_op_and_event(log: SessionLog, stored: Stored) -> None:
    position = await log.append("x", {"a": 1}, time=5)
    (entry,) = await log.read(count_max=1)
    ((_, fields),) = await stored.entries()
    assert (entry.position, entry.op) == (position, fields["op"])
    assert (entry.event.type, entry.event.seq, entry.event.time) == ("x", 0, 5)


async def test_all_events_are_read_in_pages(log: SessionLog) -> None:
    await log.append_all([("x", number) for number in range(2500)])
    await log.append_all([("x", "a" * 1_000_000) for _ in range(20)])
    found = [entry async for entry in log.events()]
    assert _data(found)[:2500] == list(range(2500))
    assert [entry.position.seq for entry in found] == list(range(2520))
    assert [entry.position.seq async for entry in log.events(found[2517].position)] == [2518, 2519]


async def test_an_entry_nobody_of_ours_wrote_is_named(redis: Redis, log: SessionLog, stored: Stored) -> None:
    await redis.xadd(stored.log, {"hello": "world"}, id="5-1")
    with pytest.raises(Unsound, match="entry 5-1 is not an event"):
        await log.read(count_max=1)


async def test_reading_writes_nothing(redis: Redis, namespace: str, log: SessionLog) -> None:
    await log.read(count_max=1)
    await log.tail()
    assert await redis.keys(f"{namespace}:*") == []


@pytest.mark.every_topology
async def test_a_follower_gets_what_is_there_and_then_what_comes(client: Client, log: SessionLog) -> None:
    await log.append_all([("x", number) for number in range(40)])
    found, following = _collect(log.follow())
    await eventually(lambda: len(found) == 40)
    await SessionLog(client, "s1").append("x", 40)
    await eventually(lambda: len(found) == 41)
    await log.append("x", 41)
    await eventually(lambda: len(found) == 42)
    assert _data(found) == list(range(42))
    await _end(following)


async def test_a_follower_begins_where_it_is_asked_to(log: SessionLog) -> None:
    positions = [await log.append("x", number) for number in range(3)]
    for after, expected in ((positions[1], [2]), (Position(positions[0].epoch, -1), [0, 1, 2])):
        found, following = _collect(log.follow(after))
        await eventually(partial(_holds, found, expected))
        await _end(following)


@pytest.mark.every_topology
async def test_a_follower_is_told_when_what_it_saw_is_gone(log: SessionLog, stored: Stored) -> None:
    await log.append("x", 0)
    copy = await stored.copy()
    await log.append("x", 1)
    found, following = _collect(log.follow())
    await eventually(lambda: len(found) == 2)
    await stored.fail_over(copy)
    with pytest.raises(LogRewound):
        await following


async def test_a_follower_is_told_when_another_event_stands_where_it_was(
    client: Client, log: SessionLog, stored: Stored
) -> None:
    await log.append("x", 0)
    copy = await stored.copy()
    await log.append("x", 1)
    found, following = _collect(log.follow())
    await eventually(lambda: len(found) == 2)
    await stored.fail_over(copy)
    await SessionLog(client, "s1").append_all([("x", "other"), ("x", "other")])
    with pytest.raises(LogRewound):
        await following
    assert _data(found) == [0, 1]


async def test_a_follower_goes_on_into_a_log_begun_anew(log: SessionLog) -> None:
    first = await log.append("x", 0)
    found, following = _collect(log.follow())
    await eventually(lambda: len(found) == 1)
    await asyncio.gather(log.delete(), log.append("x", 1))
    await eventually(lambda: len(found) == 2)
    assert found[1].position.epoch > first.epoch
    await _end(following)


@pytest.mark.every_topology
async def test_a_follower_ends_at_whatever_moment_it_is_cancelled(log: SessionLog) -> None:
    await log.append("x", 0)
    for moment in range(60):
        _, following = _collect(log.follow())
        for _ in range(moment):
            await asyncio.sleep(0)  # one turn of the loop, no time
        following.cancel()
        ended, _ = await asyncio.wait({following}, timeout=5)
        assert ended, f"a cancellation was lost at moment {moment}"


def _data(entries: list[Entry]) -> list[Any]:
    return [msgspec.json.decode(entry.event.data) for entry in entries]


def _collect(entries: AsyncIterator[Entry]) -> tuple[list[Entry], asyncio.Task[None]]:
    found: list[Entry] = []

    async def run() -> None:
        async for entry in entries:
            found.append(entry)  # noqa: PERF401  one by one, to be looked at meanwhile

    return found, asyncio.create_task(run())


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def _holds(found: list[Entry], expected: list[Any]) -> bool:
    return _data(found) == expected
