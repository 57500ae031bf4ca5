"""The subscriber when something is lost: connections, frames, workers, the server, the end of a log."""

import asyncio
import signal
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.asyncio import Redis

from eventually import eventually
from projecting import projected, working
from proxy import Proxy
from running import Running, operator, running
from servers import Server
from serving import plan
from stored import Stored
from todo_projection.frames import Frame
from todo_projection.subscriber import Snapshot, Subscriber
from todo_write.events import Position
from todo_write.log import Client, SessionLog, connect
from viewing import ABSENT, mute_worker, viewing


def todos(*items: str) -> list[dict[str, str]]:
    return [{"content": item, "status": "pending"} for item in items]


async def test_with_every_frame_dropped_it_shows_the_newest_within_five_seconds(
    own_server: Server, client: Client, redis: Redis, namespace: str
) -> None:
    async with mute_worker(own_server, redis, namespace), viewing(client, "s1", "s2") as viewer:
        await viewer.begun("s2")
        for n in range(3):
            for session in ("s1", "s2"):
                await SessionLog(client, session).append("todo/write", plan(f"{n}"))
            for session in ("s1", "s2"):
                await viewer.shows(session, todos(f"{n}"), within=5)
        assert viewer.of(Frame) == []
        assert viewer.states == ["live"]


async def test_a_fail_over_to_another_commit_of_the_same_number_is_noticed(
    own_server: Server, client: Client, redis: Redis, namespace: str
) -> None:
    """The counter is equal and nothing is published: only the rev's other half tells."""
    stored = Stored(redis, namespace, "s1")
    async with mute_worker(own_server, redis, namespace), viewing(client, "s1") as viewer:
        keys = await client.keys()
        await projected(redis, keys, "s1", await SessionLog(client, "s1").append("todo/write", plan("kept")))
        copy = await stored.copy()
        await projected(redis, keys, "s1", await SessionLog(client, "s1").append("todo/write", plan("lost")))
        await viewer.shows("s1", todos("lost"), within=5)
        before: Any = await redis.hget(stored.row, "rev")
        await stored.fail_over(copy)
        await projected(redis, keys, "s1", await SessionLog(client, "s1").append("todo/write", plan("other")))
        after: Any = await redis.hget(stored.row, "rev")
        assert (before.partition(b"-")[0], before) == (after.partition(b"-")[0], before)
        assert before != after
        await viewer.shows("s1", todos("other"), within=5)


async def test_a_fail_over_that_loses_the_end_shows_what_is_left(
    client: Client, redis: Redis, redis_url: str, namespace: str
) -> None:
    stored = Stored(redis, namespace, "s1")
    async with working(redis_url, namespace), viewing(client, "s1") as viewer:
        await SessionLog(client, "s1").append("todo/write", plan("kept"))
        await viewer.shows("s1", todos("kept"))
        copy = await stored.copy()
        await SessionLog(client, "s1").append("todo/write", plan("lost"))
        await viewer.shows("s1", todos("lost"))
        await stored.fail_over(copy)
        await viewer.shows("s1", todos("kept"), within=5)
        await SessionLog(client, "s1").append("todo/write", plan("next"))
        await viewer.shows("s1", todos("next"))


async def test_a_row_that_is_gone_is_shown_as_gone(
    client: Client, redis: Redis, redis_url: str, namespace: str
) -> None:
    stored = Stored(redis, namespace, "s1")
    async with working(redis_url, namespace), viewing(client, "s1") as viewer:
        await SessionLog(client, "s1").append("todo/write", plan("a"))
        await viewer.shows("s1", todos("a"))
        await redis.delete(stored.row, stored.log)
        await viewer.shows("s1", ABSENT, within=5)


async def test_every_worker_killed_is_told_as_behind_and_live_again_when_one_is_back(
    client: Client, redis_url: str, namespace: str
) -> None:
    command = operator(redis_url, namespace)
    async with viewing(client, "s1", "elsewhere") as viewer:
        async with AsyncExitStack() as stack:
            workers = [await _worker(stack, command) for _ in range(2)]
            await SessionLog(client, "s1").append("todo/write", plan("a"))
            await viewer.shows("s1", todos("a"), within=20)
            await viewer.is_told("live")
            for worker in workers:
                worker.send(signal.SIGKILL)
                await worker.ended()
        await SessionLog(client, "s1").append("todo/write", plan("waiting"))
        await viewer.is_told("behind", within=5)
        assert viewer.value("s1") == todos("a")
        async with working(redis_url, namespace):
            await viewer.shows("s1", todos("waiting"), within=20)  # what a dead worker had read is taken over first
            await viewer.is_told("live")


