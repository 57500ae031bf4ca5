"""The kit for tests of what is built on this: a running projection, and a plugin that costs nobody anything."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from fleet import Fleet
from todo_projection import embedded
from todo_projection.embedded import NoServer
from todo_projection.testing.kit import Kit, NotProjected, open_kit
from todo_projection.testing.server import IMAGE, redis_server
from todo_projection.unit import InvalidUnit, Unit, mounted_units
from todo_write.events import Event, Position

PLAN = [{"content": "build", "status": "in_progress"}]


def connection(url: str) -> Any:
    """A connection to be closed, which tries once; Any: redis-py types its answers for str and bytes alike."""
    return Redis.from_url(url, retry=Retry(NoBackoff(), 0))


class Chunks:
    """How many chunks an assistant has sent."""

    key = "chunks"
    state_version = 1
    handles = frozenset({"assistant/chunk"})
    heals_on = frozenset[str]()
    published = True

    def init(self) -> int:
        return 0

    def apply(self, state: int, event: Event) -> int:
        return state + 1

    def view(self, state: int) -> int:
        return state

    def encode(self, state: int) -> bytes:
        return msgspec.json.encode(state)

    def decode(self, raw: bytes) -> int:
        return msgspec.json.decode(raw, type=int)


async def test_what_is_written_is_projected_and_shown(todo_kit: Kit) -> None:
    position = await todo_kit.log("s1").append("todo/write", {"todos": PLAN})
    shown = await todo_kit.wait_for("s1", position)
    assert shown["values"]["todos"] == PLAN
    assert (shown["sessionId"], shown["epoch"], shown["asOfSeq"], shown["stale"]) == ("s1", position.epoch, 0, {})


async def test_a_position_nobody_wrote_is_not_waited_for_longer_than_told(todo_kit: Kit) -> None:
    written = await todo_kit.log("s1").append("todo/write", {"todos": PLAN})
    await todo_kit.wait_for("s1", written)
    with pytest.raises(NotProjected, match=rf"'s1' is not projected up to {written.epoch}-7 .* stands at {written}"):
        await todo_kit.wait_for("s1", Position(written.epoch, 7), within_s=0.2)


async def test_a_session_nobody_wrote_to_shows_nothing(todo_kit: Kit) -> None:
    assert (await todo_kit.show("s1"))["values"] == {}


async def test_a_worker_that_failed_says_so_at_once_to_whoever_waits(
    todo_kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failed() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(todo_kit, "_working", asyncio.create_task(failed()))
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(todo_kit.wait_for("s1", Position(1, 0)), 5)


class TestOwnUnits:
    @pytest.fixture
    def todo_units(self) -> tuple[Unit, ...]:
        return (Chunks(), *mounted_units())

    async def test_a_unit_of_ones_own_is_mounted_beside_the_installed_ones(self, todo_kit: Kit) -> None:
        *_, last = await todo_kit.log("s1").append_all([("assistant/chunk", n) for n in range(3)])
        assert (await todo_kit.wait_for("s1", last))["values"] | {"board": None} == {
            "chunks": 3, "todos": None, "board": None
        }  # fmt: skip


async def test_each_kit_has_a_namespace_of_its_own_and_leaves_nothing_in_it(todo_redis_url: str) -> None:
    async with open_kit(todo_redis_url) as one, open_kit(todo_redis_url) as other:
        position = await one.log("s1").append("todo/write", {"todos": PLAN})
        await one.wait_for("s1", position)
        assert (await other.show("s1"))["asOfSeq"] == -1
    with connection(todo_redis_url) as redis:
        for kit in (one, other):
            assert not list(redis.scan_iter(f"{kit.settings.namespace}:*"))


async def test_a_unit_that_breaks_the_protocol_is_refused_before_anything_starts(todo_redis_url: str) -> None:
    with pytest.raises(InvalidUnit, match="twice"):
        async with open_kit(todo_redis_url, [Chunks(), Chunks()]):
            pass


def test_without_docker_the_server_is_the_embedded_one_and_goes_with_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with redis_server() as url, connection(url) as redis:
        assert "todo-embedded-" in str(redis.config_get("dir"))
    with pytest.raises(RedisConnectionError), connection(url) as redis:
        redis.ping()


def test_with_docker_the_server_is_a_container_and_goes_with_the_block(fleet: Fleet) -> None:
    if IMAGE not in fleet.images:
        pytest.skip(f"{IMAGE} is not covered by this run")
    with redis_server() as url, connection(url) as redis:
        assert redis.info("server")["redis_version"].startswith(IMAGE.removeprefix("redis:"))
        assert "todo-embedded-" not in str(redis.config_get("dir"))
    with pytest.raises(RedisConnectionError), connection(url) as redis:
        redis.ping()


def test_with_neither_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(embedded, "wheel_server", lambda: None)
    with pytest.raises(NoServer, match="a fixture todo_redis_url"), redis_server():
        pass


LOADED = """
import sys

def test_what_is_loaded():
    ours = {name for name in sys.modules if name.partition(".")[0] in ("todo_projection", "todo_write")}
    assert ours == {"todo_projection", "todo_projection.testing", "todo_projection.testing.plugin"}
    assert not sys.modules.keys() & {"redis", "msgspec", "pydantic", "hypothesis", "docker", "testcontainers"}
"""


def test_a_run_that_asks_for_none_of_it_loads_the_plugin_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "test_unrelated.py").write_text(LOADED)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-W", "error", "-p", "todo_projection.testing.plugin"],
        cwd=tmp_path,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_plugin_is_found_by_itself(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.pluginmanager.has_plugin("todo_projection")
