"""deploy/redis.conf: a real server of each kind starts with it, and does what its lines are there for."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from servers import Server
from todo_write.events import Keys
from todo_write.log import SessionLog, connect

FILE = Path(__file__).parents[1] / "deploy" / "redis.conf"
LINES = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]


def options() -> list[str]:
    """The lines as options of a command line, which is where a test's server takes them from.

    Without the protected mode: it would keep the test out, which is what it is for.
    """
    return [
        word
        for line in LINES
        if not line.startswith("protected-mode")
        for word in (f"--{line.partition(' ')[0]}", line.partition(" ")[2].strip('"'))
    ]


def test_every_line_has_its_reason() -> None:
    for block in FILE.read_text().split("\n\n"):
        lines = block.splitlines()
        said = [index for index, line in enumerate(lines) if not line.startswith("#")]
        assert not said or said[0] > 0, f"no reason above {lines[said[0]]!r}"


async def test_a_server_starts_with_it_and_takes_every_line(launch: Callable[..., Server], fleet: Any) -> None:
    for name in fleet.names:
        server = launch(*options(), name=name)
        async with Redis.from_url(server.url, decode_responses=True) as redis:
            for line in LINES:
                if line.startswith("protected-mode"):
                    continue
                key, _, wanted = line.partition(" ")
                if key == "client-output-buffer-limit":
                    assert "pubsub 33554432 8388608 60" in await told(redis, key)
                    continue
                assert normal(await told(redis, key)) == normal(wanted), (name, key)


async def test_what_was_appended_is_there_after_a_kill_and_a_log_of_one_event_is_small(
    launch: Callable[..., Server],
) -> None:
    server = launch(*options())
    async with connect(server.url) as client:
        log = SessionLog(client, "s1")
        await log.append("todo/write", {"todos": []})
        keys: Keys = await client.keys()
    server.restart()
    async with connect(server.url) as client, Redis.from_url(server.url) as redis:
        assert [entry.event.type for entry in await SessionLog(client, "s1").read(count_max=9)] == ["todo/write"]
        assert (await redis.memory_usage(keys.log("s1")) or 0) < 1000


async def told(redis: Any, key: str) -> str:
    found: str = (await redis.config_get(key))[key]
    return found


def normal(text: str) -> str:
    """Sizes in bytes, and nothing as nothing."""
    text = text.strip('"')
    match = re.fullmatch(r"(\d+)(kb|mb|gb)", text)
    return str(int(match[1]) * 1024 ** (1 + ["kb", "mb", "gb"].index(match[2]))) if match else text


@pytest.mark.parametrize("line", ["maxmemory-policy noeviction", "appendonly yes"])
def test_nothing_is_dropped_and_nothing_lost(line: str) -> None:
    assert line in LINES
