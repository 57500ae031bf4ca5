"""The subscriber on a real server: what a reader is shown while plans change, and what it costs to keep it so."""

import asyncio
import itertools
import json
import logging
import os
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from eventually import eventually
from projecting import projected, working
from proxy import Proxy
from serving import plan
from stored import Stored
from todo_projection.frames import encode
from todo_projection.subscriber import Deleted, Frame, Snapshot, Subscriber, subscribe
from todo_projection.views import Views
from todo_write.events import InvalidSession, Position
from todo_write.log import Client, SessionLog, connect
from viewing import ABSENT, Viewer, reading, viewing

PROBE = encode(Frame("probe", "todos", msgspec.Raw(b"[]"), 0, 1, "1-probe", 2, 0))
UNPOLLED_MS = 600_000  # a poll may see a commit just before its frame comes, and has the row read again
SUBSCRIPTIONS = int(os.environ.get("TODO_TEST_SUBSCRIPTIONS", "150"))


@pytest.fixture
async def worker(redis_url: str, namespace: str) -> AsyncIterator[None]:
    async with working(redis_url, namespace, audit_rate=0):  # it would mend what these tests spoil
        yield


def todos(*items: str) -> list[dict[str, str]]:
    return [{"content": item, "status": "pending"} for item in items]


async def calls(redis: Redis, command: str) -> int:
    """How often the server has run the command so far."""
    stats: Any = await redis.info("commandstats")
    return int(stats.get(f"cmdstat_{command}", {}).get("calls", 0))


async def test_a_session_nobody_wrote_to_is_absent_until_its_first_event(client: Client, worker: None) -> None:
    async with viewing(client, "s1", poll_ms=UNPOLLED_MS) as viewer:
        await viewer.begun("s1")
        assert viewer.updates[0].baseline.as_of_seq == -1  # type: ignore[union-attr]  # a snapshot, or this fails
        await viewer.is_told("live")
        await SessionLog(client, "s1").append("todo/write", plan("a"))
        await viewer.shows("s1", todos("a"))
        await eventually(lambda: viewer.value("s1", "board") != ABSENT)  # what no frame tells comes as well
        assert viewer.subscriber.views.resyncs == 0


async def test_absent_null_and_an_empty_list_are_three_things(client: Client, worker: None) -> None:
    log = SessionLog(client, "s1")
    steps: list[tuple[str, Any, Any]] = [
        ("todo/write", plan("a"), todos("a")),
        ("todo/write", plan(), []),
        ("turn/start", {"turn": 1}, None),
        ("todo/write", plan(), []),
    ]
    async with viewing(client, "s1") as viewer:
        await viewer.begun("s1")
        assert viewer.value("s1") == ABSENT
        for type, data, value in steps:
            await log.append(type, data)
            await viewer.shows("s1", value)


async def test_each_session_shows_its_own_plan_only(client: Client, worker: None) -> None:
    async with viewing(client, "parent", "child") as viewer:
        await SessionLog(client, "child").append("session/start", {"parentSession": "parent"})
        await SessionLog(client, "child").append("todo/write", plan("c"))
        await viewer.shows("child", todos("c"))
        assert viewer.value("parent") == ABSENT
        await SessionLog(client, "parent").append("todo/write", plan("p"))
        await viewer.shows("parent", todos("p"))
        assert viewer.value("child") == todos("c")


async def test_a_long_list_with_a_long_item_comes_whole(client: Client, worker: None) -> None:
    items = ["计" * 20_000, *(f'item {n}: \u2028 \n " 🚀' for n in range(199))]
    async with viewing(client, "s1") as viewer:
        await viewer.begun("s1")
        await SessionLog(client, "s1").append("todo/write", plan(*items))
        await viewer.shows("s1", todos(*items))


async def test_subscribing_while_commits_run_leaves_no_hole(client: Client, redis: Redis, worker: None) -> None:
    log, keys, stop = SessionLog(client, "s1"), await client.keys(), asyncio.Event()
    last: list[tuple[int, Position]] = []

    async def write() -> None:
        for n in itertools.count():
            last[:] = [(n, await log.append("todo/write", plan(f"{n}")))]
            if stop.is_set():
                return

    async with Subscriber(client, poll_ms=UNPOLLED_MS) as subscriber:
        writing = asyncio.create_task(write())
        await eventually(lambda: last)
        for n in range(SUBSCRIPTIONS):
            async with reading(Viewer(subscriber, "s1")) as viewer:
                await viewer.begun("s1")
                if n % 10 == 0:
                    await eventually(lambda: viewer.of(Frame))
        async with reading(Viewer(subscriber, "s1")) as viewer:
            await viewer.begun("s1")
            stop.set()
            await writing
            ((n, position),) = last
            await projected(redis, keys, "s1", position)
            await viewer.shows("s1", todos(f"{n}"))
        assert subscriber.views.resyncs == 0  # no frame was missing, none was of another history


