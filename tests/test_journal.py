"""What running processes tell: JSON for machines, lines for people, and in none a password or the text of a plan."""

import asyncio
import io
import json
import logging
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from command import Command
from eventually import eventually
from running import Running, on_terminal, operator, running
from servers import Server
from stepping import write
from todo_projection.embedded import free_port
from todo_write.journal import start_journal
from todo_write.log import SessionLog, connect

PASSWORD = "geheim/pass%20wort"
PLAN = "plan-nobody-may-read"


@pytest.fixture
def root() -> Iterator[None]:
    """The root logger, as it was before."""
    logger = logging.getLogger()
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(stream: io.StringIO, *secrets: str) -> str:
    """An error of ours and a line of a library, told to this stream."""
    start_journal("info", secrets=secrets, stream=stream)
    plan = PLAN
    try:
        raise ConnectionError(f"redis://me:{PASSWORD.replace('/', '%2F')}@host:6379/0 {len(plan)}")
    except ConnectionError:
        logging.getLogger("todo_write.x").exception("it failed for %s", "geheim")
    logging.getLogger("library.part").info("a library's %s", "line")
    return stream.getvalue()


def test_a_machine_gets_an_object_a_line_also_of_what_libraries_tell(root: None) -> None:
    ours, theirs = map(json.loads, told(io.StringIO()).splitlines())
    assert (ours["level"], ours["logger"], ours["event"]) == ("error", "todo_write.x", "it failed for geheim")
    assert ours["timestamp"].endswith("Z")
    assert ours["exception"].startswith("Traceback")
    assert (theirs["logger"], theirs["event"]) == ("library.part", "a library's line")


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_neither_a_password_nor_what_variables_held_is_told(root: None, stream: Callable[[], io.StringIO]) -> None:
    said = told(stream(), "redis://me:geheim@host", "another-word")
    assert "Traceback" in said
    assert "geheim" not in said
    assert "wort" not in said
    assert PLAN not in said


def test_a_terminal_gets_lines_in_colour_unless_nobody_wants_colour(
    root: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in told(Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    plain = told(Terminal())
    assert "\x1b[" not in plain
    assert "a library's line" in plain


async def test_a_worker_tells_machines_in_json_and_people_in_lines(redis_url: str, namespace: str) -> None:
    async with running(operator(redis_url, namespace), "worker") as worker:
        await worker.says("64 partitions")
        worker.send(signal.SIGTERM)
        assert await worker.ended() == 0
    lines = [json.loads(line) for line in worker.err.splitlines()]
    assert {line["level"] for line in lines} == {"info"}
    async with on_terminal(operator(redis_url, namespace), "worker") as (_, terminal):
        await terminal.says("64 partitions")
    assert '{"event"' not in terminal.shown


async def test_processes_whose_server_goes_away_and_whose_plans_are_poison_give_nothing_away(
    own_server: Server, namespace: str
) -> None:
    with own_server.connect() as admin:
        admin.execute_command("ACL", "SETUSER", "fleet", "on", ">geheim-wort", "~*", "&*", "+@all")
    url = own_server.url.replace("redis://", "redis://fleet:geheim-wort@")
    http = ["mcp", "--parallel", "--http", str(free_port())]
    writer = Command("todo-write", TODO_REDIS_URL=url, TODO_NAMESPACE=namespace)
    command = operator(url, namespace, TODO_LOG_LEVEL="debug", TODO_GATEWAY_PORT=str(free_port()))
    async with (
        running(command, "worker") as worker,
        running(command, "gateway") as gateway,
        running(writer, *http) as mcp,
        running(writer, "canary", "--every", "0.1") as canary,
        writer.started("serve", "--parallel") as serve,
        connect(url, namespace=namespace) as client,
    ):
        await worker.says("64 partitions")
        await gateway.says("gateway: http://")
        await mcp.says("/mcp")
        await SessionLog(client, "s1").append(*write(PLAN))
        redis: Any = client.redis
        keys = await client.keys()
        poison = json.dumps({"todos": [{"content": f" {PLAN}", "status": "pending"}]})
        tail = await SessionLog(client, "s1").tail()
        assert tail is not None
        fields = {"type": "todo/write", "time": "1", "op": "poisoned", "data": poison}
        await redis.xadd(keys.log("s1"), fields, id=f"{tail.epoch}-1")
        pointer = {"s": "s1", "i": f"{tail.epoch}-1", "o": "poisoned", "t": "todo/write"}
        await redis.xadd(keys.feed(keys.partition("s1")), pointer)
        await eventually(lambda: redis.hlen(keys.stale(keys.partition("s1"))), within=30)
        assert serve.stdin is not None
        request = {"id": 1, "session": "s2", "call": {"todos": [{"content": PLAN, "status": PLAN}]}}
        own_server.kill()
        serve.stdin.write(json.dumps(request).encode() + b"\n")
        for process in (worker, gateway, canary):
            await process.says("warning")
        serve.stdin.write_eof()
        _, said = await asyncio.wait_for(serve.communicate(), 30)
    everything = "".join([*(_all(process) for process in (worker, gateway, mcp, canary)), said.decode()])
    assert PLAN not in everything
    assert "geheim" not in everything


def _all(process: Running) -> str:
    return process.out + process.err


def test_a_hook_imports_nothing_of_this() -> None:
    asked = "import sys, todo_write.hooks; print({'structlog', 'prometheus_client'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
