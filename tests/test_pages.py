"""Pages of a session's history: where they end, what they hold, and the values at any position."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from projecting import projected, working
from serving import plan, serving
from sse import Http
from stored import Stored
from todo_write.events import Position
from todo_write.log import Client, SessionLog


@pytest.fixture
async def http(redis_url: str, namespace: str) -> AsyncIterator[Http]:
    async with serving(redis_url, namespace) as http:
        yield http


@pytest.fixture
async def worker(redis_url: str, namespace: str) -> AsyncIterator[None]:
    async with working(redis_url, namespace):
        yield


async def page(http: Http, query: str = "", session: str = "s1") -> Any:
    answer = await http.get(f"/api/sessions/{session}{query}")
    assert answer.status == 200, answer.body
    return answer.json


def seqs(found: Any) -> list[int]:
    return [event["seq"] for event in found["events"]]


async def test_the_newest_page_ends_where_its_projection_does(
    http: Http, client: Client, redis: Redis, redis_url: str, namespace: str
) -> None:
    log = SessionLog(client, "s1")
    async with working(redis_url, namespace):
        await projected(redis, await client.keys(), "s1", await log.append("todo/write", plan("a")))
    await log.append("todo/write", plan("not projected: no worker is left"))
    found = await page(http)
    assert seqs(found) == [0]
    assert (found["hasMore"], found["projections"]["asOfSeq"]) == (False, 0)
    assert found["projections"]["values"]["todos"] == plan("a")["todos"]
    assert found["events"][0]["data"] == plan("a")


async def test_pages_go_back_to_the_first_event_without_a_gap_or_a_repeat(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    log = SessionLog(client, "s1")
    positions = await log.append_all([("note", n) for n in range(47)])
    await projected(redis, await client.keys(), "s1", positions[-1])
    found = await page(http, "?limit=20")
    read = seqs(found)
    assert found["hasMore"]
    while found["hasMore"]:
        found = await page(http, f"?limit=20&beforeSeq={read[0]}")
        assert "projections" not in found
        read = seqs(found) + read
    assert read == list(range(47))
    assert await page(http, "?beforeSeq=0") == {"events": [], "hasMore": False}


async def test_a_page_of_heavy_events_is_cut_before_it_is_too_heavy(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    log = SessionLog(client, "s1")
    positions = [await log.append("note", "x" * 500_000) for _ in range(40)]
    await projected(redis, await client.keys(), "s1", positions[-1])
    found = await page(http, "?limit=500")
    assert 1 <= len(found["events"]) < 40
    assert found["hasMore"]
    assert seqs(found)[-1] == 39


@pytest.mark.parametrize("seq", range(6))
async def test_at_any_position_the_values_are_the_fold_up_to_there(
    http: Http, client: Client, redis: Redis, worker: None, seq: int
) -> None:
    steps: list[tuple[str, Any, Any]] = [
        ("note", 1, None),
        ("todo/write", plan("a"), plan("a")["todos"]),
        ("note", 2, plan("a")["todos"]),
        ("todo/write", plan(), []),
        ("turn/start", {"turn": 1}, None),
        ("todo/write", plan("b", "c"), plan("b", "c")["todos"]),
    ]
    positions = await SessionLog(client, "s1").append_all([(type, data) for type, data, _ in steps])
    await projected(redis, await client.keys(), "s1", positions[-1])
    found = await page(http, f"?atSeq={seq}")
    assert seqs(found) == list(range(seq + 1))
    then = found["projections"]
    assert (then["asOfSeq"], then["epoch"], then["rev"]) == (seq, positions[0].epoch, None)
    assert then["values"]["todos"] == steps[seq][2]
    newest = (await page(http))["projections"]
    if seq == 5:
        assert (then["values"], then["at"]) == (newest["values"], newest["at"])


async def test_a_position_beyond_the_end_is_refused_with_the_positions_there_are(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    position = await SessionLog(client, "s1").append("todo/write", plan("a"))
    await projected(redis, await client.keys(), "s1", position)
    answer = await http.get("/api/sessions/s1?atSeq=1")
    assert (answer.status, answer.json["error"]["allowed"]) == (400, "0 to 0")


async def test_values_of_a_log_whose_beginning_was_trimmed_say_so(
    http: Http, client: Client, redis: Redis, namespace: str, worker: None
) -> None:
    positions = await SessionLog(client, "s1").append_all([("note", n) for n in range(5)])
    await projected(redis, await client.keys(), "s1", positions[-1])
    await redis.xtrim(Stored(redis, namespace, "s1").log, minid=str(positions[2]), approximate=False)
    then = (await page(http, "?atSeq=4"))["projections"]
    assert {mark["seq"] for mark in then["stale"].values()} == {2}
    assert set(then["stale"]) == {"board", "todos"}


async def test_a_session_of_which_nothing_is_projected_yet_is_known(http: Http, client: Client) -> None:
    await SessionLog(client, "s1").append("todo/write", plan("a"))
    found = await page(http)
    assert (found["events"], found["projections"]["asOfSeq"], found["projections"]["values"]) == ([], -1, {})
    assert seqs(await page(http, "?beforeSeq=1")) == [0]
    assert (await page(http, "?atSeq=0"))["projections"]["values"]["todos"] == plan("a")["todos"]


async def test_a_deleted_session_is_unknown_until_it_begins_anew(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    keys = await client.keys()
    await projected(redis, keys, "s1", await SessionLog(client, "s1").append("todo/write", plan("old")))
    assert await SessionLog(client, "s1").delete()
    assert (await http.get("/api/sessions/s1")).status == 404
    assert (await http.get("/api/sessions/s1?beforeSeq=1")).status == 404
    assert (await http.get("/api/sessions/s1?atSeq=0")).status == 404
    await projected(redis, keys, "s1", await SessionLog(client, "s1").append("todo/write", plan("new")))
    assert (await page(http))["projections"]["values"]["todos"] == plan("new")["todos"]


async def test_an_event_that_is_no_json_and_an_entry_that_is_no_event_do_not_break_a_page(
    http: Http, client: Client, redis: Redis, namespace: str
) -> None:
    stored = Stored(redis, namespace, "s1")
    epoch, _ = await SessionLog(client, "s1").append("todo/write", plan("a"))
    for seq, fields in enumerate(({"type": "x", "time": "1", "op": "xxxxxxxx", "data": "{"}, {"what": "ever"}), 1):
        await redis.xadd(stored.log, fields, id=f"{epoch}-{seq}")  # type: ignore[arg-type]  # wider than it says
    assert await SessionLog(client, "s1").append("note", "behind them") == Position(epoch, 3)
    found = await page(http, "?beforeSeq=4")
    assert [(event["seq"], event["data"]) for event in found["events"]] == [
        (0, plan("a")),
        (1, None),
        (3, "behind them"),
    ]
