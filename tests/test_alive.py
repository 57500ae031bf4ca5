"""``todo-projection alive``, asked by a container again and again: how little it takes, and whom it asks."""

import asyncio
import json
import subprocess
import sys

import pytest

from scraped import health
from todo_projection.alive import Place, problems
from todo_projection.embedded import free_port
from todo_projection.monitor import monitoring
from todo_projection.settings import InvalidSetting, Settings
from todo_projection.tally import Tally

LOADED = """
import json, sys
sys.argv = ["todo-projection", "alive", "worker"]
from todo_projection.start import main
main()
json.dump(sorted(sys.modules), sys.stdout)
"""


def loaded(port: int) -> set[str]:
    """The modules that a healthy answer took."""
    ran = subprocess.run(
        [sys.executable, "-c", LOADED], env={"TODO_METRICS_PORT": str(port)}, capture_output=True, text=True, check=True
    )
    return set(json.loads(ran.stdout))


async def test_it_imports_nothing_of_redis_settings_or_commands(redis_url: str, namespace: str) -> None:
    settings = Settings.from_env({}, redis_url=redis_url, namespace=namespace, metrics_port=free_port())
    tally = Tally()
    tally.step()
    async with monitoring(tally, settings):
        assert await asyncio.to_thread(health, settings.metrics_port, "/livez") == 200
        found = await asyncio.to_thread(loaded, settings.metrics_port)
    assert {name for name in found if name.startswith("todo_projection.")} == {
        "todo_projection.alive",
        "todo_projection.start",
    }
    assert found & {"asyncio", "msgspec", "pydantic", "redis", "rich", "structlog", "todo_write", "typer"} == set()


PORTS = ("", "0", "80", "8423", "65535", "65536", "-1", "+80", " 80", "8_0", "80.0", "0x50", "٣", "eighty")
WHERE = [
    {},
    {"TODO_METRICS_HOST": "0.0.0.0", "TODO_METRICS_PORT": "8423", "TODO_GATEWAY_HOST": "::"},
    {"TODO_METRICS_HOST": "", "TODO_METRICS_PORT": "8423", "TODO_GATEWAY_HOST": ""},
    {"PORT": "9000"},
    {"PORT": "9000", "TODO_GATEWAY_PORT": ""},
    {"PORT": "9000", "TODO_GATEWAY_PORT": "9001"},
    *({"TODO_METRICS_PORT": port, "TODO_GATEWAY_PORT": port} for port in PORTS),
    *({"PORT": port} for port in PORTS),
]


@pytest.mark.parametrize("environ", WHERE, ids=str)
def test_it_asks_where_the_settings_say_or_leaves_it_to_them(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Place] = []

    def note(place: Place, *, ready: bool) -> list[str]:
        asked.append(place)
        return []

    monkeypatch.setattr(Place, "problems", note)
    told = [problems([process], environ) for process in ("worker", "gateway")]
    assert len(asked) == told.count([])
    try:
        settings = Settings.from_env(environ)
    except InvalidSetting:
        assert told.count([]) < 2
        return
    places = {
        Place("worker", settings.metrics_host, settings.metrics_port),
        Place("gateway", settings.gateway_host, settings.gateway_port),
    }
    assert set(asked) <= places
    for place in places:
        plainly = str(place.port) in {*environ.values(), str(Settings().gateway_port)}
        assert place in asked or not place.port or not plainly


@pytest.mark.parametrize(
    "arguments",
    [[], ["--help"], ["canary"], ["worker", "gateway"], ["worker", "--metrics-port", "80"], ["worker", "--redy"]],
    ids=str,
)
def test_all_else_that_can_be_said_is_left_to_the_command(arguments: list[str]) -> None:
    assert problems(arguments, {"TODO_METRICS_PORT": "80"}) is None
