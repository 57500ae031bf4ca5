"""Metrics and health of a worker process, as those see them who watch it from outside."""

import asyncio
import signal
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis

from eventually import eventually
from projecting import working
from proxy import Proxy
from running import Running, operator, running
from scraped import Scraped, health, scrape
from servers import Server
from stepping import TALK, write
from todo_projection.embedded import free_port
from todo_projection.monitor import Health, monitoring
from todo_projection.settings import Settings
from todo_projection.tally import Tally
from todo_projection.vitals import ANSWER_S, Pulse
from todo_projection.wire import Wire
from todo_write.log import Client, SessionLog

FAST = {"TODO_BLOCK_MS": "50", "TODO_BEAT_MS": "100"}


@asynccontextmanager
async def watched(redis_url: str, namespace: str, **variables: str) -> AsyncGenerator[tuple[Running, int]]:
    """A worker process with a metrics port, once it is ready."""
    port = free_port()
    command = operator(redis_url, namespace, TODO_METRICS_PORT=str(port), **FAST, **variables)
    async with running(command, "worker") as process:
        await eventually(lambda: asyncio.to_thread(_is_ready, port), within=30)
        yield process, port


def _is_ready(port: int) -> bool:
    return health(port, "/readyz") == 200


async def scraped(port: int) -> Scraped:
    return await asyncio.to_thread(scrape, port)


