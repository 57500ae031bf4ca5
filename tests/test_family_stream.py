"""What the page asks of the API: relatives of a session, a place in its log by time, what the gateway is."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from granting import OTHERS, bearer, guarding
from projecting import projected, working
from serving import plan, serving
from sse import Http, Reader, of
from todo_write.log import Client, SessionLog


@pytest.fixture
async def http(redis_url: str, namespace: str) -> AsyncIterator[Http]:
    async with serving(redis_url, namespace) as http:
        yield http


@pytest.fixture
async def worker(redis_url: str, namespace: str) -> AsyncIterator[None]:
    async with working(redis_url, namespace):
        yield


async def begin(client: Client, redis: Redis, session: str, parent: str | None = None) -> None:
    start = {} if parent is None else {"parentSession": parent}
    events = [("session/start", start), ("todo/write", plan(session))]
    positions = await SessionLog(client, session).append_all(events)
    await projected(redis, await client.keys(), session, positions[-1])


def rows(stream: Reader) -> dict[str, Any]:
    """The relatives a client shows that takes every event as it comes."""
    found: dict[str, Any] = {}
    for name, data, _ in stream.events:
        if name == "row":
            found[data["sessionId"]] = data
        elif name == "gone":
            found.pop(data["sessionId"])
    return found


async def shown(stream: Reader, *sessions: str) -> None:
    """Return once these are the relatives."""
    await stream.until(lambda: set(rows(stream)) == set(sessions))


async def test_a_stream_of_a_session_can_carry_its_relatives(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    await begin(client, redis, "top")
    await begin(client, redis, "middle", "top")
    await begin(client, redis, "leaf", "middle")
    await begin(client, redis, "leaf of a leaf", "leaf")
    await begin(client, redis, "nobody's")
    async with http.stream(of("middle", events="1", family="1")) as stream:
        await stream.until(lambda: set(rows(stream)) == {"top", "middle", "leaf"})
        await stream.got("snapshot")
        await begin(client, redis, "second leaf", "middle")
        await stream.until(lambda: "second leaf" in rows(stream))
        await SessionLog(client, "leaf").append("todo/write", plan("leaf", status="completed"))
        await stream.until(lambda: rows(stream)["leaf"]["state"] == "done")
        await SessionLog(client, "top").append("session/title", {"title": "The top"})
        await stream.until(lambda: rows(stream)["top"]["board"]["title"] == "The top")
        await SessionLog(client, "second leaf").delete()
        await stream.until(lambda: "second leaf" not in rows(stream))
        assert {event.data["state"] for event in stream.of("status")} == {"live"}  # the plan's, not the board's too
        await SessionLog(client, "middle").append("note", 1)
        assert (await stream.got("event")).data["event"]["type"] == "note"


async def test_a_parent_that_is_told_later_comes_and_the_one_before_goes(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    await begin(client, redis, "one")
    await begin(client, redis, "other")
    await begin(client, redis, "child")
    async with http.stream(of("child", family="1")) as stream:
        await stream.until(lambda: set(rows(stream)) == {"child"})
        for parent in ("one", "other"):
            await SessionLog(client, "child").append("session/start", {"parentSession": parent})
            await shown(stream, "child", parent)


async def test_children_can_be_listed(http: Http, client: Client, redis: Redis, worker: None) -> None:
    await begin(client, redis, "top")
    await begin(client, redis, "a", "top")
    await begin(client, redis, "b", "top")
    found = (await http.get("/api/sessions?parent=top")).json
    assert {entry["sessionId"] for entry in found["sessions"]} == {"a", "b"}
    assert found["counts"]["active"] == 2


async def test_a_token_sees_those_relatives_that_it_sees_on_a_board(
    client: Client, redis: Redis, tmp_path: Path, redis_url: str, namespace: str
) -> None:
    async with guarding(client, redis, tmp_path, redis_url, namespace) as guarded:
        mine, hidden = "team-a/parent", OTHERS
        await begin(client, redis, mine, hidden)
        await begin(client, redis, "team-a/child", mine)
        await begin(client, redis, "team-b/child", mine)
        seen = {}
        for who in ("all", "plans"):
            async with guarded.http.stream(of(mine, family="1"), bearer(who)) as stream:
                await stream.got("counts")
                seen[who] = set(rows(stream))
        assert seen["all"] == {hidden, mine, "team-a/child", "team-b/child"}
        assert seen["plans"] == {mine}  # a token without the board
        async with guarded.http.stream(of(hidden, family="1"), bearer("plans")) as stream:
            assert (await stream.got("snapshot")).data["asOfSeq"] == -1
            assert rows(stream) == {}


async def test_a_place_is_found_by_its_time(
    http: Http, client: Client, redis: Redis, redis_url: str, namespace: str, worker: None
) -> None:
    times = [1000, 2000, 2000, 3000, 5000, 8000]
    log = SessionLog(client, "s1")
    positions = [await log.append("todo/write", plan(f"{n}")) for n in range(len(times))]
    await projected(redis, await client.keys(), "s1", positions[-1])
    stored = await retimed(redis, (await client.keys()).log("s1"), times)
    assert stored == times
    for time_ms, seq in {1000: 0, 1999: 0, 2000: 2, 4999: 3, 5000: 4, 7999: 4, 8000: 5, 9**15: 5}.items():
        page = (await http.get(f"/api/sessions/s1?atTime={time_ms}&limit=1")).json
        assert page["projections"]["asOfSeq"] == seq, time_ms
        assert page["projections"]["values"]["todos"] == plan(f"{seq}")["todos"]
        assert [event["seq"] for event in page["events"]] == [seq]


async def test_a_time_before_the_log_is_refused_with_when_it_begins(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    await begin(client, redis, "s1")
    answer = await http.get("/api/sessions/s1?atTime=999")
    first = (await http.get("/api/sessions/s1")).json["events"][0]["time"]
    assert (answer.status, answer.json["error"]["what"]) == (400, "atTime is before the log begins")
    assert answer.json["error"]["allowed"] == f"{first} or later"
    assert (await http.get("/api/sessions/nobody?atTime=999")).status == 404


async def test_the_gateway_says_what_it_is(redis_url: str, namespace: str) -> None:
    async with serving(redis_url, namespace, heartbeat_ms=500, stuck_ms=7000, quiet_ms=6000) as http:
        told = (await http.get("/api/about")).json
        assert abs(told["now"] - time.time() * 1000) < 60_000
        assert (told["heartbeatMs"], told["stuckMs"], told["quietMs"], told["rowsMax"]) == (500, 7000, 6000, 10_000)
        assert (told["login"], told["board"], told["events"]) == (False, True, True)


async def retimed(redis: Any, log: str, times: list[int]) -> list[int]:
    """The same log with other times, as writers with such clocks would have left it."""
    entries = await redis.xrange(log)
    await redis.delete(log)
    for (id, fields), time_ms in zip(entries, times, strict=True):
        await redis.xadd(log, {**fields, b"time": time_ms}, id)
    return [int(fields[b"time"]) for _, fields in await redis.xrange(log)]
