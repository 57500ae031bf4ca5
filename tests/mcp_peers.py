"""Both ends of MCP: our server as a process, clients of the SDK, and messages as they stand on the wire."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

from command import Command
from eventually import eventually
from todo_write.mcp import SESSION_KEY

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"


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
            told = json.loads(line)
            self.said.append(told["event"] + told.get("exception", ""))


@asynccontextmanager
async def over_http(command: Command, *arguments: str) -> AsyncGenerator[Serving]:
    async with command.started("mcp", "--parallel", "--http", ":0", *arguments) as process:
        serving = Serving(process)
        listening = asyncio.create_task(serving.listen())
        try:
            await eventually(lambda: serving.said, within=30)
            yield serving
            if process.returncode is None:
                process.terminate()
            assert await asyncio.wait_for(process.wait(), 20) == 0
            await listening
        finally:
            listening.cancel()


def over_stdio(command: Command, *arguments: str, mode: str = "auto") -> Client:
    program, environment = command.program, command.environment
    return Client(
        StdioServerParameters(command=str(program), args=["mcp", "--parallel", *arguments], env=environment), mode=mode
    )


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
