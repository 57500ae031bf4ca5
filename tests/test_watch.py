"""The command ``watch``: JSON lines for programs, a line a change elsewhere, lists on a terminal."""

import json
import signal
from typing import Any

from redis.asyncio import Redis

from eventually import eventually
from projecting import projected, working
from running import Running, on_terminal, operator, running
from servers import Server
from todo_write.log import Client, SessionLog, connect


def todos(*contents: str, status: str = "pending") -> tuple[str, dict[str, Any]]:
    return "todo/write", {"todos": [{"content": content, "status": status} for content in contents]}


def lines(running: Running) -> list[Any]:
    return [json.loads(line) for line in running.out.splitlines()]


def states(running: Running) -> list[str]:
    return [line["state"] for line in lines(running) if "state" in line]


def plans(running: Running) -> list[Any]:
    return [line for line in lines(running) if "state" not in line]


async def says(running: Running, count: int) -> list[Any]:
    """The plans it printed, once there are so many."""
    await eventually(lambda: len(plans(running)) >= count, 20, f"too few lines; err: {running.err}")
    return plans(running)


async def is_told(running: Running, state: str) -> None:
    await eventually(lambda: states(running)[-1:] == [state], 20, f"never {state}; out: {running.out}")


async def test_as_json_a_baseline_comes_first_then_each_change_as_published(
    redis_url: str, namespace: str, client: Client, redis: Any
) -> None:
    keys = await client.keys()
    log = SessionLog(client, "s1")
    async with (
        working(redis_url, namespace),
        running(operator(redis_url, namespace), "watch", "--json", "s1", "s2", "s1") as watch,
        redis.pubsub() as pubsub,
    ):
        first = await says(watch, 2)
        assert {line["sessionId"]: line["asOfSeq"] for line in first} == {"s1": -1, "s2": -1}
        await is_told(watch, "live")
        await projected(redis, keys, "s1", await log.append("chat", "hello"))
        first = await says(watch, 3)  # the row is there now
        assert (first[2]["asOfSeq"], first[2]["values"]["todos"]) == (0, None)
        await pubsub.subscribe(keys.channel("s1"))
        await log.append(*todos("a"))
        await says(watch, 4)
        await log.append(*todos("b"))
        frames = (await says(watch, 5))[3:]
        published: list[Any] = []
        while len(published) < 2:
            message: Any = await pubsub.get_message(ignore_subscribe_messages=True, timeout=5)
            published += [json.loads(message["data"])] if message else []
        assert frames == published
        assert [frame["value"][0]["content"] for frame in frames] == ["a", "b"]
        await log.delete()
        assert (await says(watch, 6))[5]["type"] == "session/deleted"
        watch.send(signal.SIGTERM)
        assert await watch.ended(within=5) == 0
    assert watch.err == ""


async def test_what_is_said_of_the_state_has_since_when(own_server: Server, namespace: str) -> None:
    async with running(operator(own_server.url, namespace), "watch", "--json", "s1") as watch:
        await is_told(watch, "live")
        own_server.kill()
        await is_told(watch, "reconnecting")
        assert set(lines(watch)[-1]) == {"state", "since"}
        await watch.says("next try in")
        own_server.restart()
        await is_told(watch, "live")


async def test_it_waits_for_a_server_that_is_away_and_goes_on_when_it_is_back(
    own_server: Server, namespace: str
) -> None:
    own_server.kill()
    async with running(operator(own_server.url, namespace), "watch", "--json", "s1") as watch:
        await watch.says("next try in")
        own_server.restart()
        assert (await says(watch, 1))[0]["asOfSeq"] == -1
        await is_told(watch, "live")


async def test_a_layout_that_is_another_is_told_at_once(redis_url: str, namespace: str, redis: Any) -> None:
    await redis.hset(f"{namespace}:meta", mapping={"layout": "1", "partitions": "8"})
    ran = await operator(redis_url, namespace, TODO_PARTITIONS="16")("watch", "s1")
    assert (ran.code, "8" in ran.err, "16" in ran.err) == (2, True, True)


