"""todo-write mcp, met by the SDK's own client: one tool, exact texts, a session for every connection."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.types import CallToolResult, TextContent
from redis.asyncio import Redis

from command import Command
from eventually import eventually
from proxy import Proxy
from servers import Server
from stored import Stored
from todo_write.mcp import SESSION_KEY
from todo_write.schema import definition, parameters

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
BUDGET_S = 5.0
SLACK_S = 2.5


def plan(*contents: str) -> dict[str, Any]:
    return {"todos": [{"content": content, "status": "pending"} for content in contents]}


def updated(count: int) -> str:
    return f"Updated todo list: {count} pending, 0 in progress, 0 completed."


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def session_of(result: CallToolResult) -> str:
    assert result.meta is not None
    session: str = result.meta[SESSION_KEY]
    return session


@pytest.fixture
def todo_write(redis_url: str, namespace: str) -> Command:
    return Command("todo-write", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)


@pytest.fixture
def see(redis: Redis, namespace: str) -> Callable[[str], Stored]:
    return lambda session: Stored(redis, namespace, session)


class Serving:
    """A server over HTTP: ``url``, and what it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said: list[str] = []

    @property
    def url(self) -> str:
        return self.said[0].split()[-1]

    async def listen(self) -> None:
        assert self.process.stderr
        while line := await self.process.stderr.readline():
            self.said.append(line.decode())


@asynccontextmanager
async def over_http(command: Command, *arguments: str) -> AsyncGenerator[Serving]:
    async with command.started("mcp", "--parallel", "--http", ":0", *arguments) as process:
        serving = Serving(process)
        listening = asyncio.create_task(serving.listen())
        await eventually(lambda: serving.said, within=30)
        yield serving
        if process.returncode is None:
            process.terminate()
        assert await asyncio.wait_for(process.wait(), 20) == 0
        await listening


def over_stdio(command: Command, *arguments: str, mode: str = "auto") -> Client:
    program, environment = command.program, command.environment
    return Client(
        StdioServerParameters(command=str(program), args=["mcp", "--parallel", *arguments], env=environment), mode=mode
    )


@pytest.fixture
async def http(todo_write: Command) -> AsyncIterator[Serving]:
    async with over_http(todo_write) as serving:
        yield serving


class Connect(Protocol):
    """A client, to be entered."""

    def __call__(self, mode: str = "auto") -> Client: ...


@pytest.fixture(params=["stdio", "http"])
async def connect(request: pytest.FixtureRequest, todo_write: Command) -> AsyncIterator[Connect]:
    """Clients over either transport."""
    if request.param == "stdio":
        yield lambda mode="auto": over_stdio(todo_write, mode=mode)
    else:
        async with over_http(todo_write) as serving:
            yield lambda mode="auto": Client(serving.url, mode=mode)


# --- what a client is told


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_call_is_stored_in_the_session_that_is_told_and_answered_with_the_tools_text(
    connect: Connect, see: Callable[[str], Stored], mode: str
) -> None:
    async with connect(mode=mode) as client:
        accepted = await client.call_tool("todo_write", plan("a"))
        rejected = await client.call_tool("todo_write", plan("b", "b"))
    assert (text_of(accepted), accepted.is_error) == (updated(1), False)
    assert (text_of(rejected), rejected.is_error) == ('Error: invalid todos: duplicate content "b"', True)
    assert session_of(accepted) == session_of(rejected)
    assert await see(session_of(accepted)).contents() == [plan("a")]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_there_is_one_tool_with_the_exact_schema_and_nothing_else(connect: Connect, mode: str) -> None:
    async with connect(mode=mode) as client:
        (tool,) = (await client.list_tools()).tools
        offered = client.server_capabilities.model_dump(exclude_none=True)
        with pytest.raises(MCPError, match=r"unknown tool 'todo_read'; there is 'todo_write' only"):
            await client.call_tool("todo_read", {})
    listed = definition("mcp", allow_parallel_in_progress=True)
    assert (tool.name, tool.description) == (listed["name"], listed["description"])
    assert json.dumps(tool.input_schema) == json.dumps(parameters())
    assert list(offered) == ["tools"]


SENT: dict[str, tuple[Any, str]] = {
    "a string": ({"todos": "[]"}, 'Error: invalid arguments: "todos" must be an array'),
    "strings": ({"todos": ["a"]}, 'Error: invalid arguments: "todos[0]" must be an object'),
    "more keys": (
        {"todos": [{"content": "a", "status": "pending", "id": "1", "priority": "high", "activeForm": "A"}]},
        "Error: invalid arguments: "
        + "; ".join(
            f'"todos[0].{key}" is not a declared property (additionalProperties: false)'
            for key in ("id", "priority", "activeForm")
        ),
    ),
    "no status": (
        {"todos": [{"content": "a"}]},
        'Error: invalid arguments: missing required property "todos[0].status"',
    ),
    "nothing": (None, 'Error: invalid arguments: missing required property "todos"'),
    "an empty list": (plan(), updated(0)),
    "500 items": (plan(*(f"step {number}" for number in range(500))), updated(500)),
}


async def test_what_models_send_is_answered_with_the_tools_text(connect: Connect, see: Callable[[str], Stored]) -> None:
    async with connect() as client:
        results = [await client.call_tool("todo_write", arguments) for arguments, _ in SENT.values()]
    for result, (name, (_, text)) in zip(results, SENT.items(), strict=True):
        assert (text_of(result), result.is_error) == (text, not text.startswith("Updated")), name
    stored = [arguments for arguments, text in SENT.values() if text.startswith("Updated")]
    assert await see(session_of(results[0])).contents() == stored


