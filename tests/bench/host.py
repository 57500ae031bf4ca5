"""Where a benchmark runs: a server of its own, and what is to be known of machine and versions."""

import os
import platform
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import redis

from todo_projection.embedded import embedded_server

PACKAGES = ("redis", "hiredis", "msgspec", "uvloop", "faststream")


class Machine(msgspec.Struct, frozen=True):
    """What the figures depend on."""

    server: str
    python: str
    packages: dict[str, str]
    processor: str
    cores: int
    system: str
    commit: str


@asynccontextmanager
async def own_server(image: str, *options: str) -> AsyncGenerator[str]:
    """URL of an empty server: of this Docker image, or a process where ``image`` is ''; ``options`` are for it."""
    if not image:
        async with embedded_server(*options) as url:
            yield url
        return
    from servers import DockerServer  # noqa: PLC0415 - needs Docker's client, the embedded server does not

    server = DockerServer(image, options=options)
    try:
        yield server.url
    finally:
        server.stop()


def describe(client: redis.Redis) -> Machine:
    """This machine and that server."""
    info: dict[str, str] = client.info("server")
    kind = "valkey" if "valkey_version" in info else "redis"
    return Machine(
        server=f"{kind} {info[f'{kind}_version']}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        packages={name: found for name in PACKAGES if (found := _version(name))},
        processor=_processor(),
        cores=os.cpu_count() or 0,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        commit=_commit(),
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _commit() -> str:
    """The commit that runs; with a plus when files differ from it; '' outside a repository."""
    try:
        git = ["git", "-C", str(Path(__file__).parent)]
        head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        changes = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.strip() + ("+" if changes.stdout else "")