async def test_elsewhere_it_is_a_line_a_change(redis_url: str, namespace: str, client: Client) -> None:
    log = SessionLog(client, "s1")
    async with working(redis_url, namespace), running(operator(redis_url, namespace), "watch", "s1") as watch:
        await watch.says("s1  nothing projected yet")
        await watch.says("live")
        await log.append(*todos("计划\n\x1b[2J\u202e", status="in_progress"))
        assert await watch.says("0/1") == "s1  0/1  计划 ␛[2J\N{REPLACEMENT CHARACTER}"
        await log.append(*todos())
        await watch.says("s1  an empty plan")
        await log.append("turn/start", {"turn": 1})
        await watch.says("s1  no plan")
        await log.delete()
        await watch.says("s1  deleted")


async def test_once_prints_what_is_and_ends_telling_what_can_not_be_read(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    command, keys = operator(redis_url, namespace), await client.keys()
    await redis.set(keys.row("bad"), "not a hash")
    async with working(redis_url, namespace):
        await projected(redis, keys, "s1", await SessionLog(client, "s1").append(*todos("a", "b")))
    ran = await command("watch", "--once", "--json", "bad", "s2")
    assert ran.code == 1
    assert [json.loads(line)["sessionId"] for line in ran.out.splitlines()] == ["s2"]
    assert keys.row("bad") in ran.err
    ran = await command("watch", "--once", "s1", "s2")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == ["s1  0/2  2 to do", "  ○ a", "  ○ b", "s2", "  nothing projected yet"]


async def test_a_row_of_another_type_is_reported_and_the_others_go_on(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    await redis.set((await client.keys()).row("bad"), "not a hash")
    command = operator(redis_url, namespace)
    async with working(redis_url, namespace), running(command, "watch", "bad", "s2") as watch:
        await watch.says("s2  nothing projected yet")
        await watch.says("no hash")
        await SessionLog(client, "s2").append(*todos("a"))
        await watch.says("s2  0/1")


async def test_on_a_terminal_lists_are_drawn_anew_and_what_stood_there_comes_back(
    own_server: Server, namespace: str
) -> None:
    command = operator(own_server.url, namespace)
    async with (
        on_terminal(command, "watch", "s1", "s2", width=40, height=20) as (watch, terminal),
        working(own_server.url, namespace),
    ):
        await terminal.says("nothing projected yet")
        await terminal.says("live")
        async with connect(own_server.url, namespace=namespace) as client:
            await SessionLog(client, "s1").append(*todos("work", status="in_progress"))
        await terminal.says("● work")
        own_server.kill()
        await terminal.says("reconnecting since ")
        await terminal.says("redis at 127.0.0.1:")
        watch.send(signal.SIGINT)
        assert await watch.ended(within=5) == 0
        assert terminal.shown.count("\x1b[?1049h") == terminal.shown.count("\x1b[?1049l") == 1
        assert "● work" in terminal.shown.partition("\x1b[?1049l")[2]  # the last of it stays
        assert "\x1b[2J" not in terminal.shown.partition("\x1b[?1049h")[2].partition("● work")[2]  # nothing flickers


async def test_a_reader_that_leaves_ends_it_without_a_word(redis_url: str, namespace: str, client: Client) -> None:
    command = operator(redis_url, namespace)
    async with command.started("watch", "--json", "s1") as process, working(redis_url, namespace):
        assert process.stdout
        assert process.stderr
        await process.stdout.readline()
        process.stdout._transport.close()  # type: ignore[attr-defined]  # what `| head -1` does
        await SessionLog(client, "s1").append(*todos("a"))
        await SessionLog(client, "s1").append(*todos("b"))
        await eventually(lambda: process.returncode is not None)
        assert await process.stderr.read() == b""
