"""A command of the product run as people run it: a process with its own environment."""

import asyncio
import contextlib
import os
import pty
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from eventually import eventually

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
        self.program = Path(sys.executable).with_name(name)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("TODO_")}
        self.environment |= variables

    def having(self, **variables: str) -> "Command":
        """The same command with more variables."""
        command = Command(self.program.name)
        command.environment = self.environment | variables
        return command

    async def __call__(self, *arguments: str | Path, input: str | bytes = b"") -> Done:
        """Run it to its end."""
        async with self.started(*arguments) as process, asyncio.timeout(RUN_S):
            out, err = await process.communicate(input.encode() if isinstance(input, str) else input)
            assert process.returncode is not None
            return Done(process.returncode, out.decode(), err.decode())

    async def on_terminal(self, *arguments: str | Path, question: str = "", answer: str = "") -> tuple[str, int]:
        """What a terminal of its own shows, and the exit code; the answer is typed when the question stands there."""
        ours, theirs = pty.openpty()
        os.set_blocking(ours, False)
        shown = b""

        def asked() -> bool:
            nonlocal shown
            with contextlib.suppress(BlockingIOError):
                shown += os.read(ours, 65536)
            return question.encode() in shown

        try:
            async with self.started(*arguments, stdin=theirs, stdout=theirs, stderr=theirs) as process:
                await eventually(asked, within=RUN_S)
                os.write(ours, answer.encode() + b"\n")
                async with asyncio.timeout(RUN_S):
                    code = await process.wait()
            asked()
            return shown.decode(), code
        finally:
            os.close(ours)
            os.close(theirs)

    @asynccontextmanager
    async def started(
        self, *arguments: str | Path, stdin: int = PIPE, stdout: int = PIPE, stderr: int = PIPE
    ) -> AsyncGenerator[asyncio.subprocess.Process]:
        """The running process, killed at the end if it is still there."""
        process = await asyncio.create_subprocess_exec(
            self.program, *arguments, env=self.environment, stdin=stdin, stdout=stdout, stderr=stderr
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
