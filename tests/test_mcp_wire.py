"""todo-write mcp as a process: what stands on the wire, how it ends, and settings it can't use."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from mcp import Client
from redis.asyncio import Redis

from command import Command
from mcp_peers import MODERN, Serving, call, handshake, over_http, plan, talk, text_of, updated
from proxy import Proxy
from stored import Stored


@pytest.fixture
def todo_write(redis_url: str, namespace: str) -> Command:
    return Command("todo-write", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)


@pytest.fixture
def see(redis: Redis, namespace: str) -> Callable[[str], Stored]:
    return lambda session: Stored(redis, namespace, session)


@pytest.fixture
async def http(todo_write: Command) -> AsyncIterator[Serving]:
    async with over_http(todo_write) as serving:
        yield serving


async def test_the_tool_is_listed_byte_for_byte_as_the_schema_command_prints_it(todo_write: Command) -> None:
    printed = await todo_write("schema", "--format", "mcp", "--single")
    wanted = json.dumps(json.loads(printed.out), ensure_ascii=False, separators=(",", ":"))
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
    list_tools = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for before, asked in ((handshake(), list_tools), ([], {**list_tools, "params": {"_meta": meta}})):
        async with todo_write.started("mcp", "--single") as process:
            assert process.stdin
            assert process.stdout
            for message in (*before, asked):
                process.stdin.write(json.dumps(message).encode() + b"\n")
            line = ""
            while '"tools":[' not in line:
                line = (await asyncio.wait_for(process.stdout.readline(), 20)).decode()
            assert f'"tools":[{wanted}]' in line


async def test_what_the_sdk_cannot_read_ends_nothing_and_a_lone_surrogate_gets_the_tools_text(
    todo_write: Command,
) -> None:
    async with todo_write.started("mcp", "--parallel") as process:
        assert process.stdin
        process.stdin.write(b"nonsense\n" + b'{"a": ' + b"[" * 100_000 + b"\n")
        answers = await talk(process, [handshake(), call(1, plan("\ud83d")), call(2, plan("\U0001f3af"))], count=3)
    text = "Error: invalid todo: `content` must be well-formed Unicode"
    assert answers[1]["result"]["content"] == [{"type": "text", "text": text}]
    assert answers[1]["result"]["isError"] is True
    assert answers[2]["result"]["isError"] is False


async def test_over_http_there_is_nothing_to_wait_for_and_no_other_site_may_ask(http: Serving) -> None:
    port = int(http.url.rpartition(":")[2].partition("/")[0])
    for request, status in (
        ("GET /mcp HTTP/1.1\r\nHost: localhost:{port}\r\nAccept: text/event-stream\r\n\r\n", 405),
        ("POST /mcp HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\n\r\n", 421),
        ("POST / HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 0\r\n\r\n", 404),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request.format(port=port).encode())
        assert int((await asyncio.wait_for(reader.readline(), 10)).split()[1]) == status
        writer.close()
        await writer.wait_closed()


# --- ends


async def test_a_signal_ends_it_when_the_calls_under_way_are_answered(
    proxy: Proxy, todo_write: Command, see: Callable[[str], Stored]
) -> None:
    async with (
        over_http(todo_write.having(TODO_REDIS_URL=proxy.url), "--session", "s1") as serving,
        Client(serving.url, mode="legacy") as idle,
        Client(serving.url) as client,
    ):
        for either in (idle, client):
            await either.list_tools()  # a client asks for it with its first call, if not before
        held = proxy.hold_request(b"s1")
        answer = asyncio.create_task(client.call_tool("todo_write", plan("a")))
        await held.hit.wait()
        serving.process.send_signal(signal.SIGTERM)
        held.release()
        assert text_of(await answer) == updated(1)
        assert await asyncio.wait_for(serving.process.wait(), 5) == 0
    assert await see("s1").contents() == [plan("a")]
    assert not [line for line in serving.said if "Error" in line or "Traceback" in line]


async def test_ctrl_c_ends_it_though_its_input_goes_on(todo_write: Command) -> None:
    async with todo_write.started("mcp", "--parallel") as process:
        await talk(process, [handshake()], count=1)
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 5) == -signal.SIGINT


# --- settings


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "say --parallel or --single"),
        (["--parallel", "--http", "somewhere"], "--http is 'somewhere'; allowed: HOST:PORT or PORT"),
        (["--parallel", "--http", "localhost:99999"], "a port from 0 (any) to 65535"),
        (["--parallel", "--http", "no.such.host.invalid:0"], "--http no.such.host.invalid:0: "),
        (["--parallel", "--session", "a{b"], "TODO_SESSION is 'a{b'"),
    ],
)
async def test_a_setting_that_cannot_be_used_is_told(todo_write: Command, arguments: list[str], reason: str) -> None:
    done = await todo_write("mcp", *arguments)
    assert (done.code, done.out) == (2, "")
    assert reason in done.err
    assert done.err.count("\n") == 1


async def test_an_address_that_is_taken_is_told(http: Serving, todo_write: Command) -> None:
    address = http.url.removeprefix("http://").removesuffix("/mcp")
    done = await todo_write("mcp", "--parallel", "--http", address)
    assert (done.code, done.err) == (2, f"Error: --http {address}: Address already in use; choose another address\n")


async def test_without_the_extra_it_says_what_to_install(todo_write: Command, tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError('gone', name='mcp')")
    done = await todo_write.having(PYTHONPATH=str(tmp_path))("mcp", "--parallel")
    told = "Error: the extra mcp is not installed (no mcp): pip install 'todo-projection[mcp]'\n"
    assert (done.code, done.err) == (1, told)
