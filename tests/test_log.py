"""The session log: what is stored, in which order, and what is refused for what it is."""

import asyncio
import time
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from stored import Stored
from todo_write.events import Position
from todo_write.log import (
    Client,
    InvalidEvent,
    InvalidSession,
    SessionLog,
    connect,
)

PLAN = {"todos": [{"content": "build", "status": "in_progress"}]}


@pytest.fixture
def log(client: Client) -> SessionLog:
    return SessionLog(client, "s1")


@pytest.fixture
def stored(redis: Redis, namespace: str) -> Stored:
    return Stored(redis, namespace, "s1")


@pytest.mark.every_topology
async def test_positions_count_from_0_in_one_epoch(log: SessionLog, stored: Stored) -> None:
    first = await log.append("todo/write", PLAN)
    second = await log.append("anything/else", [1, None, "ü"])
    assert (first.seq, second) == (0, Position(first.epoch, 1))
    assert await stored.contents() == [PLAN, [1, None, "ü"]]


async def test_an_entry_holds_type_time_op_and_data(log: SessionLog, stored: Stored) -> None:
    before = int(time.time() * 1000)
    await log.append("x", {"a": 1}, time=123)
    await log.append("y", msgspec.Raw(b'{ "b":2 }'))
    (_, first), (_, second) = await stored.entries()
    assert first == {"type": "x", "time": "123", "op": first["op"], "data": '{"a":1}'}
    assert (second["type"], second["data"]) == ("y", '{ "b":2 }')
    assert before <= int(second["time"]) <= int(time.time() * 1000)
    assert first["op"] != second["op"]
    assert len(first["op"]) == 8


@pytest.mark.every_topology
async def test_append_all_is_one_call_without_a_gap(log: SessionLog, stored: Stored) -> None:
    await log.append("x", 0)
    positions = await log.append_all([("x", 1), ("y", 2, 77), ("x", 3)])
    assert [position.seq for position in positions] == [1, 2, 3]
    assert await stored.contents() == [0, 1, 2, 3]
    entries = [fields for _, fields in await stored.entries()]
    assert len({fields["op"] for fields in entries[1:]}) == 1
    assert entries[2]["time"] == "77"


async def test_append_all_of_nothing_is_nothing(log: SessionLog, stored: Stored) -> None:
    assert await log.append_all([]) == []
    assert await stored.entries() == []


async def test_when_one_of_several_is_refused_none_is_stored(log: SessionLog, stored: Stored) -> None:
    with pytest.raises(InvalidEvent):
        await log.append_all([("x", 1), ("todo/write", {"todos": [{"content": " ", "status": "pending"}]})])
    assert await stored.entries() == []


async def test_calls_at_once_are_stored_in_the_order_of_the_calls(log: SessionLog, stored: Stored) -> None:
    positions = await asyncio.gather(*(log.append("x", number) for number in range(100)))
    assert [position.seq for position in positions] == list(range(100))
    assert await stored.contents() == list(range(100))


async def test_a_second_writer_goes_on_behind_the_first(client: Client, log: SessionLog, stored: Stored) -> None:
    other = SessionLog(client, "s1")
    await log.append("x", "one")
    await other.append("x", "two")
    await log.append("x", "three")
    assert await stored.contents() == ["one", "two", "three"]


@pytest.mark.every_topology
async def test_two_writers_at_once_each_store_everything_once_and_in_their_order(
    redis_url: str, namespace: str, stored: Stored
) -> None:
    async def write(name: str) -> None:
        async with connect(redis_url, namespace=namespace) as client:
            log = SessionLog(client, "s1")
            for number in range(100):
                await log.append_all([("x", [name, number, 0]), ("x", [name, number, 1])])

    await asyncio.gather(write("a"), write("b"))
    found = await stored.contents()
    for name in ("a", "b"):
        assert [data[1:] for data in found if data[0] == name] == [[n, k] for n in range(100) for k in (0, 1)]
    assert all(one[:2] == two[:2] for one, two in zip(found[::2], found[1::2], strict=True))


async def test_events_of_one_session_do_not_reach_another(client: Client, stored: Stored) -> None:
    await SessionLog(client, "s2").append("x", 1)
    assert await stored.entries() == []


@pytest.mark.every_topology
async def test_a_forgotten_script_is_sent_again(redis: Redis, log: SessionLog, stored: Stored) -> None:
    await log.append("x", 1)
    await redis.script_flush()
    await log.append("x", 2)
    assert await stored.contents() == [1, 2]


@pytest.mark.parametrize(
    ("session", "why"),
    [
        ("", "0 bytes"),
        ("x" * 257, "257 bytes"),
        ("ü" * 129, "258 bytes"),
        ("a\nb", "control character"),
        ("a{b", "brace"),
        ("a}b", "brace"),
        ("\ud800", "Unicode"),
    ],
)
async def test_a_session_id_that_can_not_be_used(client: Client, session: str, why: str) -> None:
    with pytest.raises(InvalidSession, match=why):
        SessionLog(client, session)


async def test_a_session_id_of_256_bytes_is_used(client: Client) -> None:
    log = SessionLog(client, "x" * 256)
    assert (await log.append("x", 1)) == await log.tail()


@pytest.mark.parametrize(
    ("type", "data", "why"),
    [
        ("", {}, "event type ''"),
        ("a\nb", {}, "event type"),
        ("x", {1, 2}.__iter__, "not JSON"),
        ("x", msgspec.Raw(b"{"), "not JSON"),
        ("x", msgspec.Raw(b'"\xff"'), "not JSON"),
        ("x", "a" * 1024 * 1024, "1048578 bytes; at most 1048576"),
        ("todo/write", {"todos": [{"content": "a" * 256 * 1024, "status": "pending"}]}, "at most 262144"),
        ("todo/write", {"todos": [{"content": "a ", "status": "pending"}]}, "trimmed"),
        ("todo/write", {"todos": [{"content": "a", "status": "done"}]}, "unsound"),
        ("todo/write", {"todos": [{"content": "a", "status": "pending"}] * 2}, "repeats"),
    ],
)
async def test_an_event_that_can_not_be_stored(log: SessionLog, stored: Stored, type: str, data: Any, why: str) -> None:
    with pytest.raises(InvalidEvent, match=why):
        await log.append(type, data)
    assert await stored.entries() == []


@pytest.mark.parametrize("when", [-1, 1.5, "1", True])
async def test_a_time_that_is_not_one(log: SessionLog, when: Any) -> None:
    with pytest.raises(InvalidEvent, match="whole milliseconds"):
        await log.append("x", {}, time=when)


async def test_the_largest_events_are_stored(log: SessionLog, stored: Stored) -> None:
    largest = "a" * (1024 * 1024 - 2)
    plan = {"todos": [{"content": "a" * (256 * 1024 - 47), "status": "completed"}]}
    assert len(msgspec.json.encode(plan)) == 256 * 1024
    await log.append_all([("x", largest), ("todo/write", plan)])
    assert await stored.contents() == [largest, plan]