async def _worker(stack: AsyncExitStack, command: Any) -> Running:
    return await stack.enter_async_context(running(command, "worker"))


async def test_a_killed_subscription_is_told_and_what_it_missed_is_shown(
    own_server: Server, client: Client, redis: Redis, namespace: str
) -> None:
    async with working(own_server.url, namespace), viewing(client, "s1") as viewer:
        await viewer.is_told("live")
        for n in range(5):
            append = SessionLog(client, "s1").append("todo/write", plan(f"{n}"))
            await asyncio.gather(redis.client_kill_filter(_type="pubsub"), append)
            await viewer.shows("s1", todos(f"{n}"), within=5)
            await viewer.is_told("live", within=5)
        assert "reconnecting" in viewer.states
        told = len(viewer.states)
        await redis.client_kill_filter(_type="pubsub")  # with nothing to miss it is the same
        await eventually(lambda: viewer.states[told:] == ["reconnecting", "live"], 5)


async def test_a_server_killed_and_back_with_nothing_is_shown_as_it_is(own_server: Server, namespace: str) -> None:
    async with (
        connect(own_server.url, namespace=namespace) as client,
        working(own_server.url, namespace),
        viewing(client, "s1") as viewer,
    ):
        await SessionLog(client, "s1").append("todo/write", plan("lost"))
        await viewer.shows("s1", todos("lost"))
        await asyncio.to_thread(own_server.kill)
        await viewer.is_told("reconnecting", within=5)
        assert viewer.value("s1") == todos("lost")
        await asyncio.to_thread(own_server.restart)
        await viewer.shows("s1", ABSENT)
        await viewer.is_told("live")
        await SessionLog(client, "s1").append("todo/write", plan("new"))
        await viewer.shows("s1", todos("new"), within=15)


async def test_a_subscriber_that_starts_while_the_server_is_away_says_so_and_goes_on(
    proxy: Proxy, client: Client, redis_url: str, namespace: str
) -> None:
    proxy.refuse()
    await SessionLog(client, "s1").append("todo/write", plan("a"))
    async with connect(proxy.url, namespace=namespace) as behind, viewing(behind, "s1") as viewer:
        await viewer.is_told("reconnecting")
        await proxy.accept()
        async with working(redis_url, namespace):
            await viewer.shows("s1", todos("a"))
            await viewer.is_told("live")


@pytest.mark.parametrize("cut", ["half open", "only the subscription"])
async def test_a_connection_that_dies_without_a_word_is_noticed(
    proxy: Proxy, client: Client, redis_url: str, namespace: str, cut: str
) -> None:
    if cut == "only the subscription":
        proxy.lose_reply(b"SUBSCRIBE")
    async with (
        working(redis_url, namespace),
        connect(proxy.url, namespace=namespace) as behind,
        viewing(behind, "s1") as viewer,
    ):
        if cut == "half open":
            await viewer.is_told("live")
            proxy.silence()
            await viewer.is_told("reconnecting", within=10)
        await SessionLog(client, "s1").append("todo/write", plan("meanwhile"))
        proxy.resume()
        await viewer.shows("s1", todos("meanwhile"), within=10)
        await viewer.is_told("live")