async def test_a_newer_frame_than_the_baseline_that_is_answered_late_is_what_is_shown(
    proxy: Proxy, client: Client, redis: Redis, namespace: str, worker: None
) -> None:
    log, keys = SessionLog(client, "s1"), await client.keys()
    await projected(redis, keys, "s1", await log.append("todo/write", plan("old")))
    held = proxy.hold_reply(b"HGETALL")
    async with connect(proxy.url, namespace=namespace) as slow, viewing(slow, "s1", poll_ms=UNPOLLED_MS) as viewer:
        await held.hit.wait()
        for content in ("new", "newer"):
            await projected(redis, keys, "s1", await log.append("todo/write", plan(content)))
        held.release()
        await viewer.shows("s1", todos("newer"))
        assert viewer.of(Frame) == []
        await viewer.is_told("live")
        assert viewer.subscriber.views.resyncs == 0


async def test_a_list_cleared_while_an_older_snapshot_is_on_its_way_stays_cleared(
    proxy: Proxy, client: Client, redis: Redis, namespace: str, worker: None
) -> None:
    log, keys = SessionLog(client, "s1"), await client.keys()
    await projected(redis, keys, "s1", await log.append("todo/write", plan("old")))
    held = proxy.hold_reply(b"HGETALL")
    async with connect(proxy.url, namespace=namespace) as slow, viewing(slow, "s1") as viewer:
        await held.hit.wait()
        await projected(redis, keys, "s1", await log.append("turn/start", {"turn": 1}))
        held.release()
        await viewer.begun("s1")
        assert viewer.value("s1") is None


async def test_what_is_shown_never_goes_back_when_a_baseline_is_read_again(
    proxy: Proxy, client: Client, redis: Redis, namespace: str, worker: None
) -> None:
    """Wanted once more while one is on its way, the second read is older than the frame that comes during it."""
    log, keys = SessionLog(client, "s1"), await client.keys()
    await projected(redis, keys, "s1", await log.append("todo/write", plan("old")))
    async with connect(proxy.url, namespace=namespace) as slow, viewing(slow, "probe", poll_ms=UNPOLLED_MS) as probe:
        await probe.begun("probe")
        async with reading(Viewer(probe.subscriber, "s1")) as viewer:
            await viewer.shows("s1", todos("old"))
            first = proxy.hold_reply(b"HGETALL")
            async with reading(Viewer(probe.subscriber, "s1")):
                await first.hit.wait()
                second = proxy.hold_reply(b"HGETALL")
                async with reading(Viewer(probe.subscriber, "s1")) as third:
                    first.release()
                    await second.hit.wait()
                    await projected(redis, keys, "s1", await log.append("todo/write", plan("new")))
                    await redis.publish(keys.channel("probe"), PROBE)
                    await eventually(lambda: probe.of(Frame))  # so the other frame has arrived as well
                    second.release()
                    async with reading(Viewer(probe.subscriber, "s1")) as fourth:
                        await fourth.shows("s1", todos("new"))  # behind the second read
                    await third.shows("s1", todos("new"))
                    await viewer.shows("s1", todos("new"))
            contents = [_content(update) for update in viewer.updates if isinstance(update, Snapshot | Frame)]
            assert [content for content, _ in itertools.groupby(contents)] == ["old", "new"]
        assert probe.subscriber.views.resyncs == 0


def _content(update: Snapshot | Frame) -> str:
    raw = update.value if isinstance(update, Frame) else update.baseline.values["todos"]
    content: str = json.loads(bytes(raw))[0]["content"]
    return content


