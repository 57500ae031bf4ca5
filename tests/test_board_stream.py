"""Boards: the list of sessions page by page, and the live window on it."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from redis.asyncio import Redis

from eventually import eventually
from projecting import projected, working
from proxy import Proxy
from serving import plan, serving
from sse import Http, Reader
from stored import Stored
from todo_projection import boards, overview
from todo_write.events import Keys
from todo_write.log import Client, SessionLog


@pytest.fixture
async def http(redis_url: str, namespace: str) -> AsyncIterator[Http]:
    async with serving(redis_url, namespace) as http:
        yield http


@pytest.fixture
async def worker(redis_url: str, namespace: str) -> AsyncIterator[None]:
    async with working(redis_url, namespace):
        yield


async def write(client: Client, redis: Redis, session: str, *items: str, status: str = "pending") -> None:
    position = await SessionLog(client, session).append("todo/write", plan(*items, status=status))
    await projected(redis, await client.keys(), session, position)


async def listed(http: Http, query: str = "") -> list[str]:
    return [entry["sessionId"] for entry in (await http.get(f"/api/sessions{query}")).json["sessions"]]


def shown(board: Reader) -> dict[str, Any]:
    """The rows a client shows that takes every event as it comes."""
    rows: dict[str, Any] = {}
    for name, data, _ in board.events:
        if name == "row":
            rows[data["sessionId"]] = data
        elif name == "gone":
            del rows[data["sessionId"]]
    return rows


async def rewrite(redis: Any, row: str, old: bytes, new: bytes) -> None:
    """Another value of the board's unit, as a repair would write it."""
    await redis.hset(row, "board", (await redis.hget(row, "board")).replace(old, new))


def counts(board: Reader) -> dict[str, int]:
    told = board.of("counts")
    return {state: count for state, count in told[-1].data.items() if count} if told else {}


