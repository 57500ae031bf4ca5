"""examples/subscribe.ts, run by Node beside a live worker, and the declarations it is written with."""

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from eventually import eventually
from projecting import working
from proxy import Proxy
from running import Running
from servers import Server
from serving import plan
from stored import Stored
from todo_projection.declarations import declarations
from todo_write.log import Client, SessionLog, connect
from typescript import BUILD, EXAMPLES, build
from viewing import mute_worker

DRIVER = BUILD / "tests" / "node" / "subscribe_driver.mjs"
PIPE = subprocess.PIPE
ABSENT = "absent"
LINES_MAX = 80


@pytest.fixture(scope="module")
def built() -> None:
    build()


def todos(*items: str) -> list[dict[str, str]]:
    return [{"content": item, "status": "pending"} for item in items]


class Shown:
    """What the example shows."""

    def __init__(self, running: Running) -> None:
        self._running = running

    @property
    def all(self) -> list[Any]:
        return [json.loads(line) for line in self._running.out.splitlines()]

    def now(self) -> tuple[Any, str]:
        last: Any = self.all[-1] if self.all else {"values": {}, "state": "none"}
        return last["values"].get("todos", ABSENT), last["state"]

    async def shows(self, value: Any, state: str = "live", within: float = 10) -> None:
        def shown() -> bool:
            assert self.now() == (value, state), f"{self.now()}; err: {self._running.err}"
            return True

        await eventually(shown, within)


@asynccontextmanager
async def following(url: str, session: str, namespace: str) -> AsyncGenerator[Shown]:
    process = await asyncio.create_subprocess_exec(
        "node", DRIVER, url, session, namespace, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    running = Running(process)
    readers = [
        asyncio.create_task(running.read(process.stdout, "out")),
        asyncio.create_task(running.read(process.stderr, "err")),
    ]
    try:
        yield Shown(running)
        assert process.stdin
        process.stdin.close()
        assert await running.ended() == 0
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.gather(*readers)
    assert running.err == ""


def test_the_declarations_are_those_of_the_schemas() -> None:
    assert (EXAMPLES / "frames.d.ts").read_text() == declarations(), "todo-projection schema typescript > the file"


def test_it_is_no_longer_than_it_says() -> None:
    assert len((EXAMPLES / "subscribe.ts").read_text().splitlines()) <= LINES_MAX


@pytest.mark.usefixtures("built")
async def test_it_shows_each_change_as_it_is_published(redis_url: str, namespace: str, client: Client) -> None:
    log = SessionLog(client, "会話/1")
    async with working(redis_url, namespace), following(redis_url, log.session, namespace) as shown:
        await shown.shows(ABSENT)
        for n in range(20):
            await log.append("todo/write", plan(f"{n}"))
        await shown.shows(todos("19"))
        await log.append("todo/write", plan())
        await shown.shows([])
        await log.append("turn/start", {"turn": 1})
        await shown.shows(None)
        assert await log.delete()
        await shown.shows(ABSENT)
        await SessionLog(client, log.session).append("todo/write", plan("anew"))
        await shown.shows(todos("anew"))


@pytest.mark.usefixtures("built")
async def test_with_every_frame_dropped_it_shows_the_newest_within_five_seconds(
    own_server: Server, namespace: str, client: Client, redis: Redis
) -> None:
    async with mute_worker(own_server, redis, namespace), following(own_server.url, "s1", namespace) as shown:
        await shown.shows(ABSENT)
        for n in range(2):
            await SessionLog(client, "s1").append("todo/write", plan(f"{n}"))
            await shown.shows(todos(f"{n}"), within=5)


@pytest.mark.usefixtures("built")
async def test_what_was_published_while_its_connection_was_lost_is_shown(
    own_server: Server, namespace: str, redis: Redis
) -> None:
    async with (
        connect(own_server.url, namespace=namespace) as client,
        working(own_server.url, namespace),
        following(own_server.url, "s1", namespace) as shown,
    ):
        await shown.shows(ABSENT)
        for n in range(3):
            append = SessionLog(client, "s1").append("todo/write", plan(f"{n}"))
            await asyncio.gather(redis.client_kill_filter(_type="pubsub"), append)
            await shown.shows(todos(f"{n}"), within=5)
        await asyncio.to_thread(own_server.kill)
        await shown.shows(todos("2"), "reconnecting", within=5)
        await asyncio.to_thread(own_server.restart)
        await shown.shows(ABSENT)


@pytest.mark.usefixtures("built")
async def test_a_frame_that_comes_while_the_baseline_is_read_is_applied_on_top(
    proxy: Proxy, redis_url: str, namespace: str, client: Client
) -> None:
    held = proxy.hold_reply(b"hgetall")
    async with working(redis_url, namespace), following(proxy.url, "s1", namespace) as shown:
        await held.hit.wait()
        await SessionLog(client, "s1").append("todo/write", plan("new"))
        await eventually(lambda: _projected(client, "s1"))
        held.release()
        await shown.shows(todos("new"))
        assert next(one["values"].get("todos") for one in shown.all if one["state"] == "live") == todos("new")


@pytest.mark.usefixtures("built")
async def test_a_connection_that_dies_without_a_word_is_noticed(
    proxy: Proxy, redis_url: str, namespace: str, client: Client
) -> None:
    async with working(redis_url, namespace), following(proxy.url, "s1", namespace) as shown:
        await shown.shows(ABSENT)
        proxy.silence()
        await shown.shows(ABSENT, "reconnecting")
        await SessionLog(client, "s1").append("todo/write", plan("meanwhile"))
        proxy.resume()
        await shown.shows(todos("meanwhile"))


@pytest.mark.usefixtures("built")
async def test_a_subscription_that_alone_dies_without_a_word_is_begun_again(
    proxy: Proxy, redis_url: str, namespace: str, client: Client
) -> None:
    async with working(redis_url, namespace), following(proxy.url, "s1", namespace) as shown:
        await shown.shows(ABSENT)
        dead = proxy.lose_reply(b"ping")
        async with asyncio.timeout(10):
            await dead.hit.wait()
        await shown.shows(ABSENT, "reconnecting")
        await shown.shows(ABSENT)
        await SessionLog(client, "s1").append("todo/write", plan("a"))
        await shown.shows(todos("a"))


@pytest.mark.usefixtures("built")
async def test_a_fail_over_and_a_missing_worker_are_shown(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    stored = Stored(redis, namespace, "s1")
    async with following(redis_url, "s1", namespace) as shown:
        async with working(redis_url, namespace):
            await SessionLog(client, "s1").append("todo/write", plan("kept"))
            await shown.shows(todos("kept"))
            copy = await stored.copy()
            await SessionLog(client, "s1").append("todo/write", plan("lost"))
            await shown.shows(todos("lost"))
            await stored.fail_over(copy)
            await shown.shows(todos("kept"), within=5)
        await SessionLog(client, "s1").append("todo/write", plan("waiting"))
        await shown.shows(todos("kept"), "behind", within=7)
        async with working(redis_url, namespace):
            await shown.shows(todos("waiting"))


async def _projected(client: Client, session: str) -> bool:
    return bool(await client.ask("EXISTS", (await client.keys()).row(session)))
