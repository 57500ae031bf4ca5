"""The keeper: its child and its folder end with its input, and with itself."""

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eventually import eventually
from todo_projection import keeper

# Says in a file that it is ready, then ignores SIGTERM or not.
CHILD = """
import pathlib, signal, sys
signal.signal(signal.SIGTERM, getattr(signal, sys.argv[2]))
pathlib.Path(sys.argv[1]).touch()
signal.pause()
"""


async def keep(folder: Path, *command: str) -> asyncio.subprocess.Process:
    folder.mkdir()
    return await asyncio.create_subprocess_exec(
        *(sys.executable, keeper.__file__, str(folder), *command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


def close_input(process: asyncio.subprocess.Process) -> None:
    assert process.stdin
    process.stdin.close()


@pytest.mark.parametrize("end", [close_input, asyncio.subprocess.Process.terminate])
async def test_the_child_is_asked_to_end(end: Callable[[asyncio.subprocess.Process], None], tmp_path: Path) -> None:
    process = await keep(tmp_path / "kept", sys.executable, "-c", CHILD, str(tmp_path / "ready"), "SIG_DFL")
    await eventually((tmp_path / "ready").exists)
    end(process)
    assert await asyncio.wait_for(process.wait(), 10) == signal.SIGTERM
    assert not (tmp_path / "kept").exists()


async def test_a_child_that_does_not_is_killed(tmp_path: Path) -> None:
    process = await keep(tmp_path / "kept", sys.executable, "-c", CHILD, str(tmp_path / "ready"), "SIG_IGN")
    await eventually((tmp_path / "ready").exists)
    close_input(process)
    assert await asyncio.wait_for(process.wait(), 10) == signal.SIGKILL
    assert not (tmp_path / "kept").exists()


async def test_a_child_that_fails_leaves_its_last_words(tmp_path: Path) -> None:
    process = await keep(tmp_path / "kept", sys.executable, "-c", "import sys; print('first'); sys.exit('last')")
    assert process.stderr
    assert await process.stderr.read() == b"first\nlast\n"
    assert await process.wait() == 1
    assert not (tmp_path / "kept").exists()


async def test_a_child_that_ends_well_says_nothing(tmp_path: Path) -> None:
    process = await keep(tmp_path / "kept", sys.executable, "-c", "print('fine')")
    assert process.stderr
    assert await process.stderr.read() == b""
    assert await process.wait() == 0


async def test_it_prints_the_process_it_keeps_and_how_that_ended(tmp_path: Path) -> None:
    process = await keep(tmp_path / "kept", sys.executable, "-c", "import os, sys; os.kill(os.getpid(), 9)")
    assert process.stdout
    pid, code = (await process.stdout.read()).split()
    assert int(pid) not in {process.pid, 0}
    assert int(code) == -signal.SIGKILL
    assert await process.wait() == signal.SIGKILL