async def test_pages_of_the_list_follow_their_cursor_to_the_last_session(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    names = [f"s{n}" for n in range(9)] + ["计划/%:: x"]
    for name in names:
        await write(client, redis, name, "x")
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = (await http.get(f"/api/sessions?limit=4&cursor={quote(cursor)}")).json
        found += [entry["sessionId"] for entry in answer["sessions"]]
        cursor = answer["next"]
        assert answer["counts"]["active"] == 10
    assert found == names[::-1]


async def test_the_list_is_sorted_filtered_and_counted(http: Http, client: Client, redis: Redis, worker: None) -> None:
    await write(client, redis, "older", "Build the shed", status="in_progress")
    await write(client, redis, "newer", "paint it", status="in_progress")
    await write(client, redis, "done", "x", status="completed")
    await write(client, redis, "empty")
    assert await listed(http) == ["empty", "done", "newer", "older"]
    assert await listed(http, "?sort=longest") == ["older", "newer"]
    assert await listed(http, "?state=done") == ["done"]
    assert await listed(http, "?text=BUILD") == ["older"]
    answer = (await http.get("/api/sessions?text=e&state=empty")).json
    assert [entry["sessionId"] for entry in answer["sessions"]] == ["empty"]
    assert {state: count for state, count in answer["counts"].items() if count} == {"active": 2, "done": 1, "empty": 1}


async def test_a_board_begins_with_its_rows_their_counts_and_then_its_status(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    await write(client, redis, "s1", "x")
    await write(client, redis, "s2", "x", status="completed")
    for _ in range(2):  # read for the first client, in memory for the next
        async with http.stream("board=1") as board:
            await board.got("status")
            assert [event.name for event in board.events] == ["row", "row", "counts", "status"]
            assert list(shown(board)) == ["s2", "s1"]
            assert counts(board) == {"active": 1, "done": 1}
            assert board.state() == "live"
            assert shown(board)["s2"]["board"]["done"] == 1


@pytest.mark.every_server
async def test_a_board_learns_of_new_sessions_changes_and_deletions(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    async with http.stream("board=1") as board:
        await board.got("status")
        log = SessionLog(client, "s1")
        await log.append("todo/write", plan("x"))
        await board.until(lambda: shown(board).get("s1", {}).get("state") == "active")
        await log.append("session/title", {"title": "A title"})
        await board.until(lambda: shown(board)["s1"]["board"]["title"] == "A title")
        await log.append("note", "of an event that changes nothing a board knows the time")
        await board.until(lambda: shown(board)["s1"]["asOfSeq"] == 2)
        await log.append("todo/write", plan("x", status="completed"))
        await board.until(lambda: shown(board)["s1"]["state"] == "done" and counts(board) == {"done": 1})
        await log.delete()
        await board.until(lambda: shown(board) == {} and counts(board) == {})


async def test_what_has_just_happened_is_shown_without_a_sweep(
    http: Http, client: Client, worker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "SWEEP_S", 3600)
    async with http.stream("board=1") as board:
        await board.got("status")
        await SessionLog(client, "s1").append("todo/write", plan("x"))
        await board.until(lambda: set(shown(board)) == {"s1"})
        await SessionLog(client, "s1").append("todo/write", plan("x", status="completed"))
        await board.until(lambda: shown(board)["s1"]["state"] == "done")


async def test_of_many_changes_at_once_a_board_shows_few(http: Http, client: Client, worker: None) -> None:
    async with http.stream("board=1") as board:
        await board.got("status")
        log = SessionLog(client, "s1")
        began = time.monotonic()
        for n in range(200):
            await log.append("todo/write", plan(f"{n}", status="in_progress"))
        await board.until(lambda: shown(board).get("s1", {}).get("board", {}).get("current") == "199")
        assert len(board.of("row")) <= (time.monotonic() - began) / 0.25 + 2


async def test_a_window_holds_the_first_of_its_order_and_lets_the_others_go(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    for name in ("a", "b", "c"):
        await write(client, redis, name, "x")
    async with http.stream("board=1&limit=2") as board:
        await board.got("status")
        assert set(shown(board)) == {"c", "b"}
        await write(client, redis, "a", "y")
        await board.until(lambda: set(shown(board)) == {"a", "c"})
        assert [event.data for event in board.of("gone")] == [{"sessionId": "b"}]
        await SessionLog(client, "a").delete()
        await board.until(lambda: set(shown(board)) == {"c", "b"})
        assert counts(board) == {"active": 2}


async def test_a_window_on_a_state_follows_sessions_into_it_and_out_of_it(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    async with http.stream("board=1&state=done&text=s1") as board:
        await board.got("status")
        await write(client, redis, "s1", "x")
        await board.until(lambda: counts(board) == {"active": 1})
        await write(client, redis, "s1", "x", status="completed")
        await board.until(lambda: set(shown(board)) == {"s1"})
        await write(client, redis, "s1", "y")
        await board.until(lambda: shown(board) == {})
        await write(client, redis, "s2", "x", status="completed")
        assert "s2" not in shown(board)


async def test_time_alone_makes_a_session_quiet_and_stuck(
    redis_url: str, namespace: str, client: Client, worker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "SETTLE_MS", 0)  # no row is read again
    monkeypatch.setattr(overview, "TURN_ROWS", 0)
    async with serving(redis_url, namespace, quiet_ms=1000, stuck_ms=2500) as http, http.stream("board=1") as board:
        await board.got("status")
        await SessionLog(client, "s1").append("todo/write", plan("x", status="in_progress"))
        await board.until(lambda: shown(board).get("s1", {}).get("state") == "stuck")
        assert [event.data["state"] for event in board.of("row")] == ["active", "quiet", "stuck"]


async def test_two_events_of_one_millisecond_end_in_the_newest_row(
    http: Http, client: Client, redis: Redis, namespace: str, worker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "TURN_ROWS", 0)  # else it came round with the rest
    stored = Stored(redis, namespace, "s1")
    async with http.stream("board=1") as board:
        await board.got("status")
        await SessionLog(client, "s1").append("session/title", {"title": "first"})
        await board.until(lambda: "s1" in shown(board))
        await rewrite(redis, stored.row, b"first", b"second")  # and the index stays as it is
        await board.until(lambda: shown(board)["s1"]["board"]["title"] == "second", within=6)


async def test_a_change_without_an_event_comes_round(
    http: Http, client: Client, redis: Redis, namespace: str, worker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "SETTLE_MS", 0)  # else it were read again because it is young
    await write(client, redis, "s1", "x", status="in_progress")
    stored = Stored(redis, namespace, "s1")
    async with http.stream("board=1") as board:
        await board.got("status")
        await rewrite(redis, stored.row, b'"x"', b'"repaired"')
        await board.until(lambda: shown(board)["s1"]["board"]["current"] == "repaired")


async def test_a_board_says_when_redis_is_away_and_when_nobody_works(
    proxy: Proxy, client: Client, redis_url: str, namespace: str
) -> None:
    async with serving(proxy.url, namespace) as http, http.stream("board=1") as board:
        await board.is_told("live")
        proxy.refuse()
        await board.is_told("reconnecting")
        async with http.stream("board=1") as late:
            await late.is_told("reconnecting")
            assert late.of("row", "counts") == []
            await SessionLog(client, "s1").append("todo/write", plan("x"))
            await proxy.accept()
            await board.is_told("behind")
            await late.is_told("behind")
            async with working(redis_url, namespace):
                await board.is_told("live")
                await board.until(lambda: set(shown(board)) == set(shown(late)) == {"s1"})


async def test_however_many_clients_look_the_indexes_are_read_once(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    await write(client, redis, "s1", "x")
    async with asyncio.TaskGroup() as group:
        watching = asyncio.Event()

        async def watch() -> None:
            async with http.stream("board=1&limit=7") as board:
                seen.append(board)
                await watching.wait()

        seen: list[Reader] = []
        for _ in range(20):
            group.create_task(watch())
        await eventually(lambda: len(seen) == 20 and all(board.of("status") for board in seen))
        before = await _calls(redis)
        began = time.monotonic()
        await write(client, redis, "s2", "x")
        await eventually(lambda: all("s2" in shown(board) for board in seen))
        rounds = (time.monotonic() - began) / 0.25 + 1
        assert await _calls(redis) - before <= 64 * rounds + 64
        watching.set()


async def test_an_index_of_another_type_is_told_and_the_others_are_listed(
    http: Http, client: Client, redis: Redis, namespace: str, worker: None
) -> None:
    await write(client, redis, "fine", "x")
    odd = Keys(namespace).recent((Keys(namespace).partition("fine") + 1) % 64)
    await redis.set(odd, "a string")
    answer = (await http.get("/api/sessions")).json
    assert [entry["sessionId"] for entry in answer["sessions"]] == ["fine"]
    assert odd in answer["problems"][0]


async def _calls(redis: Redis) -> int:
    """How many sorted set ranges the server was asked for."""
    stats: Any = await redis.info("commandstats")
    return int(stats.get("cmdstat_zrange", {}).get("calls", 0))
