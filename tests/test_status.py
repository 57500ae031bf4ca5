"""The status: what waits and for how long, who works, what is marked."""

import json
from typing import Any

from redis.asyncio import Redis

from command import Command
from eventually import eventually
from projecting import projected, working
from running import operator
from servers import Server
from todo_projection.embedded import free_port
from todo_projection.status import Status, read_status
from todo_projection.wire import Wire
from todo_write.events import Keys
from todo_write.log import Client, SessionLog

BEAT_MS = 1000


async def look(wire: Wire, keys: Keys) -> Status:
    return await read_status(wire, keys, beat_ms=BEAT_MS)


async def shift_feed(redis: Any, feed: str, ms: int) -> None:
    """Make a feed's only entry that much older."""
    ((id, fields),) = await redis.xrange(feed)
    at, _, seq = id.decode().partition("-")
    await redis.delete(feed)
    await redis.xadd(feed, fields, id=f"{int(at) - ms}-{seq}")


async def test_the_backlog_is_what_waits_and_its_age_that_of_the_oldest(
    client: Client, redis: Redis, wire: Wire
) -> None:
    keys = await client.keys()
    for session in ("s1", "s2", "s3"):
        await SessionLog(client, session).append("note", {})
    await SessionLog(client, "s2").append("note", {})
    await shift_feed(redis, keys.feed(keys.partition("s1")), 40_000)
    backlog = (await look(wire, keys)).backlog
    assert backlog.count == 4
    assert 40 <= backlog.age_s < 60


async def test_a_drained_backlog_is_nothing_and_of_no_age(
    redis_url: str, namespace: str, client: Client, redis: Redis, wire: Wire
) -> None:
    keys = await client.keys()
    position = await SessionLog(client, "s1").append("note", {})
    async with working(redis_url, namespace):
        await projected(redis, keys, "s1", position)
        backlog = (await look(wire, keys)).backlog
    assert (backlog.count, backlog.age_s) == (0, 0)


async def test_a_worker_is_listed_while_it_beats(redis_url: str, namespace: str, client: Client, wire: Wire) -> None:
    keys = await client.keys()

    async def listed() -> bool:
        return bool((await look(wire, keys)).workers)

    async with working(redis_url, namespace) as worker:
        await eventually(listed)
        (found,) = (await look(wire, keys)).workers
        assert (found.name, found.state, found.units) == (worker.name, "working", "board:1,todos:2")
    assert not await listed()


async def test_a_worker_whose_beats_are_overdue_is_silent(client: Client, redis: Redis, wire: Wire) -> None:
    keys = await client.keys()
    beat = {"host": "h", "pid": 7, "units": "todos:2", "state": "working", "why": ""}
    seconds, _ = await redis.time()
    for name, age_s in (("fresh", 1), ("late", 9)):
        at = (seconds - age_s) * 1000
        await redis.hset(keys.workers, name, json.dumps({**beat, "at": at, "started": at - 60_000}))
    status = await look(wire, keys)
    assert {worker.name: worker.state for worker in status.workers} == {"fresh": "working", "late": "silent"}
    late = next(worker for worker in status.workers if worker.name == "late")
    assert 9 <= late.age_s < 15
    assert late.up_s == 60


async def test_marked_sessions_are_counted_with_their_reasons(client: Client, redis: Redis, wire: Wire) -> None:
    keys = await client.keys()
    mark = {"todos": {"seq": 3, "reason": "unsound", "since": 5}}
    await redis.hset(keys.stale(keys.partition("s1")), "s1", json.dumps(mark))
    await redis.hset(keys.stale(keys.partition("s2")), "s2", "WRONGTYPE its row is a string")
    stale = (await look(wire, keys)).stale
    assert stale.count == 2
    assert stale.sessions["s2"] == "WRONGTYPE its row is a string"
    s1 = stale.sessions["s1"]
    assert not isinstance(s1, str)
    assert (s1["todos"].seq, s1["todos"].reason) == (3, "unsound")


async def test_a_key_of_another_type_is_told_and_the_rest_is_read(client: Client, redis: Redis, wire: Wire) -> None:
    keys = await client.keys()
    feed, stale = keys.feed(keys.partition("s1")), keys.stale(5)
    await SessionLog(client, "s2").append("note", {})
    for key in (feed, stale, keys.workers):
        await redis.set(key, "of another type")
    status = await look(wire, keys)
    assert status.backlog.count == 1
    assert [problem.split()[1] for problem in status.problems] == [feed, keys.workers, stale]


async def test_the_command_prints_what_a_program_reads(redis_url: str, namespace: str, client: Client) -> None:
    await SessionLog(client, "s1").append("note", {})
    command = operator(redis_url, namespace)
    asked = await command("status", "--json")
    told = json.loads(asked.out)
    assert asked.code == 0
    assert told["backlog"]["count"] == 1
    assert told["backlog"]["age_s"] >= 0
    assert told["workers"] == []
    assert told["stale"] == {"count": 0, "sessions": {}}
    shown = await command("status")
    assert shown.out.startswith("Backlog  1 event waits")
    assert "\x1b" not in shown.out


async def test_the_check_fails_without_a_worker_and_with_an_old_backlog(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    command = operator(redis_url, namespace)
    keys = await client.keys()
    without = await command("status", "--check")
    assert (without.code, "no worker is working" in without.err) == (1, True)
    async with working(redis_url, namespace):
        await eventually(lambda: redis.exists(keys.workers))
        assert (await command("status", "--check")).code == 0
        await redis.xadd(f"{keys.feed(0)}", {"no": "pointer"}, id="1-1")
        old = await command("status", "--check", "--max-age", "30")
        assert (old.code, "has waited" in old.err) == (1, True)


async def test_a_server_that_is_away_is_exit_3_with_its_address_and_no_password() -> None:
    port = free_port()
    command = Command("todo-projection", TODO_REDIS_URL=f"redis://:secret@127.0.0.1:{port}/0")
    asked = await command("status")
    assert asked.code == 3
    assert f"127.0.0.1:{port}" in asked.err
    assert "secret" not in asked.err
    assert "Traceback" not in asked.err


async def test_reading_writes_nothing(own_server: Server, redis: Redis) -> None:
    command = Command("todo-projection", TODO_REDIS_URL=own_server.url)
    for arguments in (["status"], ["sessions"], ["show", "s1"], ["watch", "--once", "s1"]):
        await command(*arguments)
    assert await redis.dbsize() == 0
