"""The test ground itself: what the fixtures promise."""

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
import redis.asyncio as redis_asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import TimeoutError as RedisTimeoutError

from eventually import eventually
from fleet import Fleet
from servers import OWNER_LABEL, Server

TESTS = Path(__file__).parent

# A test run of its own, over a file that is not here: the fixtures come along as a plugin.
PYTEST = (sys.executable, "-m", "pytest", "-p", "conftest", "-c", str(TESTS.parent / "pyproject.toml"), "--rootdir")


async def kind_of(client: redis_asyncio.Redis) -> str:
    """Kind and version of a server, the way test runs name them, without the patch level."""
    info = await client.info("server")
    kind = info.get("server_name", "redis")
    return f"{kind} {info[f'{kind}_version'].rpartition('.')[0]}"


def expected_kind(server: Server) -> str:
    kind, _, number = server.name.removeprefix("embedded ").rpartition("/")[2].replace(":", " ").partition(" ")
    return f"{kind} {'.'.join(number.split('.')[:2])}"


@pytest.mark.every_server
async def test_every_server_answers_under_its_own_name(server: Server, redis: redis_asyncio.Redis) -> None:
    assert await kind_of(redis) == expected_kind(server)


seen: set[str] = set()


@pytest.mark.every_server
async def test_a_test_that_asks_only_for_a_client_meets_every_server_too(redis: redis_asyncio.Redis) -> None:
    seen.add(await kind_of(redis))


def test_all_of_them_were_met(fleet: Fleet) -> None:
    assert len(seen) == len(fleet.names)


@pytest.mark.every_server
async def test_a_frozen_server_does_not_answer_and_goes_on_when_thawed(server: Server) -> None:
    once = Retry(NoBackoff(), 0)
    async with redis_asyncio.Redis(host=server.host, port=server.port, socket_timeout=0.3, retry=once) as client:
        await client.ping()
        server.freeze()
        with pytest.raises(RedisTimeoutError):
            await client.ping()
        server.thaw()
        assert await eventually(client.ping)  # pyright: ignore[reportUnknownArgumentType]  redis-py's kwargs have no type


@pytest.mark.every_server
async def test_an_own_server_comes_back_empty_on_the_same_port(own_server: Server, redis_url: str) -> None:
    assert redis_url == own_server.url
    async with redis_asyncio.Redis.from_url(redis_url) as before:
        await before.set("kept", "no")
    own_server.restart()
    async with redis_asyncio.Redis.from_url(redis_url) as after:
        assert await after.get("kept") is None
        assert await kind_of(after) == expected_kind(own_server)
    assert "Ready to accept connections" in own_server.logs()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no list of threads here")
async def test_a_server_started_again_by_a_thread_outlives_it(own_server: Server) -> None:
    thread = threading.Thread(target=own_server.restart)
    thread.start()
    of_the_kernel = Path(f"/proc/self/task/{thread.native_id}")
    await eventually(lambda: not thread.is_alive() and not of_the_kernel.exists(), within=30)
    async with redis_asyncio.Redis.from_url(own_server.url, retry=Retry(NoBackoff(), 0)) as client:
        assert await client.ping()


names: list[str] = []


async def test_what_a_test_writes_under_its_namespace(redis: redis_asyncio.Redis, namespace: str) -> None:
    names.append(namespace)
    await redis.mset({f"{namespace}:{number}": "x" for number in range(3000)})


async def test_is_gone_in_the_next(redis: redis_asyncio.Redis, namespace: str) -> None:
    assert namespace not in names
    assert await redis.exists(*(f"{names[0]}:{number}" for number in range(3000))) == 0


STUCK = """
import os, pathlib, signal

def test_stuck(server, own_server):
    own_server.freeze()
    pathlib.Path("pids").write_text(f"{os.getpid()} {own_server._process.pid}")
    signal.pause()
"""


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
async def test_an_ended_test_run_leaves_no_server_behind(by: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "test_stuck.py").write_text(STUCK)
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    run = await asyncio.create_subprocess_exec(
        *PYTEST, str(tmp_path), "test_stuck.py", cwd=tmp_path, env=environment, stdout=asyncio.subprocess.DEVNULL
    )
    pids = tmp_path / "pids"
    await eventually(lambda: pids.exists() and pids.read_text(), within=30)
    owner, process = pids.read_text().split()
    run.send_signal(by)
    await run.wait()
    await eventually(lambda: not Path(f"/proc/{process}").exists(), message="the own server is still there")
    if by is signal.SIGKILL:
        Fleet.discover()  # the next run: it ends what a SIGKILL left
    assert await containers_of(owner) == ""


async def containers_of(pid: str) -> str:
    try:
        listing = await asyncio.create_subprocess_exec(
            *("docker", "ps", "-aq", "--filter", f"label={OWNER_LABEL}={os.uname().nodename}/{pid}"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except FileNotFoundError:
        return ""
    return (await listing.communicate())[0].decode()


async def pytest_without_docker(tmp_path: Path, **environment: str) -> tuple[int | None, str]:
    (tmp_path / "test_one.py").write_text("import pytest\n@pytest.mark.every_server\ndef test_one(server): pass\n")
    run = await asyncio.create_subprocess_exec(
        *PYTEST,
        *(str(tmp_path), "test_one.py"),
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if key != "TODO_REQUIRE_DOCKER"}
        | {"PYTHONPATH": str(TESTS), "DOCKER_HOST": "unix:///nowhere.sock", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said = (await run.communicate())[0].decode()
    return run.returncode, said


async def test_without_docker_the_embedded_server_is_used_and_the_report_says_so(tmp_path: Path, fleet: Fleet) -> None:
    code, said = await pytest_without_docker(tmp_path)
    assert code == 0
    assert f"servers: {fleet.embedded} (no Docker engine answers)" in said
    assert "servers not covered: redis:7.0, redis:8.0, valkey/valkey:8.1 (no Docker engine answers" in said
    assert "1 passed" in said


async def test_where_docker_is_required_a_run_without_it_fails(tmp_path: Path) -> None:
    code, said = await pytest_without_docker(tmp_path, TODO_REQUIRE_DOCKER="1")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "TODO_REQUIRE_DOCKER=1, but these servers are not to be had: redis:7.0, redis:8.0" in said
