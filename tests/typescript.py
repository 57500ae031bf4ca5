"""The TypeScript example, built and driven: one Node process that does what a test asks for."""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

import todo_write

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
COMPILER = EXAMPLES / "node_modules" / "typescript" / "bin" / "tsc"
BUILD = EXAMPLES / "build"
DRIVER = BUILD / "tests" / "node" / "driver.mjs"


def what_is_missing() -> str | None:
    """Why the example can't be run here; None when it can."""
    if shutil.which("node") is None:
        return "there is no node on PATH; install Node.js 20 or newer"
    if not COMPILER.exists():
        return "its packages are not installed; run: npm ci --prefix examples"
    return None


def build() -> None:
    """Check the types of the example and compile it; skips where Node or its packages are missing."""
    missing = what_is_missing()
    if missing is not None:
        if os.environ.get("TODO_REQUIRE_NODE") == "1":
            pytest.fail(f"TODO_REQUIRE_NODE=1, but {missing}")
        pytest.skip(missing)
    done = subprocess.run(["node", COMPILER, "-p", EXAMPLES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.copy(Path(todo_write.__file__).parent / "append.lua", BUILD / "examples")


class Driver:
    """``async with Driver(url, namespace) as driver``; requests of one driver are answered in order."""

    def __init__(self, url: str, namespace: str) -> None:
        self._arguments = (url, namespace)
        self._process: Any = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            "node", DRIVER, *self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=2**20
        )
        assert await self.receive() == {"ready": True}
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        self._process.stdin.close()
        ended = await self._process.wait()
        assert kind is not None or ended == 0

    def send(self, **request: Any) -> None:
        """Send one request, without waiting for its answer."""
        self._process.stdin.write(json.dumps(request).encode() + b"\n")

    async def receive(self) -> dict[str, Any]:
        """The next answer."""
        line = await self._process.stdout.readline()
        assert line, "the driver has ended"
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def ask(self, **request: Any) -> dict[str, Any]:
        """One request and its answer."""
        self.send(**request)
        return await self.receive()

    async def append(self, session: str, *events: tuple[str, Any]) -> list[str]:
        """Positions of events appended by the example; fails with its error."""
        answer = await self.ask(session=session, events=events)
        assert "positions" in answer, answer
        positions: list[str] = answer["positions"]
        return positions
