"""The stream of one session's events: every one of them once, in order, whatever happens in between."""

from collections.abc import AsyncIterator

import msgspec
import pytest
from redis.asyncio import Redis

from eventually import eventually
from projecting import projected, working
from proxy import Proxy
from servers import Server
from serving import plan, serving
from sse import Http, Reader, of
from stored import Stored
from todo_projection import tail
from todo_write.events import Position
from todo_write.log import Client, SessionLog, connect


@pytest.fixture
async def http(redis_url: str, namespace: str) -> AsyncIterator[Http]:
    async with serving(redis_url, namespace) as http:
        yield http


def positions(stream: Reader) -> list[str]:
    return [event.id or "" for event in stream.of("event")]


async def read_up(stream: Reader, last: str) -> None:
    await stream.until(lambda: stream.ended or last in positions(stream))


@pytest.fixture
async def worker(redis_url: str, namespace: str) -> AsyncIterator[None]:
    async with working(redis_url, namespace):
        yield


@pytest.mark.every_server
async def test_events_behind_the_snapshot_come_with_their_positions_as_ids(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    log = SessionLog(client, "s1")
    await projected(redis, await client.keys(), "s1", await log.append("note", "part of the snapshot"))
    async with http.stream(of("s1", events=1)) as stream:
        await stream.got("snapshot")
        position = await log.append("todo/write", plan("a"))
        event = await stream.got("event")
        assert event.id == str(position)
        data = event.data
        assert (data["type"], data["sessionId"]) == ("session/event", "s1")
        assert (data["event"]["type"], data["event"]["seq"], data["event"]["data"]) == ("todo/write", 1, plan("a"))
        await stream.shows("s1", plan("a")["todos"])
        assert stream.events[0].name == "snapshot"
        assert {event.id for event in stream.events if event.name != "event"} == {None}


async def test_a_client_that_comes_back_gets_what_it_has_missed_and_nothing_twice(http: Http, client: Client) -> None:
    log = SessionLog(client, "s1")
    appended = [str(position) for position in await log.append_all([("note", n) for n in range(60)])]
    for query, headers in (
        (of("s1", events=1, after=appended[9]), {}),
        (of("s1", events=1), {"last-event-id": appended[9]}),
        (of("s1", events=1, after=appended[0]), {"last-event-id": appended[9]}),
    ):
        async with http.stream(query, headers) as stream:
            await stream.got("event", 50)
            assert positions(stream) == appended[10:]


async def test_the_first_events_of_a_session_nobody_wrote_to_are_all_there(http: Http, client: Client) -> None:
    async with http.stream(of("s1", events=1)) as stream:
        await stream.got("snapshot")
        appended = await SessionLog(client, "s1").append_all([("note", n) for n in range(20)])
        await stream.got("event", 20)
        assert positions(stream) == [str(position) for position in appended]


async def test_cut_after_any_event_the_whole_is_read_in_order_and_once(http: Http, client: Client) -> None:
    log = SessionLog(client, "s1")
    appended = [str(position) for position in await log.append_all([("note", f"{n}\n") for n in range(30)])]
    read: list[str] = []
    while len(read) < 30:
        last = read[-1] if read else str(Position(Position.parse(appended[0]).epoch, -1))
        async with http.stream(of("s1", events=1), {"last-event-id": last}, cut_at=600 + 13 * len(read)) as stream:
            await read_up(stream, appended[-1])
            assert positions(stream)
            read += positions(stream)
    assert read == appended


async def test_many_clients_follow_many_logs_over_one_blocked_connection(
    http: Http, client: Client, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "LOOK_S", 3600)  # only growth that is told is seen
    names = [f"s{n}" for n in range(20)]
    contexts = [http.stream(of(name, events=1)) for name in names for _ in range(3)]
    readers = [await context.__aenter__() for context in contexts]
    try:
        for reader in readers:
            await reader.got("snapshot")
        for n in range(10):
            for name in names:
                await SessionLog(client, name).append("note", n)
        for number, reader in enumerate(readers):
            await reader.got("event", 10)
            assert [event.data["event"]["data"] for event in reader.of("event")] == list(range(10))
            assert {event.data["sessionId"] for event in reader.of("event")} == {names[number // 3]}
        blocked = [client for client in await redis.client_list() if client["flags"] == "b"]
        assert len(blocked) <= 1
    finally:
        for context in contexts:
            await context.__aexit__(None, None, None)


async def test_a_log_that_begins_anew_goes_on_with_its_first_event(
    http: Http, client: Client, redis_url: str, namespace: str
) -> None:
    async with working(redis_url, namespace), http.stream(of("s1", events=1)) as stream:
        await stream.got("snapshot")
        await SessionLog(client, "s1").append_all([("note", n) for n in range(3)])
        await stream.got("event", 3)
        assert await SessionLog(client, "s1").delete()
        second = await SessionLog(client, "s1").append("note", "new")
        await stream.until(lambda: positions(stream)[-1] == str(second))


async def test_a_tail_that_was_lost_is_told_and_what_follows_is_shown(
    http: Http, client: Client, redis: Redis, namespace: str
) -> None:
    stored = Stored(redis, namespace, "s1")
    async with http.stream(of("s1", events=1)) as stream:
        await stream.got("snapshot")
        kept = await SessionLog(client, "s1").append("note", "kept")
        copy = await stored.copy()
        lost = await SessionLog(client, "s1").append("note", "lost")
        await stream.got("event", 2)
        await stored.fail_over(copy)
        rewound = await stream.got("rewound")
        assert (rewound.data, rewound.id) == ({"held": str(lost), "tail": str(kept)}, str(kept))
        await SessionLog(client, "s1").append("note", "instead")
        assert (await stream.got("event", 3)).data["event"]["data"] == "instead"


async def test_another_event_in_the_place_of_the_last_one_is_told(
    http: Http, client: Client, redis: Redis, namespace: str
) -> None:
    stored = Stored(redis, namespace, "s1")
    async with http.stream(of("s1", events=1)) as stream:
        await stream.got("snapshot")
        await SessionLog(client, "s1").append("note", "kept")
        copy = await stored.copy()
        lost = await SessionLog(client, "s1").append("note", "lost")
        await stream.got("event", 2)
        await stored.fail_over(copy)
        assert await SessionLog(client, "s1").append("note", "in its place") == lost
        assert (await stream.got("rewound")).data == {"held": str(lost), "tail": str(lost)}


async def test_a_place_behind_the_end_is_told_and_a_deleted_log_makes_a_client_forget_it(
    http: Http, client: Client
) -> None:
    position = await SessionLog(client, "s1").append("note", 1)
    async with http.stream(of("s1", events=1, after=Position(position.epoch, 7))) as stream:
        assert (await stream.got("rewound")).id == str(position)
    async with http.stream(of("never", events=1, after=position)) as stream:
        rewound = await stream.got("rewound")
        assert (rewound.data["tail"], rewound.id) == (None, "")


async def test_events_go_on_after_redis_was_away(own_server: Server, namespace: str) -> None:
    async with (
        Proxy(own_server.host, own_server.port) as proxy,
        connect(own_server.url, namespace=namespace) as client,
        serving(proxy.url, namespace) as http,
        http.stream(of("s1", events=1)) as stream,
    ):
        log = SessionLog(client, "s1")
        await stream.is_told("live")
        await log.append("note", 1)
        await stream.got("event")
        proxy.refuse()
        await stream.is_told("reconnecting")
        await log.append("note", 2)
        await proxy.accept()
        await stream.got("event", 2)
        await stream.is_told("live")
        await log.append("note", 3)
        await stream.got("event", 3)
        assert [event.data["event"]["data"] for event in stream.of("event")] == [1, 2, 3]


async def test_data_with_line_ends_between_its_tokens_is_one_event(http: Http, client: Client) -> None:
    async with http.stream(of("s1", events=1)) as stream:
        await SessionLog(client, "s1").append("note", msgspec.Raw(b'{\r\n"a":\n\n1,\r"b":"\\n"}'))
        assert (await stream.got("event")).data["event"]["data"] == {"a": 1, "b": "\n"}


async def test_a_key_of_another_type_does_not_stop_the_other_logs(
    http: Http, client: Client, redis: Redis, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "LOOK_S", 3600)
    async with http.stream(of("odd", events=1)) as odd, http.stream(of("fine", events=1)) as fine:
        await SessionLog(client, "odd").append("note", 1)
        await odd.got("event")
        await redis.delete(Stored(redis, namespace, "odd").log)
        await redis.set(Stored(redis, namespace, "odd").log, "a string")

        async def appended() -> bool:
            await SessionLog(client, "fine").append("note", 1)
            return len(fine.of("event")) >= 20

        await eventually(appended, within=15)
