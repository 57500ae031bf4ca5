"""The gateway's metrics: what its clients get is counted, and no session is named."""

import time
from collections.abc import AsyncIterator

import pytest

from eventually import eventually
from projecting import working
from running import operator, running
from scraped import Scraped
from servers import Server
from serving import plan, serving
from sse import Http, of
from todo_projection.embedded import free_port
from todo_projection.vitals import ANSWER_S
from todo_write.log import Client, SessionLog


@pytest.fixture
async def http(redis_url: str, namespace: str) -> AsyncIterator[Http]:
    async with serving(redis_url, namespace, send_timeout_ms=200) as http:
        yield http


async def scraped(http: Http) -> Scraped:
    answer = await http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return Scraped(answer.body.decode())


async def test_frames_clients_and_delivery_times_are_counted(
    http: Http, redis_url: str, namespace: str, client: Client
) -> None:
    async with working(redis_url, namespace), http.stream(of("s1")) as one, http.stream(of("s1", "s2")) as two:
        for stream in (one, two):
            await stream.got("snapshot")
        await SessionLog(client, "s1").append("todo/write", plan("a"))
        for stream in (one, two):
            await stream.got("projection")
        found = await scraped(http)
        assert found.value("todo_gateway_open_streams") == 2
        assert found.value("todo_gateway_streams_total") == 2
        assert found.value("todo_gateway_frames_total") == 1
        assert found.value("todo_gateway_delivery_seconds_count") == 2
        assert found.value("todo_gateway_delivery_seconds_bucket", le="10.0") == 2
        assert (found.value("todo_gateway_blocks_total") or 0) >= 5
        assert found.value("todo_projection_redis_up") == 1
        assert {"s1", "s2"}.isdisjoint({value for _, labels in found.told for _, value in labels})


async def test_a_client_that_does_not_read_is_counted_when_it_is_cut_off_and_what_it_skipped(
    http: Http, redis_url: str, namespace: str, client: Client
) -> None:
    log = SessionLog(client, "s1")
    async with working(redis_url, namespace), http.deaf(of("s1")):
        number = 0

        async def cut() -> bool:
            nonlocal number
            number += 1
            await log.append("todo/write", plan(f"{number} {'x' * 100_000}"))
            found = await scraped(http)
            return bool(
                found.value("todo_gateway_slow_disconnects_total") and found.value("todo_gateway_skipped_total")
            )

        await eventually(cut, within=30)


async def test_a_scrape_while_redis_is_away_is_answered_in_time(
    own_server: Server, redis_url: str, namespace: str
) -> None:
    async with serving(redis_url, namespace) as http:
        own_server.freeze()
        began = time.monotonic()
        found = await scraped(http)
        own_server.thaw()
        assert time.monotonic() - began < ANSWER_S + 1
        assert (found.value("todo_projection_redis_up"), found.value("todo_gateway_open_streams")) == (0, 0)


async def test_the_command_serves_them_on_its_own_port(redis_url: str, namespace: str) -> None:
    port = free_port()
    async with running(operator(redis_url, namespace), "gateway", "--port", str(port)) as gateway:
        await gateway.says("gateway: http://")
        assert (await scraped(Http("127.0.0.1", port))).value("todo_projection_redis_up") == 1
        asks = operator(redis_url, namespace, TODO_GATEWAY_PORT=str(port))
        assert (await asks("alive", "gateway", "--ready")).code == 0
