"""todo-write mcp, met by the SDK's own client: one tool, exact texts, a session for every connection."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import pytest
from mcp import Client, MCPError
from redis.asyncio import Redis

from command import Command
from mcp_peers import (
    HANDSHAKE,
    MODERN,
    Serving,
    call,
    handshake,
    over_http,
    over_stdio,
    plan,
    session_of,
    talk,
    text_of,
    updated,
)
from servers import Server
from stored import Stored
from todo_write.mcp import SESSION_KEY
from todo_write.schema import definition, parameters

BUDGET_S = 5.0
SLACK_S = 2.5


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
        assert f"session {session} is that of mcp 0.1.0" in http.said


async def test_over_stdio_the_session_is_told_on_standard_error_and_to_the_client(
    todo_write: Command, see: Callable[[str], Stored]
) -> None:
    async with todo_write.started("mcp", "--parallel") as process:
        answers = await talk(process, [handshake(), call(1, plan("a"))], count=2)
        assert process.stdin
        process.stdin.close()
        assert process.stderr
        said = [json.loads(line)["event"] for line in (await process.stderr.read()).splitlines()]
        assert await process.wait() == 0
    session = answers[1]["result"]["_meta"][SESSION_KEY]
    assert said == [f"session {session}", f"session {session} is that of test 1"]
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


# --- the store away


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