async def test_a_deleted_session_is_told_and_one_that_begins_anew_is_shown(client: Client, worker: None) -> None:
    async with viewing(client, "s1", poll_ms=UNPOLLED_MS) as viewer:
        await viewer.begun("s1")
        await SessionLog(client, "s1").append("todo/write", plan("old"))
        await viewer.shows("s1", todos("old"))
        for n in range(5):
            assert await SessionLog(client, "s1").delete()
            await viewer.shows("s1", ABSENT)
            await SessionLog(client, "s1").append("todo/write", plan(f"{n}"))
            await viewer.shows("s1", todos(f"{n}"))
        assert len(viewer.of(Deleted)) == 5
        assert viewer.subscriber.views.resyncs == 0


async def test_a_mark_and_its_healing_reach_an_open_viewer(
    client: Client, redis: Redis, namespace: str, worker: None
) -> None:
    log, stored = SessionLog(client, "s1"), Stored(redis, namespace, "s1")
    async with viewing(client, "s1") as viewer:
        epoch, _ = await log.append("todo/write", plan("good"))
        await viewer.shows("s1", todos("good"))
        unsound = {"type": "todo/write", "time": "5", "op": "xxxxxxxx", "data": '{"todos": 7}'}
        await redis.xadd(stored.log, unsound, id=f"{epoch}-1")  # type: ignore[arg-type]  # redis-py wants wider keys
        await redis.xadd(stored.feed, {"s": "s1", "i": f"{epoch}-1", "o": "xxxxxxxx", "t": "todo/write"})
        await eventually(lambda: viewer.stale["s1"])
        assert (viewer.stale["s1"]["todos"].seq, viewer.value("s1")) == (1, todos("good"))
        await SessionLog(client, "s1").append("todo/write", plan("better"))
        await viewer.shows("s1", todos("better"))
        assert viewer.stale["s1"] == {}


async def test_a_value_that_a_refold_mends_at_the_same_event_is_shown(
    client: Client, redis: Any, namespace: str, worker: None
) -> None:
    stored = Stored(redis, namespace, "s1")
    async with viewing(client, "s1") as viewer:
        position = await SessionLog(client, "s1").append("todo/write", plan("right"))
        await viewer.shows("s1", todos("right"))
        wrong = b'[{"content":"wrong","status":"pending"}]'
        await redis.hset(
            stored.row, mapping={"todos": wrong, "etag": "xxxxxxxx", "rev": "7-xxxxxxxx", "units": "board:1,todos:0"}
        )
        await viewer.shows("s1", todos("wrong"), within=5)
        await SessionLog(client, "s1").append("chat", "anything: its pointer has the row folded again")
        await viewer.shows("s1", todos("right"), within=5)
        assert viewer.of(Frame)[-1].seq == position.seq


async def test_sessions_come_and_go_while_it_runs(client: Client, redis: Redis, worker: None) -> None:
    keys = await client.keys()
    async with viewing(client, "s1") as viewer:
        await viewer.begun("s1")
        viewer.plans.add("s2", "s3")
        await viewer.begun("s3")
        viewer.plans.drop("s1", "s3")
        await eventually(lambda: _none_subscribed(redis, keys.channel("s1"), keys.channel("s3")))
        for session in ("s1", "s2", "s3"):
            await SessionLog(client, session).append("todo/write", plan(session))
        await viewer.shows("s2", todos("s2"))
        assert (viewer.value("s1"), viewer.value("s3")) == (ABSENT, ABSENT)
        viewer.plans.add("s1")
        await viewer.shows("s1", todos("s1"))
    assert await _none_subscribed(redis, keys.channel("s1"), keys.channel("s2"))


async def _none_subscribed(redis: Any, *channels: str) -> bool:
    return all(count == 0 for _, count in await redis.pubsub_numsub(*channels))


async def test_a_session_dropped_and_added_again_at_once_gets_its_snapshot(client: Client, worker: None) -> None:
    async with viewing(client, "s1") as viewer:
        await viewer.begun("s1")
        for n in range(20):
            viewer.plans.drop("s1")
            del viewer.values["s1"]
            viewer.plans.add("s1")
            await viewer.begun("s1")
            await SessionLog(client, "s1").append("todo/write", plan(f"{n}"))
            await viewer.shows("s1", todos(f"{n}"))


