"""The embedded server: where its program comes from, and that nothing of it is left behind."""

import asyncio
import itertools
import os
import signal
import sys
from pathlib import Path

import pytest
import redis.asyncio as redis_asyncio

from eventually import eventually
from todo_projection import embedded
from todo_projection.embedded import NoServer, embedded_server, find_server, free_port, launched_server, wheel_server

OWNER = """
import asyncio, sys
import redis.asyncio
from todo_projection.embedded import embedded_server

async def main():
    async with embedded_server() as url, redis.asyncio.Redis.from_url(url) as client:
        pid = (await client.info("server"))["process_id"]
        print(pid, (await client.config_get("dir"))["dir"], flush=True)
        await asyncio.Event().wait()

try:
    asyncio.run(main())
except KeyboardInterrupt:
    sys.exit(130)
"""


def exists(folder: str) -> bool:
    return Path(folder).exists()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_fresh_server_listens_on_the_loopback_and_keeps_nothing() -> None:
    async with embedded_server() as url, redis_asyncio.Redis.from_url(url) as client:
        assert await client.dbsize() == 0
        assert await client.config_get("bind", "save", "appendonly") == {
            "bind": "127.0.0.1",
            "save": "",
            "appendonly": "no",
        }


async def test_options_go_on_the_command_line() -> None:
    async with embedded_server("--maxmemory", "3mb") as url, redis_asyncio.Redis.from_url(url) as client:
        assert await client.config_get("maxmemory") == {"maxmemory": "3145728"}


async def test_nothing_is_left_after_the_block() -> None:
    async with embedded_server() as url, redis_asyncio.Redis.from_url(url) as client:
        pid: int = (await client.info("server"))["process_id"]
        folder = (await client.config_get("dir"))["dir"] or ""
        assert is_running(pid)
        assert exists(folder)
    assert not is_running(pid)
    assert not exists(folder)


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
async def test_nothing_is_left_when_the_owner_is_ended(by: signal.Signals) -> None:
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", OWNER, stdout=asyncio.subprocess.PIPE)
    assert owner.stdout
    pid, folder = (await owner.stdout.readline()).decode().split()
    assert is_running(int(pid))
    owner.send_signal(by)
    await owner.communicate()
    await eventually(lambda: not is_running(int(pid)), message="the server is still there")
    await eventually(lambda: not exists(folder), message="the folder is still there")


async def test_a_ctrl_c_at_the_terminal_does_not_reach_the_server() -> None:
    async with embedded_server() as url, redis_asyncio.Redis.from_url(url) as client:
        pid: int = (await client.info("server"))["process_id"]
        assert os.getpgid(pid) != os.getpgid(0)


async def test_the_next_port_is_tried_when_another_process_was_quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    async with embedded_server() as first:
        taken = int(first.rpartition(":")[2].partition("/")[0])
        ports = itertools.chain([taken], iter(free_port, None))
        monkeypatch.setattr(embedded, "free_port", lambda: next(ports))
        async with embedded_server() as second:
            assert second != first


async def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(NoServer, match="no-such-option"):
        async with embedded_server("--no-such-option", "1"):
            pass


async def test_a_program_that_is_none_says_why(tmp_path: Path) -> None:
    with pytest.raises(NoServer, match=r"it says: \[Errno 2\] No such file"):
        async with embedded_server(program=tmp_path / "nothing"):
            pass


@pytest.mark.parametrize("name", ["redis-server", "valkey-server"])
def test_a_server_on_the_path_comes_first(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / name
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server() == program


def test_without_one_the_wheel_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server() == wheel_server()
    assert os.access(find_server(), os.X_OK)


def test_without_any_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(embedded, "wheel_server", lambda: None)
    with pytest.raises(NoServer, match=r"pip install 'todo-projection\[embedded\]'.*TODO_REDIS_URL"):
        find_server()


async def test_whoever_asks_is_told_when_it_ends_before_its_time_and_how() -> None:
    async with launched_server() as server:
        async with redis_asyncio.Redis.from_url(server.url) as client:
            pid: int = (await client.info("server"))["process_id"]
        os.kill(pid, signal.SIGKILL)
        assert "exit code or signal 9" in await asyncio.wait_for(server.ended(), 10)
