"""The stream of plans: what a client is shown, whatever is lost on the way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.asyncio import Redis

from projecting import projected, working
from proxy import Proxy
from servers import Server
from serving import plan, serving
from sse import Http, Reader, of
from stored import Stored
from todo_projection.embedded import free_port
from todo_write.events import Position
from todo_write.log import Client, SessionLog, connect


@pytest.fixture
async def http(redis_url: str, namespace: str) -> AsyncIterator[Http]:
    async with serving(redis_url, namespace) as http:
        yield http


@pytest.fixture
async def worker(redis_url: str, namespace: str) -> AsyncIterator[None]:
    async with working(redis_url, namespace):
        yield


def todos(*items: str) -> list[dict[str, str]]:
    return [{"content": item, "status": "pending"} for item in items]


@pytest.mark.every_server
async def test_a_session_nobody_wrote_to_has_an_empty_snapshot_and_then_its_first_plan(
    http: Http, client: Client, worker: None
) -> None:
    async with http.stream(of("s1")) as stream:
        assert (await stream.got("snapshot")).data == {
            "sessionId": "s1",
            "asOfSeq": -1,
            "epoch": None,
            "rev": None,
            "values": {},
            "at": {},
            "stale": {},
        }
        assert (await stream.got("status")).data["state"] == "live"
        position = await SessionLog(client, "s1").append("todo/write", plan("a"))
        frame = (await stream.got("projection")).data
        assert (frame["type"], frame["key"], frame["value"]) == ("session/projection", "todos", todos("a"))
        assert (frame["epoch"], frame["seq"]) == position


async def test_no_plan_is_null_an_empty_plan_is_a_list_and_an_unknown_one_is_absent(
    http: Http, client: Client, worker: None
) -> None:
    log = SessionLog(client, "s1")
    async with http.stream(of("s1")) as stream:
        assert "todos" not in (await stream.got("snapshot")).data["values"]
        for n, (type, data, value) in enumerate(
            [
                ("todo/write", plan("a"), todos("a")),
                ("todo/write", plan(), []),
                ("turn/start", {"turn": 1}, None),
                ("todo/write", plan(), []),
            ]
        ):
            await log.append(type, data)
            assert (await stream.got("projection", n + 1)).data["value"] == value
    async with http.stream(of("s1")) as stream:
        assert (await stream.got("snapshot")).data["values"]["todos"] == []


async def test_the_events_of_a_plan_carry_no_ids(http: Http, client: Client, worker: None) -> None:
    async with http.stream(of("s1")) as stream:
        await stream.got("snapshot")
        await SessionLog(client, "s1").append("todo/write", plan("a"))
        await stream.got("projection")
        assert {event.id for event in stream.events} == {None}


async def test_many_sessions_come_over_one_stream_each_with_its_snapshot_first(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    logs = [SessionLog(client, f"s{n}") for n in range(50)]
    for log in logs:
        await log.append("todo/write", plan(log.session))
    async with http.stream(of(*(log.session for log in logs), "s0")) as stream:
        for log in logs:
            await log.append("todo/write", plan(log.session, "more"))
        for log in logs:
            await stream.shows(log.session, todos(log.session, "more"))
        firsts = {event.data["sessionId"]: event.name for event in reversed(stream.events) if event.name != "status"}
        assert set(firsts.values()) == {"snapshot"}
        assert len(firsts) == 50


async def test_a_child_s_plan_is_never_in_its_parent_s(http: Http, client: Client, worker: None) -> None:
    async with http.stream(of("parent")) as parent, http.stream(of("child")) as child:
        await SessionLog(client, "child").append("session/start", {"parentSession": "parent"})
        await SessionLog(client, "child").append("todo/write", plan("c"))
        await SessionLog(client, "parent").append("todo/write", plan("p"))
        await parent.shows("parent", todos("p"))
        await child.shows("child", todos("c"))
        assert {event.data["sessionId"] for event in parent.of("snapshot", "projection")} == {"parent"}


async def test_long_lists_and_long_items_arrive_whole(http: Http, client: Client, worker: None) -> None:
    items = ["计" * 20_000, *(f'item {n}: \u2028 \n \r \\ " 🚀' for n in range(199))]
    async with http.stream(of("s1")) as stream:
        await stream.got("snapshot")
        await SessionLog(client, "s1").append("todo/write", plan(*items))
        await stream.shows("s1", todos(*items))


async def test_two_gateways_show_one_session_alike(
    http: Http, redis_url: str, namespace: str, client: Client, worker: None
) -> None:
    async with serving(redis_url, namespace) as other, http.stream(of("s1")) as one, other.stream(of("s1")) as two:
        for n in range(20):
            await SessionLog(client, "s1").append("todo/write", plan(f"{n}"))
        for stream in (one, two):
            await stream.shows("s1", todos("19"))


@pytest.mark.every_server
async def test_a_deleted_session_is_told_and_one_that_begins_anew_under_the_same_viewer_is_shown(
    http: Http, client: Client, worker: None
) -> None:
    async with http.stream(of("s1")) as stream:
        first = await SessionLog(client, "s1").append("todo/write", plan("old"))
        await stream.shows("s1", todos("old"))
        assert await SessionLog(client, "s1").delete()
        gone = (await stream.got("deleted")).data
        assert (gone["type"], gone["sessionId"], gone["epoch"]) == ("session/deleted", "s1", first.epoch)
        second = await SessionLog(client, "s1").append("todo/write", plan("new"))
        await stream.shows("s1", todos("new"))
        assert stream.events[-1].data["epoch"] == second.epoch > first.epoch
    async with http.stream(of("s1")) as stream:
        assert (await stream.got("snapshot")).data["epoch"] == second.epoch


async def test_a_mark_reaches_an_open_viewer_and_so_does_its_healing(
    http: Http, client: Client, redis: Redis, namespace: str, worker: None
) -> None:
    log, stored = SessionLog(client, "s1"), Stored(redis, namespace, "s1")
    async with http.stream(of("s1")) as stream:
        await stream.got("snapshot")
        epoch, _ = await log.append("todo/write", plan("good"))
        await stream.shows("s1", todos("good"))
        unsound = {"type": "todo/write", "time": "5", "op": "xxxxxxxx", "data": '{"todos": 7}'}
        await redis.xadd(stored.log, unsound, id=f"{epoch}-1")  # type: ignore[arg-type]  # redis-py wants wider keys
        await redis.xadd(stored.feed, {"s": "s1", "i": f"{epoch}-1", "o": "xxxxxxxx", "t": "todo/write"})
        marked = (await stream.got("projection", 2)).data
        assert (marked["value"], marked["stale"]["seq"]) == (todos("good"), 1)
        await SessionLog(client, "s1").append("todo/write", plan("better"))
        healed = (await stream.got("projection", 3)).data
        assert (healed["value"], "stale" in healed) == (todos("better"), False)


async def test_a_frame_that_comes_while_the_baseline_is_read_is_part_of_what_is_shown_first(
    proxy: Proxy, client: Client, redis: Redis, namespace: str, worker: None
) -> None:
    log = SessionLog(client, "s1")
    await projected(redis, await client.keys(), "s1", await log.append("todo/write", plan("old")))
    async with serving(proxy.url, namespace) as http:
        held = proxy.hold_reply(b"HGETALL")
        async with http.stream(of("s1")) as stream:
            await held.hit.wait()
            await projected(redis, await client.keys(), "s1", await log.append("todo/write", plan("new")))
            held.release()
            await stream.shows("s1", todos("new"))
            assert len(stream.of("snapshot", "projection")) == 1


async def test_with_every_frame_dropped_a_viewer_still_sees_the_newest_plan_within_seconds(
    own_server: Server, namespace: str, redis: Redis
) -> None:
    await redis.acl_setuser(
        "mute", enabled=True, passwords=["+p"], keys="*", channels="*", commands=["+@all", "-publish"]
    )
    url = own_server.url.replace("redis://", "redis://mute:p@")
    async with (
        working(url, namespace),
        serving(own_server.url, namespace) as http,
        connect(own_server.url, namespace=namespace) as client,
        http.stream(of("s1")) as stream,
    ):
        await stream.got("snapshot")
        for n in range(3):
            await SessionLog(client, "s1").append("todo/write", plan(f"{n}"))
            await stream.shows("s1", todos(f"{n}"), within=5)
        assert stream.of("projection") == []


async def test_a_lost_subscription_is_told_and_what_was_published_meanwhile_is_shown(
    own_server: Server, namespace: str, redis: Redis
) -> None:
    async with (
        working(own_server.url, namespace),
        serving(own_server.url, namespace) as http,
        connect(own_server.url, namespace=namespace) as client,
        http.stream(of("s1")) as stream,
    ):
        await stream.is_told("live")
        for n in range(5):
            append = SessionLog(client, "s1").append("todo/write", plan(f"{n}"))
            await asyncio.gather(redis.client_kill_filter(_type="pubsub"), append)
            await stream.shows("s1", todos(f"{n}"), within=5)
            await stream.is_told("live", within=5)
        assert "reconnecting" in [event.data["state"] for event in stream.of("status")]


async def test_a_server_that_comes_back_with_nothing_is_shown_as_it_is(own_server: Server, namespace: str) -> None:
    async with (
        working(own_server.url, namespace),
        serving(own_server.url, namespace) as http,
        connect(own_server.url, namespace=namespace) as client,
        http.stream(of("s1")) as stream,
    ):
        await SessionLog(client, "s1").append("todo/write", plan("lost"))
        await stream.shows("s1", todos("lost"))
        await asyncio.to_thread(own_server.kill)
        await stream.is_told("reconnecting", within=5)
        await asyncio.to_thread(own_server.restart)
        await stream.is_told("live")
        await stream.shows("s1", None)
        async with connect(own_server.url, namespace=namespace) as other:
            await SessionLog(other, "s1").append("todo/write", plan("new"))
            await stream.shows("s1", todos("new"), within=15)


async def test_a_half_open_connection_is_noticed(
    proxy: Proxy, client: Client, redis: Redis, namespace: str, worker: None
) -> None:
    async with serving(proxy.url, namespace) as http, http.stream(of("s1")) as stream:
        await stream.is_told("live")
        proxy.silence()
        await stream.is_told("reconnecting", within=10)
        await SessionLog(client, "s1").append("todo/write", plan("meanwhile"))
        proxy.resume()
        await stream.shows("s1", todos("meanwhile"))
        await stream.is_told("live")


async def test_with_no_worker_left_the_plan_is_told_to_be_behind_and_then_live_again(
    http: Http, client: Client, redis_url: str, namespace: str
) -> None:
    async with http.stream(of("s1")) as stream:
        await stream.is_told("live")
        await SessionLog(client, "s1").append("todo/write", plan("waiting"))
        await stream.is_told("behind", within=5)
        async with working(redis_url, namespace):
            await stream.shows("s1", todos("waiting"))
            await stream.is_told("live")


async def test_a_fail_over_that_lost_the_last_events_shows_what_is_left(
    http: Http, client: Client, redis: Redis, namespace: str, worker: None
) -> None:
    stored = Stored(redis, namespace, "s1")
    async with http.stream(of("s1")) as stream:
        await SessionLog(client, "s1").append("todo/write", plan("kept"))
        await stream.shows("s1", todos("kept"))
        copy = await stored.copy()
        await SessionLog(client, "s1").append("todo/write", plan("lost"))
        await stream.shows("s1", todos("lost"))
        await stored.fail_over(copy)
        await stream.shows("s1", todos("kept"), within=5)


async def test_a_gateway_that_is_there_before_the_first_writer_learns_the_layout_from_it(
    http: Http, redis_url: str, namespace: str
) -> None:
    async with http.stream(of("s1")) as stream, http.stream("board=1") as board:
        await stream.is_told("live")
        await board.is_told("live")
        async with (
            working(redis_url, namespace, partitions=4),
            connect(redis_url, namespace=namespace, partitions=4) as client,
        ):
            await SessionLog(client, "s1").append("todo/write", plan("a"))
            await stream.shows("s1", todos("a"))
            await stream.is_told("live")
            await board.got("row")
            await SessionLog(client, "s1").append("todo/write", plan("b"))
            assert (await stream.got("projection")).data["value"] == todos("b")


async def test_a_stream_ends_when_its_life_is_over_and_the_next_one_begins_with_a_snapshot(
    redis_url: str, namespace: str
) -> None:
    async with serving(redis_url, namespace, stream_life_ms=1000) as http:
        for _ in range(2):
            async with http.stream(of("s1")) as stream:
                await stream.got("bye")
                await stream.finished()
                assert [event.name for event in stream.events] == ["snapshot", "status", "bye"]
                assert stream.events[-1].data["reason"] == "life"


async def test_after_a_restart_of_the_gateway_a_client_sees_what_happened_meanwhile(
    redis_url: str, namespace: str, client: Client, worker: None
) -> None:
    port = free_port()
    async with AsyncExitStack() as clients:
        async with serving(redis_url, namespace, gateway_port=port) as http:
            stream = await clients.enter_async_context(http.stream(of("s1")))
            await SessionLog(client, "s1").append("todo/write", plan("before"))
            await stream.shows("s1", todos("before"))
        await stream.finished()
        assert stream.events[-1].data["reason"] == "shutdown"
    await SessionLog(client, "s1").append("todo/write", plan("meanwhile"))
    async with serving(redis_url, namespace, gateway_port=port) as http, http.stream(of("s1")) as stream:
        await stream.shows("s1", todos("meanwhile"))


async def test_heartbeats_come_whether_or_not_anything_else_does(
    redis_url: str, namespace: str, client: Client, worker: None
) -> None:
    async with serving(redis_url, namespace, heartbeat_ms=100) as http, http.stream(of("s1")) as stream:
        await stream.got("heartbeat", 3)
        log = SessionLog(client, "s1")
        before = len(stream.of("heartbeat"))

        async def busy() -> bool:
            await log.append("todo/write", plan("x"))
            return len(stream.of("heartbeat")) >= before + 3

        await stream.until(busy)
        assert stream.of("heartbeat")[-1].data["time"] > 0


@pytest.mark.timeout(240)
async def test_a_stream_cut_after_any_byte_is_taken_up_again_without_going_back(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    log = SessionLog(client, "s1")
    await projected(redis, await client.keys(), "s1", await log.append("todo/write", plan("0")))
    async with http.stream(of("s1")) as stream:
        await stream.got("snapshot")
        await log.append("todo/write", plan("1"))
        await stream.got("projection")
        length = stream.bytes_read
    revs: list[tuple[int, int]] = []
    for cut_at in range(1, length + 1):
        if cut_at % 10 == 0:
            await log.append("todo/write", plan(f"{cut_at}"))
        async with http.stream(of("s1"), cut_at=cut_at) as stream:
            await _read_up(stream)
            revs += [rev for event in stream.of("snapshot", "projection") if (rev := _order(event.data))]
    assert len(revs) > 100
    assert revs == sorted(revs)
    position: Position = await log.append("todo/write", plan("last"))
    await projected(redis, await client.keys(), "s1", position)
    async with http.stream(of("s1")) as stream:
        await stream.shows("s1", todos("last"))


def _order(data: Any) -> tuple[int, int] | None:
    return None if data["rev"] is None else (data["epoch"], int(data["rev"].partition("-")[0]))


async def _read_up(stream: Reader) -> None:
    await stream.until(lambda: stream.ended or stream.of("status"))