async def test_a_worker_tells_what_it_has_done_and_how_the_whole_is(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    keys = await client.keys()
    await redis.hset(keys.stale(0), "s9", '{"todos":{"seq":3,"reason":"unsound","since":5}}')
    async with watched(redis_url, namespace) as (_, port):
        await SessionLog(client, "s1").append_all([write("a"), TALK, write("b", status="in_progress")])

        async def done() -> Scraped | None:
            found = await scraped(port)
            return found if found.value("todo_projection_events_total", outcome="projected") == 3 else None

        found = await eventually(done)
        assert found is not None
        assert found.value("todo_projection_events_total", outcome="projected") == 3
        assert found.value("todo_projection_publishes_total") == 1
        assert found.value("todo_projection_step_seconds_count") == 1
        assert found.value("todo_projection_commit_seconds_bucket", le="+Inf") == 1
        assert found.value("todo_projection_redis_up") == 1
        assert found.value("todo_projection_workers", state="working") == 1
        assert found.value("todo_projection_stale_sessions") == 1
        assert abs(found.value("todo_projection_clock_offset_seconds") or 9) < 2
        now, beat = time.time(), found.value("todo_projection_worker_beat_timestamp_seconds")
        assert beat is not None
        assert now - 5 < beat <= now + 1
        assert {"s1", "s9"}.isdisjoint({value for _, labels in found.told for _, value in labels})


async def test_a_scrape_while_redis_is_away_answers_at_once_and_says_so(
    own_server: Server, redis_url: str, namespace: str
) -> None:
    async with watched(redis_url, namespace) as (_, port):
        own_server.kill()
        began = time.monotonic()
        found = await scraped(port)
        assert time.monotonic() - began < ANSWER_S + 1
        assert found.value("todo_projection_redis_up") == 0
        assert found.value("todo_projection_backlog_events") is None
        assert found.value("todo_projection_events_total", outcome="projected") == 0
        await eventually(lambda: asyncio.to_thread(lambda: health(port, "/readyz") == 503))
        assert await asyncio.to_thread(health, port, "/livez") == 200


async def test_a_scrape_of_a_frozen_redis_ends_in_time(redis_url: str, namespace: str, proxy: Proxy) -> None:
    async with watched(proxy.url, namespace) as (_, port):
        proxy.silence()
        began = time.monotonic()
        found = await asyncio.gather(*(scraped(port) for _ in range(4)))
        assert time.monotonic() - began < ANSWER_S + 2
        assert {one.value("todo_projection_redis_up") for one in found} == {0}
        proxy.resume()


async def test_a_stopped_worker_fails_its_probes_and_passes_them_when_it_goes_on(
    redis_url: str, namespace: str
) -> None:
    async with watched(redis_url, namespace) as (process, port):
        asks = operator(redis_url, namespace, TODO_METRICS_PORT=str(port))
        assert (await asks("alive", "worker", "--ready")).code == 0
        process.send(signal.SIGSTOP)
        stopped = await asks("alive", "worker")
        assert (stopped.code, "no answer" in stopped.err) == (1, True)
        process.send(signal.SIGCONT)
        await eventually(lambda: asyncio.to_thread(_is_ready, port))


async def test_a_worker_whose_steps_hang_is_dead_though_its_loop_goes_round() -> None:
    tally = Tally()
    seen = Health(tally, beat_ms=1000, step_s_max=0.05)
    tally.beat()
    await eventually(seen.live)
    assert "hangs" in seen.live()[0]
    assert seen.ready() == []
    tally.step()
    assert seen.live() == []


async def test_a_loop_that_hangs_is_told_from_beside_it(redis_url: str, namespace: str) -> None:
    settings = Settings.from_env({}, redis_url=redis_url, namespace=namespace, metrics_port=free_port())
    answers: list[Scraped] = []
    async with monitoring(Tally(), settings):
        asking = threading.Thread(target=lambda: answers.append(scrape(settings.metrics_port)))
        asking.start()
        asking.join(ANSWER_S + 5)  # the loop does not come round meanwhile
    assert [answer.value("todo_projection_redis_up") for answer in answers] == [0]


async def test_a_backlog_is_neither_death_nor_unreadiness(redis_url: str, namespace: str, client: Client) -> None:
    async with working(redis_url, namespace, beat_ms=100) as worker:
        await eventually(lambda: worker.tally.beaten_at)
        worker.stop()
        await SessionLog(client, "s1").append("note", {})
        seen = Health(worker.tally, beat_ms=1000)
        assert (seen.live(), seen.ready()) == ([], [])


async def test_two_workers_of_one_machine_need_a_port_each(redis_url: str, namespace: str) -> None:
    async with watched(redis_url, namespace) as (_, port):
        second = await operator(redis_url, namespace, TODO_METRICS_PORT=str(port))("worker")
        assert second.code == 1
        assert f"can't listen on 127.0.0.1:{port}" in second.err
        async with watched(redis_url, namespace) as (_, other):
            assert (await scraped(other)).value("todo_projection_workers", state="working") == 2


async def test_many_scrapes_leave_nothing_behind(redis_url: str, namespace: str) -> None:
    async with watched(redis_url, namespace) as (_, port):
        before = await scraped(port)
        for _ in range(100):
            await asyncio.gather(*(scraped(port) for _ in range(3)))
        after = await scraped(port)
        assert (after.value("process_open_fds") or 0) <= (before.value("process_open_fds") or 0) + 2
        assert after.names == before.names


async def test_feeds_that_stand_are_told_apart_by_whether_somebody_was_given_them(
    redis_url: str, client: Client, redis: Redis
) -> None:
    keys = await client.keys()
    wire = Wire(redis_url)
    pulse = Pulse(client, wire, beat_ms=1000, standing_s=0.0)
    try:
        assert (await pulse.take())[3:] == (0, 0)
        await SessionLog(client, "s1").append("note", {})
        assert (await pulse.take())[3:] == (1, 0)
        feed = keys.feed(keys.partition("s1"))
        await redis.xgroup_create(feed, "projection", "0")
        assert (await pulse.take())[3:] == (1, 0)
        await redis.xreadgroup("projection", "w", {feed: ">"})
        assert (await pulse.take())[3:] == (0, 1)
    finally:
        await wire.aclose()


async def test_a_feed_that_moves_does_not_stand(redis_url: str, client: Client, redis: Redis) -> None:
    keys = await client.keys()
    wire = Wire(redis_url)
    pulse = Pulse(client, wire, beat_ms=1000, standing_s=1e-9)
    feed = keys.feed(keys.partition("s1"))
    try:
        for _ in range(3):
            await redis.delete(feed)
            await SessionLog(client, "s1").append("note", {})
            assert (await pulse.take()).unread == 0
        assert (await pulse.take()).unread == 1
    finally:
        await wire.aclose()


@pytest.mark.parametrize("path", ["/metrics", "/livez", "/readyz", "/else"])
async def test_the_probe_serves_its_paths_and_no_other(redis_url: str, namespace: str, path: str) -> None:
    settings = Settings.from_env({}, redis_url=redis_url, namespace=namespace, metrics_port=free_port())
    tally = Tally()
    tally.beat()
    async with monitoring(tally, settings):
        expected = 404 if path == "/else" else 200
        assert await asyncio.to_thread(health, settings.metrics_port, path) == expected


async def test_a_worker_without_a_port_has_nobody_to_ask(redis_url: str, namespace: str) -> None:
    asked = await operator(redis_url, namespace)("alive", "worker")
    assert asked.code == 2
    assert "TODO_METRICS_PORT is 0" in asked.err
