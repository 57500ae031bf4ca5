"""A writer that has read up to an entry and must not miss one: it appends right behind that, or nowhere."""

import asyncio

import pytest
from redis.asyncio import Redis

from stored import Stored
from todo_write.log import NO_LOG, Client, LogReader, LogRewound, Overtaken, SessionLog, Tail

SESSION = "s1"


@pytest.fixture
def stored(redis: Redis, namespace: str) -> Stored:
    return Stored(redis, namespace, SESSION)


async def tail_of(client: Client) -> Tail:
    (entry,) = await LogReader(client, SESSION).read_back(count_max=1)
    return Tail(entry.position, entry.op)


async def test_it_appends_behind_what_it_read_and_behind_itself(client: Client, stored: Stored) -> None:
    await SessionLog(client, SESSION).append("x", 0)
    log = SessionLog(client, SESSION, behind=await tail_of(client))
    await log.append_all([("x", 1), ("x", 2)])
    await log.append("x", 3)
    assert await stored.contents() == [0, 1, 2, 3]


async def test_it_begins_a_log(client: Client, stored: Stored) -> None:
    await SessionLog(client, SESSION, behind=NO_LOG).append("x", 0)
    assert await stored.contents() == [0]


async def test_when_another_was_faster_it_is_told_and_nothing_is_stored(client: Client, stored: Stored) -> None:
    other = SessionLog(client, SESSION)
    await other.append("x", 0)
    log = SessionLog(client, SESSION, behind=await tail_of(client))
    await other.append("x", 1)
    with pytest.raises(Overtaken):
        await log.append_all([("y", 2), ("y", 3)])
    assert await stored.contents() == [0, 1]


async def test_when_another_began_the_log_it_is_told(client: Client, stored: Stored) -> None:
    await SessionLog(client, SESSION).append("x", 0)
    with pytest.raises(Overtaken):
        await SessionLog(client, SESSION, behind=NO_LOG).append("y", 1)
    assert await stored.contents() == [0]


async def test_of_several_at_once_one_appends(client: Client, stored: Stored) -> None:
    await SessionLog(client, SESSION).append("x", 0)
    tail = await tail_of(client)
    logs = [SessionLog(client, SESSION, behind=tail) for _ in range(5)]
    outcomes = await asyncio.gather(*(log.append("y", n) for n, log in enumerate(logs)), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Overtaken"] * 4 + ["Position"]
    assert len(await stored.contents()) == 2


async def test_when_the_entry_it_read_is_gone_it_is_told(client: Client, stored: Stored) -> None:
    other = SessionLog(client, SESSION)
    await other.append("x", 0)
    copy = await stored.copy()
    await other.append("x", 1)
    log = SessionLog(client, SESSION, behind=await tail_of(client))
    await stored.fail_over(copy)
    with pytest.raises(LogRewound):
        await log.append("y", 2)
    assert await stored.contents() == [0]
