"""The command ``worker``: it projects, waits for a server that is away, refuses bad settings, and ends in time."""

import json
import signal
import time
from typing import Any

import pytest
from redis.asyncio import Redis

from command import Command
from eventually import eventually
from projecting import projected
from running import call, operator, running
from servers import Server
from todo_projection.cli import main
from todo_projection.embedded import free_port
from todo_write.events import Keys
from todo_write.log import Client, SessionLog, connect

PLAN = {"todos": [{"content": "build", "status": "in_progress"}]}


async def append(client: Client, session: str, times: int = 1) -> Any:
    return (await SessionLog(client, session).append_all([("todo/write", PLAN)] * times))[-1]


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
async def test_it_projects_what_is_appended_and_ends_well_when_told_to(
    by: signal.Signals, redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    command = operator(redis_url, namespace)
    async with running(command, "worker") as worker:
        position = await append(client, "s1")
        await projected(redis, await client.keys(), "s1", position)
        shown = await command("show", "s1")
        assert shown.code == 0
        baseline = json.loads(shown.out)
        assert baseline["asOfSeq"] == 0
        assert baseline["values"]["todos"] == PLAN["todos"]
        worker.send(by)
        assert await worker.ended(within=5) == 0
    assert "nothing in hand" in worker.err
    assert worker.out == ""
    assert not await redis.hlen((await client.keys()).workers)


async def test_two_workers_share_the_work_and_one_goes_on_where_the_other_was_killed(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    command = operator(redis_url, namespace, TODO_CLAIM_IDLE_MS="200", TODO_BEAT_MS="100")
    keys = await client.keys()
    async with running(command, "worker") as first:
        await projected(redis, keys, "s1", await append(client, "s1"))
        first.send(signal.SIGKILL)
        await first.ended()
        position = await append(client, "s1")
        async with running(command, "worker"):
            await projected(redis, keys, "s1", position)


async def test_a_server_that_is_away_is_waited_for_and_named_without_its_password() -> None:
    port = free_port()
    command = Command("todo-projection", TODO_REDIS_URL=f"redis://:secret@127.0.0.1:{port}/0")
    async with running(command, "worker") as worker:
        await eventually(lambda: worker.err.count("next try in") >= 3)
        assert all(f"127.0.0.1:{port}" in line for line in worker.err.splitlines() if "next try" in line)
        worker.send(signal.SIGTERM)
        assert await worker.ended(within=5) == 0
    assert "secret" not in worker.err


async def test_it_starts_when_the_server_comes(own_server: Server, namespace: str) -> None:
    own_server.kill()
    command = operator(own_server.url, namespace)
    async with running(command, "worker") as worker:
        await worker.says("next try in")
        own_server.restart()
        await worker.says("64 partitions")
        async with (
            connect(own_server.url, namespace=namespace) as client,
            Redis.from_url(own_server.url) as redis,
        ):
            await projected(redis, await client.keys(), "s1", await append(client, "s1"))


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("partitions", "0", "from 1 to 1024"),
        ("partitions", "many", "from 1 to 1024"),
        ("namespace", "Not This", "a-z"),
        ("redis_url", "http://127.0.0.1", "redis://"),
        ("block_ms", "5000", "1 to 1000"),
        ("grace_ms", "-1", "0 to 600000"),
        ("log_level", "loud", "debug"),
    ],
)
@pytest.mark.parametrize("by_flag", [False, True])
def test_a_bad_setting_names_variable_value_and_what_is_allowed(
    name: str,
    value: str,
    allowed: str,
    by_flag: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    nowhere = {"redis_url": "redis://127.0.0.1:1/0"}
    given = ["worker", f"--{name.replace('_', '-')}={value}"] if by_flag else ["worker"]
    settings = nowhere if by_flag else nowhere | {name: value}
    assert call(main, *given, settings=settings, patch=monkeypatch) == 2
    told = capsys.readouterr().err
    assert f"TODO_{name.upper()}" in told
    assert value in told
    assert allowed in told


async def test_another_number_of_partitions_is_refused_with_both_and_nothing_is_written(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    await append(client, "s1")
    before = await copy_of(redis, await client.keys())
    for command in (["worker"], ["show", "s1"], ["up"]):
        ran = await operator(redis_url, namespace, TODO_PARTITIONS="8")(*command)
        assert ran.code == 2
        assert "64" in ran.err
        assert "8" in ran.err
        assert "Traceback" not in ran.err
    assert await copy_of(redis, await client.keys()) == before


async def copy_of(redis: Any, keys: Keys) -> dict[bytes, bytes | None]:
    """Everything in a namespace."""
    names: list[bytes] = [name async for name in redis.scan_iter(f"{keys.namespace}:*")]
    return {name: await redis.dump(name) for name in names}


async def test_a_worker_that_can_not_finish_ends_when_the_grace_period_does(
    own_server: Server, namespace: str, client: Client
) -> None:
    command = operator(own_server.url, namespace, TODO_GRACE_MS="2500")
    async with running(command, "worker") as worker:
        await worker.says("64 partitions")
        await append(client, "s1", times=20)
        own_server.freeze()
        asked = time.monotonic()
        worker.send(signal.SIGTERM)
        assert await worker.ended(within=6) == 0
        assert time.monotonic() - asked < 3.5
    assert "ended before it was done" in worker.err
    assert "the next worker takes them over" in worker.err
    assert "Traceback" not in worker.err


async def test_a_second_signal_does_not_wait_for_the_grace_period(
    own_server: Server, namespace: str, client: Client
) -> None:
    command = operator(own_server.url, namespace, TODO_GRACE_MS="600000")
    async with running(command, "worker") as worker:
        await worker.says("64 partitions")
        own_server.freeze()
        worker.send(signal.SIGTERM)
        await worker.says("asked to end")
        worker.send(signal.SIGINT)
        assert await worker.ended(within=5) == 0


async def test_a_row_of_another_type_is_reported_and_the_other_sessions_go_on(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    command = operator(redis_url, namespace)
    keys = await client.keys()
    broken, fine = "s1", next(f"f{n}" for n in range(9999) if keys.partition(f"f{n}") == keys.partition("s1"))
    await append(client, broken)
    await redis.set(keys.row(broken), "not a hash")
    async with running(command, "worker") as worker:
        await projected(redis, keys, fine, await append(client, fine))
        assert broken in await worker.says("can't be projected")
    told = await command("status", "--json")
    assert broken in json.loads(told.out)["stale"]["sessions"]
    shown = await command("show", broken)
    assert (shown.code, shown.out) == (1, "")
    assert keys.row(broken) in shown.err


async def test_an_unknown_session_has_an_empty_baseline_and_exit_1(redis_url: str, namespace: str) -> None:
    ran = await operator(redis_url, namespace)("show", "nobody")
    assert ran.code == 1
    assert json.loads(ran.out) == {
        "sessionId": "nobody", "asOfSeq": -1, "epoch": None, "rev": None, "values": {}, "at": {}, "stale": {},
    }  # fmt: skip
    assert "nobody" in ran.err


@pytest.mark.parametrize("session", ["", "a{b", "a\x07b", "x" * 257])
@pytest.mark.parametrize("command", ["show", "watch"])
def test_a_session_id_that_can_not_be_is_refused_with_the_reason(
    command: str, session: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(main, command, session, settings={}, patch=monkeypatch) == 2
    told = capsys.readouterr().err
    assert "session id" in told
    assert "\x07" not in told


@pytest.mark.parametrize("shape", ["frame", "baseline", "page"])
def test_the_schema_of_what_is_published_is_printed(
    shape: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert call(main, "schema", shape, settings={}, patch=monkeypatch) == 0
    assert json.loads(capfdbinary.readouterr().out)["$schema"].startswith("https://json-schema.org/")


@pytest.mark.parametrize("command", ["", "up", "worker", "show", "sessions", "status", "watch", "schema"])
def test_help_shows_an_example_and_the_exit_codes(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(main, *command.split(), "--help", settings={}, patch=monkeypatch) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "Exit codes:" in shown
    assert f"todo-projection {command}" in shown.partition("Examples:")[2] or not command
