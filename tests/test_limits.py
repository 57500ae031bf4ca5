"""Limits: no agent and no viewer takes more than its share, and each is told so."""

import asyncio
import contextlib
import json
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from command import Command
from eventually import eventually
from granting import bearer, write_tokens
from serving import plan, serving
from sse import of
from todo_write.events import InvalidEvent
from todo_write.log import Client, SessionLog, TooFast, connect
from todo_write.pace import BURST_S, KEYS_MAX, Pace
from todo_write.tool import TodoWrite


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_pace_lets_a_burst_through_and_then_so_many_a_second() -> None:
    clock = Clock()
    pace = Pace(5, clock)
    assert [pace.wait_s("a") for _ in range(5 * BURST_S)] == [0.0] * 5 * BURST_S
    assert pace.wait_s("a") == pytest.approx(0.2)
    assert pace.wait_s("b") == 0.0
    clock.now += 0.2
    assert (pace.wait_s("a"), pace.refused) == (0.0, 1)
    assert pace.wait_s("a") > 0.0


def test_what_no_bucket_holds_passes_once_and_is_owed() -> None:
    clock = Clock()
    pace = Pace(1, clock)
    assert pace.wait_s("a", 100) == 0.0
    clock.now = 50.0
    assert pace.wait_s("a") > 0.0
    clock.now = 92.0
    assert pace.wait_s("a") == 0.0


def test_a_pace_remembers_so_many_keys_and_none_is_no_limit() -> None:
    pace = Pace(1, Clock())
    for n in range(KEYS_MAX + 10):
        pace.wait_s(str(n))
    assert len(pace) == KEYS_MAX
    assert Pace(0).wait_s("a", 10**9) == 0.0


async def test_a_list_too_long_is_the_model_s_to_shorten(client: Client) -> None:
    tool = TodoWrite(client, allow_parallel_in_progress=True)
    text = await tool.call({"todos": [{"content": "x" * 10_000_000, "status": "pending"}]}, "s1")
    assert text.startswith("Error: todo list not saved: event 'todo/write': data is 10000")
    assert "at most 262144 are allowed" in text
    assert await SessionLog(client, "s1").read_back(None, count_max=1) == []


async def test_an_agent_that_sends_ten_megabytes_is_told_and_the_next_call_works(
    redis_url: str, namespace: str
) -> None:
    command = Command("todo-write", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)
    lines: list[dict[str, Any]] = [
        {"id": 1, "session": "s1", "call": {"todos": [{"content": "x" * 10_000_000, "status": "pending"}]}},
        {"id": 2, "session": "s1", "type": "x", "data": "x" * 2_000_000},
        {"id": 3, "session": "s1", "call": {"todos": []}},
    ]
    done = await command("serve", "--parallel", input="".join(json.dumps(line) + "\n" for line in lines))
    first, second, third = map(json.loads, done.out.splitlines())
    assert "longer than 4194304 bytes" in first["error"]
    assert "at most 1048576 are allowed" in second["error"]
    assert third["ok"]


async def test_sizes_are_settings(redis_url: str, namespace: str) -> None:
    limits = {"todo_write_bytes_max": 1024, "event_bytes_max": 2048, "append_bytes_max": 4096}
    async with connect(redis_url, namespace=namespace, **limits) as client:
        log = SessionLog(client, "s1")
        for type, data, limit in (("todo/write", plan("x" * 1024), 1024), ("x", "x" * 2048, 2048)):
            with pytest.raises(InvalidEvent, match=f"at most {limit} are allowed"):
                await log.append(type, data)
        with pytest.raises(InvalidEvent, match=r"one append of .* at most 4096"):
            await log.append_all([("x", "x" * 2000)] * 3)
        await log.append_all([("x", "x" * 1000)] * 3)


async def test_a_session_that_appends_too_fast_is_refused_before_anything_is_sent(
    redis_url: str, namespace: str
) -> None:
    async with connect(redis_url, namespace=namespace, session_rate_max=1) as client:
        log = SessionLog(client, "s1")
        await log.append_all([("x", 1)] * BURST_S)
        with pytest.raises(TooFast, match=r"session 's1' appends more than 1 events a second; again in [01]\.\d s"):
            await log.append("x", {})
        await SessionLog(client, "s2").append("x", {})
        text = await TodoWrite(client, allow_parallel_in_progress=True).call({"todos": []}, "s1")
        assert text.startswith("Error: todo list not saved: session 's1' appends more than 1 events")
        assert client.session_pace.refused == 2
        assert len(await log.read_back(None, count_max=99)) == BURST_S


async def test_a_process_that_appends_too_fast_is_refused_whatever_the_session(redis_url: str, namespace: str) -> None:
    async with connect(redis_url, namespace=namespace, process_rate_max=1) as client:
        for n in range(BURST_S):
            await SessionLog(client, f"s{n}").append("x", {})
        with pytest.raises(TooFast, match="this process appends more than 1"):
            await SessionLog(client, "another").append("x", {})


