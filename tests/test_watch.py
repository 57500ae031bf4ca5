"""The command ``watch``: each session's baseline, then what is published after it, and never anything older."""

import json
import signal
from typing import Any

from redis.asyncio import Redis

from eventually import eventually
from projecting import working
from running import Running, operator, running
from servers import Server
from todo_write.log import Client, SessionLog


def todos(content: str) -> tuple[str, dict[str, Any]]:
    return "todo/write", {"todos": [{"content": content, "status": "pending"}]}


def lines(running: Running) -> list[Any]:
    return [json.loads(line) for line in running.out.splitlines()]


async def says(running: Running, count: int) -> list[Any]:
    """What it printed, once that is so many lines."""
    await eventually(lambda: len(lines(running)) >= count, 20, f"too few lines; err: {running.err}")
    return lines(running)


async def test_a_baseline_comes_first_then_each_change_as_published(
    redis_url: str, namespace: str, client: Client, redis: Any
) -> None:
    keys = await client.keys()
    log = SessionLog(client, "s1")
    async with (
        working(redis_url, namespace),
        running(operator(redis_url, namespace), "watch", "s1", "s2") as watch,
        redis.pubsub() as pubsub,
    ):
        first = await says(watch, 2)
        assert {line["sessionId"]: line["asOfSeq"] for line in first} == {"s1": -1, "s2": -1}
        await pubsub.subscribe(keys.channel("s1"))
        await log.append(*todos("a"))
        await log.append(*todos("b"))
        frames = (await says(watch, 4))[2:]
        published: list[Any] = []
        while len(published) < 2:
            message: Any = await pubsub.get_message(ignore_subscribe_messages=True, timeout=5)
            published += [json.loads(message["data"])] if message else []
        assert frames == published
        assert [frame["value"][0]["content"] for frame in frames] == ["a", "b"]
        await log.delete()
        assert (await says(watch, 5))[4]["type"] == "session/deleted"
        watch.send(signal.SIGTERM)
        assert await watch.ended(within=5) == 0
    assert watch.err == ""


async def test_a_frame_that_is_not_newer_is_not_printed(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    keys = await client.keys()
    command = operator(redis_url, namespace)
    async with working(redis_url, namespace), running(command, "watch", "s1") as watch:
        await says(watch, 1)
        await SessionLog(client, "s1").append(*todos("a"))
        frame = (await says(watch, 2))[1]
        older = {**frame, "rev": "0-aaaaaaaa"}
        for message in (frame, older, {**frame, "epoch": frame["epoch"] - 1, "rev": "9-aaaaaaaa"}):
            await redis.publish(keys.channel("s1"), json.dumps(message))
        await redis.publish(keys.channel("s1"), "not of ours")
        await SessionLog(client, "s1").append(*todos("b"))
        assert [line["value"][0]["content"] for line in (await says(watch, 3))[1:]] == ["a", "b"]
        await watch.says("none of ours")


async def test_after_a_lost_connection_the_baseline_is_read_again(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    command = operator(redis_url, namespace)
    log = SessionLog(client, "s1")
    async with working(redis_url, namespace), running(command, "watch", "s1") as watch:
        await says(watch, 1)
        channel = (await client.keys()).channel("s1")
        await redis.client_kill_filter(_type="pubsub", skipme=True)
        await log.append(*todos("a"))
        await eventually(lambda: any("asOfSeq" in line and line["asOfSeq"] == 0 for line in lines(watch)), 20)
        await eventually(lambda: _subscribers(redis, channel))
        await log.append(*todos("b"))
        await eventually(lambda: lines(watch)[-1].get("seq") == 1, 20)


async def _subscribers(redis: Any, channel: str) -> bool:
    return bool((await redis.pubsub_numsub(channel))[0][1])


async def test_it_waits_for_a_server_that_is_away_and_goes_on_when_it_is_back(
    own_server: Server, namespace: str
) -> None:
    own_server.kill()
    command = operator(own_server.url, namespace)
    async with running(command, "watch", "s1") as watch:
        await watch.says("next try in")
        own_server.restart()
        assert (await says(watch, 1))[0]["asOfSeq"] == -1


async def test_once_prints_what_is_and_ends_telling_what_can_not_be_read(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    command = operator(redis_url, namespace)
    keys = await client.keys()
    await redis.set(keys.row("bad"), "not a hash")
    ran = await command("watch", "--once", "--json", "bad", "s2")
    assert ran.code == 1
    assert [json.loads(line)["sessionId"] for line in ran.out.splitlines()] == ["s2"]
    assert keys.row("bad") in ran.err


async def test_a_row_of_another_type_is_reported_and_the_others_go_on(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    await redis.set((await client.keys()).row("bad"), "not a hash")
    command = operator(redis_url, namespace)
    async with working(redis_url, namespace), running(command, "watch", "bad", "s2") as watch:
        assert (await says(watch, 1))[0]["sessionId"] == "s2"
        await watch.says("no hash")
        await SessionLog(client, "s2").append(*todos("a"))
        assert (await says(watch, 2))[1]["seq"] == 0
