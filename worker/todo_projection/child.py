"""A program run beside this one, which ends with it however it ends (``keeper.py``)."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from todo_projection import keeper


class NotStarted(RuntimeError):
    """The program could not be started; the message says why."""


class Ending(NamedTuple):
    """How a program ended: its exit code, below zero for a signal, and the last it printed."""

    code: int
    said: str

    def __str__(self) -> str:
        if self.code < 0:
            return f"was ended by {signal.Signals(-self.code).name}"
        last = self.said.strip().splitlines()[-1:]
        return f"ended with exit code {self.code}" + "".join(f": {line}" for line in last)


class Child:
    """A running program: ``pid`` is its own, ``log`` the file with what it prints."""

    def __init__(self, pid: int, log: Path, process: asyncio.subprocess.Process) -> None:
        self.pid = pid
        self.log = log
        self._process = process

    async def ended(self) -> Ending:
        """How it ended, once it has."""
        told, said = await _read_out(self._process)
        return Ending(int(told or 0), said.decode(errors="replace"))


@asynccontextmanager
async def child(*command: str, env: Mapping[str, str] | None = None) -> AsyncGenerator[Child]:
    """The program runs within this block; ``env`` comes on top of this process's. Raises NotStarted."""
    folder = _new_folder()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", keeper.__file__, str(folder), *command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | dict(env or {}),
            start_new_session=True,  # Ctrl-C at a terminal is for this process, which ends the others in order
        )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    assert process.stdin is not None  # noqa: S101  it was asked for
    assert process.stdout is not None  # noqa: S101  it was asked for
    try:
        pid = await process.stdout.readline()
        if not pid:
            _, said = await _read_out(process)
            raise NotStarted(f"{command[0]} does not start: {said.decode(errors='replace').strip()}")
        yield Child(int(pid), folder / "log", process)
    finally:
        process.stdin.close()
        await process.wait()


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="todo-child-")).resolve()


async def _read_out(process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    """What it still prints until it ends; unlike ``communicate`` this leaves its input open, which would end it."""
    assert process.stdout is not None  # noqa: S101  it was asked for
    assert process.stderr is not None  # noqa: S101  it was asked for
    told, said = await asyncio.gather(process.stdout.read(), process.stderr.read())
    await process.wait()
    return told, said