async def test_an_import_waits_where_others_are_refused(redis_url: str, namespace: str, tmp_path: Path) -> None:
    lines = [json.dumps({"type": "session", "version": 0, "id": "h1", "createdAt": 1})]
    lines += [json.dumps({"type": "x", "seq": n, "time": 1, "data": n}) for n in range(230)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    command = Command("todo-write", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace, TODO_SESSION_RATE_MAX="20")
    done = await command("import", tmp_path / "t.jsonl", "--json")
    assert (done.code, json.loads(done.out)[0]["sessions"][0]["appended"]) == (0, 231), done


async def test_a_viewer_opens_so_many_streams_of_so_many_sessions(
    redis_url: str, namespace: str, tmp_path: Path
) -> None:
    tokens = write_tokens(tmp_path / "tokens.jsonl")
    file = str(tokens)
    async with (
        serving(redis_url, namespace, gateway_tokens_file=file, token_streams_max=20, token_sessions_max=50) as http,
        AsyncExitStack() as stack,
    ):
        opened = [await stack.enter_async_context(http.stream(of("a", "b"), bearer("all"))) for _ in range(25)]
        assert [stream.status for stream in opened] == [200] * 20 + [429] * 5
        answer = await http.get("/api/stream?session=a", bearer("all"))
        assert (answer.status, answer.headers["retry-after"]) == (429, "5")
        assert "20 streams" in answer.json["error"]["what"]
        many = "&".join(f"session=s{n}" for n in range(51))
        crowd = await http.get(f"/api/stream?{many}", bearer("mine"))
        assert (crowd.status, "50 sessions" in crowd.json["error"]["what"]) == (429, True)
        async with http.stream(of("a"), bearer("mine")) as other:
            assert other.status == 200
        assert not any(stream.ended for stream in opened[:20])


async def test_who_asks_without_end_is_told_when_to_ask_again_and_others_are_not(
    redis_url: str, namespace: str, tmp_path: Path
) -> None:
    tokens = write_tokens(tmp_path / "tokens.jsonl")
    async with serving(redis_url, namespace, gateway_tokens_file=str(tokens), request_rate_max=1) as http:
        answers = [await http.get("/api/sessions/nobody", bearer("all")) for _ in range(BURST_S + 5)]
        assert [answer.status for answer in answers[:BURST_S]] == [404] * BURST_S
        assert answers[-1].status == 429
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert (await http.get("/api/sessions/nobody", bearer("mine"))).status == 404
        guesses = [(await http.get("/api/sessions", bearer(f"guess {n}"))).status for n in range(BURST_S + 5)]
        assert (guesses[0], guesses[-1]) == (401, 429)
        assert (await http.get("/livez")).status == 200


async def test_a_head_that_comes_drop_by_drop_is_cut_off_and_holds_nobody_up(redis_url: str, namespace: str) -> None:
    async with serving(redis_url, namespace, head_timeout_ms=500) as http:
        slow = [socket.create_connection((http.host, http.port)) for _ in range(20)]
        try:
            for connection in slow:
                connection.setblocking(False)
                connection.send(b"GET /livez HTTP/1.1\r\n")
            async with asyncio.timeout(10):
                while open_ones := [connection for connection in slow if await _drips(connection)]:
                    assert len(open_ones) <= 20
                    assert (await http.get("/livez")).status == 200
        finally:
            for connection in slow:
                connection.close()


async def test_who_connects_and_says_nothing_is_cut_off(redis_url: str, namespace: str) -> None:
    async with serving(redis_url, namespace, head_timeout_ms=300) as http:
        reader, writer = await asyncio.open_connection(http.host, http.port)
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()


async def test_a_client_that_asks_again_over_its_connection_is_not(redis_url: str, namespace: str) -> None:
    async with serving(redis_url, namespace, head_timeout_ms=1000) as http:
        reader, writer = await asyncio.open_connection(http.host, http.port)
        for _ in range(5):
            writer.write(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(len(b'{"ok":true,"problems":[]}'))
        async with http.stream(of("s1")) as stream:
            await stream.got("snapshot")
            await asyncio.sleep(1.2)  # longer than a head may take: a stream is none
            assert not stream.ended
        writer.close()


async def test_a_body_that_nobody_asked_for_ends_with_the_answer(redis_url: str, namespace: str) -> None:
    async with serving(redis_url, namespace) as http:
        connection = socket.create_connection((http.host, http.port))
        connection.setblocking(False)
        connection.send(b"GET /livez HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n")
        await eventually(lambda: _ends(connection))
        connection.close()


async def _ends(connection: socket.socket) -> bool:
    return not await _drips(connection)


async def _drips(connection: socket.socket) -> bool:
    """Send a little more; whether the other side still takes it."""
    await asyncio.sleep(0.05)
    try:
        connection.send(b"x: y\r\n")
        while connection.recv(4096):
            pass
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