async def test_a_server_that_refuses_for_a_while_is_told_and_waited_for(
    own_server: Server, client: Client, redis: Any, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    await redis.acl_setuser(
        "viewer", enabled=True, passwords=["+p"], keys="*", channels="*", commands=["+@all", "-hmget"]
    )
    url = own_server.url.replace("redis://", "redis://viewer:p@")
    await client.keys()
    async with connect(url, namespace=namespace) as other, viewing(other, "s1") as viewer:
        await viewer.is_told("reconnecting")
        assert viewer.of(Snapshot) == []
        await redis.execute_command("ACL", "SETUSER", "viewer", "+hmget")
        await viewer.begun("s1")
        await viewer.is_told("live")
    assert "NOPERM" in caplog.text or "no permissions" in caplog.text.lower()
    assert "mistake of ours" not in caplog.text


async def test_a_row_that_can_not_be_read_is_told_once_and_shown_when_it_is_mended(
    client: Client, redis: Any, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    stored = Stored(redis, namespace, "bad")
    await redis.set(stored.row, "a string")
    async with viewing(client, "bad", "fine", poll_ms=500) as viewer:
        await viewer.is_told("live")
        assert set(viewer.values) == {"bad", "fine"}
        await redis.delete(stored.row)
        row = {"etag": "e", "pos": "5-0", "units": "todos:1", "rev": "1-e", "todos": "[]"}
        await redis.hset(stored.row, mapping=row)  # still one field short
        await eventually(lambda: caplog.text.count("can't be read") == 1)
        reads = await _count(redis, "hgetall")
        await eventually(lambda: _counted(redis, "hgetall", reads + 3))
        await redis.hset(stored.row, "todos.ver", "1")
        await viewer.shows("bad", [])
    assert (caplog.text.count("can't be read"), caplog.text.count("is no hash")) == (1, 1)


async def _counted(redis: Any, command: str, count: int) -> bool:
    return await _count(redis, command) >= count


async def _count(redis: Any, command: str) -> int:
    stats = await redis.info("commandstats")
    return int(stats.get(f"cmdstat_{command}", {}).get("calls", 0))


async def test_waiting_for_a_position_returns_with_the_row_that_has_it(
    client: Client, redis: Redis, redis_url: str, namespace: str
) -> None:
    keys = await client.keys()
    async with Subscriber(client) as subscriber, working(redis_url, namespace):
        log = SessionLog(client, "s1")
        for n in range(100):
            position = await log.append("todo/write", plan(f"{n}"))
            async with asyncio.timeout(5):
                assert await subscriber.wait_for("s1", position) >= position
            pos: Any = await redis.hget(keys.row("s1"), "pos")
            assert Position.parse(pos) >= position


async def test_no_wake_up_is_lost_among_many_who_wait(client: Client, redis_url: str, namespace: str) -> None:
    async with Subscriber(client) as subscriber, working(redis_url, namespace):
        logs = [SessionLog(client, f"s{n}") for n in range(20)]

        async def write_and_wait(log: SessionLog) -> None:
            for n in range(10):
                position = await log.append("todo/write", plan(f"{n}"))
                await asyncio.gather(*(subscriber.wait_for(log.session, position) for _ in range(5)))

        async with asyncio.timeout(30):
            await asyncio.gather(*(write_and_wait(log) for log in logs))


async def test_waiting_costs_one_look_for_all_who_wait_and_looks_grow_rare(
    own_server: Server, client: Client, redis: Any, namespace: str
) -> None:
    async with Subscriber(client, poll_ms=60_000) as subscriber:
        position = await SessionLog(client, "s1").append("todo/write", plan("a"))
        waiting = [asyncio.create_task(subscriber.wait_for("s1", position)) for _ in range(500)]
        await asyncio.sleep(2)  # the time is what the test is about
        assert not any(task.done() for task in waiting)
        looks = await _count(redis, "hget")
        assert 0 < looks <= 15
        async with working(own_server.url, namespace), asyncio.timeout(5):
            assert set(await asyncio.gather(*waiting)) == {position}
        looks = await _count(redis, "hget")
        await asyncio.sleep(1)
        assert await _count(redis, "hget") == looks  # nobody waits: nothing is asked


async def test_however_often_a_channel_speaks_those_who_wait_look_a_hundred_times_a_second_at_most(
    own_server: Server, client: Client, redis: Any, namespace: str
) -> None:
    channel = (await client.keys()).channel("s1")
    async with viewing(client, "s1") as viewer:
        await viewer.is_told("live")
        waiting = asyncio.create_task(viewer.subscriber.wait_for("s1", Position(1, 0)))
        loop = asyncio.get_running_loop()
        before, began = await _count(redis, "hget"), loop.time()
        while loop.time() < began + 1:
            await redis.publish(channel, '{"type":"session/deleted","sessionId":"s1","epoch":-1,"rev":"0-a"}')
        assert await _count(redis, "hget") - before <= 100 * (loop.time() - began) + 2
        waiting.cancel()


async def test_a_wait_given_up_while_the_server_is_away_leaves_no_trace(
    proxy: Proxy, client: Client, namespace: str
) -> None:
    async with connect(proxy.url, namespace=namespace) as behind, viewing(behind, "s1") as viewer:
        await viewer.is_told("live")
        proxy.refuse()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await viewer.subscriber.wait_for("s1", Position(1, 0))
        await viewer.is_told("reconnecting")
        await proxy.accept()
        await viewer.is_told("live", within=10)
