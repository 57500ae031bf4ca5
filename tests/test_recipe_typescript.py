"""The recipe for a TypeScript host, run by Node over a real ``todo-write serve``."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from command import Command
from logged import log_of, turn
from todo_write.log import Client
from typescript import BUILD, build

DRIVER = BUILD / "tests" / "node" / "serve_driver.mjs"
PLAN = {"todos": [{"content": "build", "status": "in_progress"}]}
NEXT = {"todos": [{"content": "build", "status": "completed"}]}
TWICE = {"todos": [{"content": "build", "status": "pending"}, {"content": "build", "status": "pending"}]}


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    build()


class TypeScriptHost:
    """The host as a process: a turn a line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @property
    def child(self) -> int:
        """Process id of its ``todo-write serve``."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())

    async def turn(self, script: Any) -> Any:
        """What the model was told in a turn of this script."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(script).encode() + b"\n")
        return json.loads(await asyncio.wait_for(self.process.stdout.readline(), 20))


@asynccontextmanager
async def hosting(redis_url: str, namespace: str, session: str = "s1") -> AsyncGenerator[TypeScriptHost]:
    todo_write = Command("todo-write", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)
    path = f"{todo_write.program.parent}:{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *("node", DRIVER, session),
        env=todo_write.environment | {"PATH": path},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield TypeScriptHost(process)
        assert process.stdin is not None
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), 20) == 0  # and with it the child it has started
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_its_turns_and_calls_are_in_the_log_and_rejections_are_told_as_errors(
    redis_url: str, namespace: str, client: Client
) -> None:
    async with hosting(redis_url, namespace) as host:
        assert await host.turn([[PLAN], [TWICE], [1]]) == [
            {"id": "1", "text": "Updated todo list: 0 pending, 1 in progress, 0 completed.", "ok": True},
            {"id": "2", "text": 'Error: invalid todos: duplicate content "build"', "ok": False},
            {"id": "3", "text": 'Error: invalid arguments: "arguments" must be an object', "ok": False},
        ]
        assert len(await host.turn([[PLAN, NEXT]])) == 2
        assert await host.turn("fail") == {"error": "the model is away"}
    assert await log_of(client, "s1") == [*turn(1, PLAN), *turn(2, PLAN, NEXT), *turn(3, reason="error")]


async def test_a_turn_that_can_not_begin_runs_nothing(redis_url: str, namespace: str) -> None:
    async with hosting(redis_url, namespace, session="{s1}") as host:
        assert "brace" in (await host.turn([[PLAN]]))["error"]


async def test_a_child_that_dies_fails_the_turn_and_hangs_nothing(redis_url: str, namespace: str) -> None:
    async with hosting(redis_url, namespace) as host:
        await host.turn([[PLAN]])
        os.kill(host.child, signal.SIGKILL)
        assert "error" in await host.turn([[PLAN]])
        assert "error" in await host.turn([[PLAN]])
