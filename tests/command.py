"""A command of the product run as people run it: a process with its own environment."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

RUN_S = 60.0
PIPE = asyncio.subprocess.PIPE


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class Command:
    """``await Command("todo-write", TODO_NAMESPACE="x")("call", "s1")``; no other TODO_ variables are set."""

    def __init__(self, name: str, **variables: str) -> None:
        self._program = Path(sys.executable).with_name(name)
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith("TODO_")}
        self._environment |= variables

    def having(self, **variables: str) -> "Command":
        """The same command with more variables."""
        command = Command(self._program.name)
        command._environment = self._environment | variables
        return command

    async def __call__(self, *arguments: str | Path, input: str | bytes = b"") -> Done:
        """Run it to its end."""
        async with self.started(*arguments) as process, asyncio.timeout(RUN_S):
            out, err = await process.communicate(input.encode() if isinstance(input, str) else input)
            assert process.returncode is not None
            return Done(process.returncode, out.decode(), err.decode())

    @asynccontextmanager
    async def started(
        self, *arguments: str | Path, stdin: int = PIPE, stdout: int = PIPE, stderr: int = PIPE
    ) -> AsyncGenerator[asyncio.subprocess.Process]:
        """The running process, killed at the end if it is still there."""
        process = await asyncio.create_subprocess_exec(
            self._program, *arguments, env=self._environment, stdin=stdin, stdout=stdout, stderr=stderr
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