async def test_many_sessions_share_one_connection(client: Client, redis: Redis, worker: None) -> None:
    sessions = [f"s{n}" for n in range(300)]
    async with viewing(client, *sessions) as viewer:
        await eventually(lambda: len(viewer.values) == len(sessions))
        listeners: Any = await redis.client_list(_type="pubsub")
        assert len([one for one in listeners if int(one["sub"]) + int(one.get("ssub", 0)) >= len(sessions)]) == 1
        for session in sessions[::50]:
            await SessionLog(client, session).append("todo/write", plan(session))
        for session in sessions[::50]:
            await viewer.shows(session, todos(session))


async def test_an_id_that_is_none_is_refused_and_leaves_nothing(client: Client) -> None:
    async with Subscriber(client) as subscriber:
        with pytest.raises(InvalidSession):
            subscriber.subscription("s1", "a{b")
        assert subscriber.views.sessions == set()
        plans = subscriber.subscription("s1")
        with pytest.raises(InvalidSession):
            plans.add("s2", "")
        subscriber.release(plans)
        plans.add("s3")
        assert subscriber.views.sessions == set()


async def test_messages_that_are_none_of_ours_change_nothing(
    client: Client, redis: Redis, worker: None, caplog: pytest.LogCaptureFixture
) -> None:
    channel = (await client.keys()).channel("s1")
    async with viewing(client, "s1") as viewer:
        await SessionLog(client, "s1").append("todo/write", plan("a"))
        await viewer.shows("s1", todos("a"))
        other = b'{"type":"session/deleted","sessionId":"s2","epoch":9999999999999,"rev":"9-aaaaaaaa"}'
        for message in (b"not of ours", b"\xff", b"{}", other):
            await redis.publish(channel, message)
        await SessionLog(client, "s1").append("todo/write", plan("b"))
        await viewer.shows("s1", todos("b"))
    assert caplog.text.count("none of ours") == 4
    assert "9999" not in caplog.text


async def test_events_that_change_no_plan_cost_no_baseline(client: Client, redis: Redis, worker: None) -> None:
    async with viewing(client, "s1", poll_ms=500) as viewer:
        await SessionLog(client, "s1").append("todo/write", plan("a"))
        await viewer.shows("s1", todos("a"))
        polls = await calls(redis, "time")
        while await calls(redis, "time") < polls + 3:
            await SessionLog(client, "s1").append("chat", "hello")
        assert viewer.subscriber.views.resyncs == 0
        assert len(viewer.of(Snapshot)) <= 2  # the first, and the one with the rest of a new session's values


async def test_a_mistake_of_ours_is_told_and_the_rest_goes_on(
    client: Client, worker: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with viewing(client, "s1") as viewer:
        await viewer.is_told("live")
        with monkeypatch.context() as broken:
            broken.setattr(Views, "arrived", None)
            await SessionLog(client, "s1").append("todo/write", plan("a"))
            await viewer.is_told("reconnecting")
        assert [record.levelno for record in caplog.records if "mistake of ours" in record.message] == [logging.ERROR]
        assert "TypeError" in caplog.text
        await viewer.shows("s1", todos("a"))
        await viewer.is_told("live")


async def test_a_slow_reader_skips_to_the_newest(client: Client, redis: Redis, worker: None) -> None:
    log = SessionLog(client, "s1")
    async with subscribe(client, "s1") as plans:
        assert isinstance((await plans.take())[0], Snapshot)
        positions = [await log.append("todo/write", plan(f"{n}")) for n in range(50)]
        await projected(redis, await client.keys(), "s1", positions[-1])
        await eventually(lambda: plans.skipped)
        seen: list[Any] = []
        while not (seen and isinstance(seen[-1], Frame) and seen[-1].seq == 49):
            seen += await plans.take()
        assert len(seen) < 10


async def test_no_baseline_is_read_before_the_subscription_is_confirmed(
    redis: Redis, namespace: str, proxy: Proxy
) -> None:
    confirmation = proxy.hold_reply(b"SUBSCRIBE")
    async with connect(proxy.url, namespace=namespace) as far:
        before = await calls(redis, "hgetall")
        async with viewing(far, "s1", poll_ms=1000) as viewer:
            await confirmation.hit.wait()
            polls = await calls(redis, "time")
            await eventually(lambda: polled(redis, polls + 1))
            assert await calls(redis, "hgetall") == before, (
                "what is published now would be missed, and nobody would know"
            )
            confirmation.release()
            await viewer.begun("s1")


async def polled(redis: Redis, count: int) -> bool:
    return await calls(redis, "time") >= count