async def test_calls_of_one_session_at_once_are_stored_in_order_and_all_answered(
    todo_write: Command, see: Callable[[str], Stored]
) -> None:
    plans = [plan(*(str(item) for item in range(count))) for count in range(20)]
    async with over_stdio(todo_write, "--session", "s1") as client:
        results = await asyncio.gather(*(client.call_tool("todo_write", sent) for sent in plans))
    assert [text_of(result) for result in results] == [updated(count) for count in range(20)]
    assert await see("s1").contents() == plans


# --- sessions


async def test_clients_at_once_have_a_session_each(http: Serving, see: Callable[[str], Stored]) -> None:
    async def work(name: int) -> str:
        async with Client(http.url, mode="auto" if name % 2 else "legacy") as client:
            assert client.protocol_version == HANDSHAKE
            assert SESSION_KEY in str(client.instructions)
            listed = await client.list_tools()
            results = [await client.call_tool("todo_write", plan(f"{name} {step}")) for step in range(5)]
            assert listed.meta is not None
            sessions = {session_of(result) for result in results} | {listed.meta[SESSION_KEY]}
            assert len(sessions) == 1
            return sessions.pop()

    sessions = await asyncio.gather(*(work(name) for name in range(6)))
    assert len(set(sessions)) == 6
    for name, session in enumerate(sessions):
        assert await see(session).contents() == [plan(f"{name} {step}") for step in range(5)]
        assert f"todo-write: session {session} is that of mcp 0.1.0\n" in http.said


async def test_over_stdio_the_session_is_told_on_standard_error_and_to_the_client(
    todo_write: Command, see: Callable[[str], Stored]
) -> None:
    async with todo_write.started("mcp", "--parallel") as process:
        answers = await talk(process, [handshake(), call(1, plan("a"))], count=2)
        assert process.stdin
        process.stdin.close()
        assert process.stderr
        said = (await process.stderr.read()).decode().splitlines()
        assert await process.wait() == 0
    session = answers[1]["result"]["_meta"][SESSION_KEY]
    assert said == [f"todo-write: session {session}", f"todo-write: session {session} is that of test 1"]
    assert f"It is kept in session {session}." in answers[0]["result"]["instructions"]
    assert await see(session).contents() == [plan("a")]


@pytest.mark.parametrize("by", ["flag", "variable"])
async def test_a_session_that_is_given_is_that_of_every_connection(
    todo_write: Command, see: Callable[[str], Stored], by: str
) -> None:
    command = todo_write if by == "flag" else todo_write.having(TODO_SESSION="given")
    arguments = ("--session", "given") if by == "flag" else ()
    async with over_http(command, *arguments) as serving:
        for number, mode in enumerate(("auto", "legacy")):
            async with Client(serving.url, mode=mode) as client:
                assert client.protocol_version == (MODERN if mode == "auto" else HANDSHAKE)
                assert "It is kept in session given." in str(client.instructions)
                assert session_of(await client.call_tool("todo_write", plan(str(number)))) == "given"
    async with over_stdio(command, *arguments) as client:
        assert session_of(await client.call_tool("todo_write", plan("2"))) == "given"
    assert await see("given").contents() == [plan("0"), plan("1"), plan("2")]


# --- bytes


def handshake() -> list[dict[str, Any]]:
    asked = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": asked},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]


def call(id: int, arguments: Any) -> list[dict[str, Any]]:
    return [
        {
            "jsonrpc": "2.0",
            "id": id,
            "method": "tools/call",
            "params": {"name": "todo_write", "arguments": arguments},
        }
    ]


async def talk(
    process: asyncio.subprocess.Process, messages: list[list[dict[str, Any]]], *, count: int
) -> list[dict[str, Any]]:
    """Send messages, and return so many answers by their id."""
    assert process.stdin
    assert process.stdout
    for message in (message for group in messages for message in group):
        process.stdin.write(json.dumps(message).encode() + b"\n")
    answers: list[dict[str, Any]] = []
    while len(answers) < count:
        line = await asyncio.wait_for(process.stdout.readline(), 20)
        assert line, await process.communicate()
        answers.append(json.loads(line))
    return sorted(answers, key=lambda answer: answer["id"])


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


# --- the store away, and ends


async def test_without_the_store_the_model_is_told_so_within_the_budget(own_server: Server, connect: Connect) -> None:
    async with connect() as client:
        assert not (await client.call_tool("todo_write", plan("a"))).is_error
        own_server.kill()
        started = time.monotonic()
        result = await client.call_tool("todo_write", plan("b"))
        assert time.monotonic() - started < BUDGET_S + SLACK_S
        assert result.is_error
        assert text_of(result).startswith("Error: todo list not saved: ")


async def test_a_store_that_does_not_answer_leaves_the_outcome_open_and_says_so(
    own_server: Server, todo_write: Command
) -> None:
    short = todo_write.having(TODO_APPEND_BUDGET_MS="600", TODO_APPEND_ATTEMPT_MS="200")
    async with over_stdio(short) as client:
        await client.call_tool("todo_write", plan("a"))
        own_server.freeze()
        result = await client.call_tool("todo_write", plan("b"))
        own_server.thaw()
        assert result.is_error
        assert text_of(result).startswith("Error: todo list may not have been saved: ")
        assert not (await client.call_tool("todo_write", plan("c"))).is_error


async def test_a_signal_ends_it_when_the_calls_under_way_are_answered(
    proxy: Proxy, todo_write: Command, see: Callable[[str], Stored]
) -> None:
    async with (
        over_http(todo_write.having(TODO_REDIS_URL=proxy.url), "--session", "s1") as serving,
        Client(serving.url, mode="legacy") as idle,
        Client(serving.url) as client,
    ):
        await idle.list_tools()
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
    assert (done.code, done.err) == (1, "Error: mcp is not installed: pip install 'todo-projection[mcp]'\n")
