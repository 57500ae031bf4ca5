"""Real servers for the tests: in a container, or a process of the test run."""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
import docker.errors
import redis
from docker.models.containers import Container
from redis.backoff import NoBackoff
from redis.retry import Retry
from testcontainers.core.container import DockerContainer

from todo_projection.embedded import free_port, server_command

OPTIONS = ("--protected-mode", "no", "--enable-debug-command", "yes")
START_S = 20.0
OWNER_LABEL = "todo-projection.tests.owner"
# "The parent" of `die_with_parent` is the thread that starts a child, and one of asyncio ends with a test's event loop.
PARENT = ThreadPoolExecutor(1, "parent of servers")


class Server(ABC):
    """A running server: ``name``, ``host``, ``port``; it can be frozen, killed and started again on the same port."""

    def __init__(self, name: str, host: str, port: int) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.frozen = False

    def __repr__(self) -> str:
        return f"<{self.name} at {self.host}:{self.port}>"

    @property
    def url(self) -> str:
        """URL of database 0."""
        return f"redis://{self.host}:{self.port}/0"

    def connect(self) -> redis.Redis:
        """A synchronous client, to be closed."""
        return redis.Redis(
            self.host, self.port, socket_timeout=1, socket_connect_timeout=1, retry=Retry(NoBackoff(), 0)
        )

    def freeze(self) -> None:
        """Stop it in its tracks: connections stay open, nothing answers, until ``thaw``."""
        if not self.frozen:
            self._freeze()
            self.frozen = True

    def thaw(self) -> None:
        """Let it go on; nothing happens to one that is not frozen."""
        if self.frozen:
            self._thaw()
            self.frozen = False

    def restart(self) -> None:
        """Kill it without a chance to save, start it again on the same port, wait until it answers."""
        self.kill()
        self._start_again()
        self.wait_until_it_answers()

    def kill(self) -> None:
        """SIGKILL; ``restart`` brings it back."""
        self.thaw()
        self._kill()

    def wait_until_it_answers(self) -> None:
        """Return after the first PONG; raises TimeoutError with the server's log."""
        deadline = time.monotonic() + START_S
        with self.connect() as client:
            while True:
                try:
                    client.ping()
                except redis.RedisError as error:
                    if time.monotonic() > deadline or not self.alive():
                        raise TimeoutError(f"{self!r} did not answer: {error}\n{self.logs()}") from error
                    time.sleep(0.02)
                else:
                    return

    @abstractmethod
    def alive(self) -> bool:
        """Whether its process is there."""

    @abstractmethod
    def logs(self) -> str:
        """What it has printed."""

    @abstractmethod
    def stop(self) -> None:
        """End it for good, leaving nothing behind."""

    @abstractmethod
    def _freeze(self) -> None: ...

    @abstractmethod
    def _thaw(self) -> None: ...

    @abstractmethod
    def _kill(self) -> None: ...

    @abstractmethod
    def _start_again(self) -> None: ...


class ProcessServer(Server):
    """A server program started as a child of the test run; it dies with it."""

    def __init__(self, program: Path, name: str, options: tuple[str, ...] = ()) -> None:
        super().__init__(name, "127.0.0.1", free_port())
        self.folder = Path(tempfile.mkdtemp(prefix="todo-server-"))
        self._command = self._build_command(program, options)
        self._process = PARENT.submit(self._spawn).result()
        try:
            self.wait_until_it_answers()
        except BaseException:
            self.stop()
            raise

    def alive(self) -> bool:
        return self._process.poll() is None

    def logs(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def stop(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _build_command(self, program: Path, options: tuple[str, ...]) -> list[str]:
        return server_command(program, folder=self.folder, port=self.port, options=(*OPTIONS, *options))

    def _spawn(self) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509  no threads hold locks at this point, and it only calls prctl
            )

    def _freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def _thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _start_again(self) -> None:
        self._process = PARENT.submit(self._spawn).result()


class DockerServer(Server):
    """A server in a container of its own."""

    def __init__(self, image: str, options: tuple[str, ...] = ()) -> None:
        host_port = free_port()
        program = "valkey-server" if image.startswith("valkey") else "redis-server"
        command = [program, "--bind", "0.0.0.0", "--save", "", "--appendonly", "no", *OPTIONS, *options]
        self._container = (
            DockerContainer(image)
            .with_command(command)
            .with_bind_ports(6379, host_port)  # a fixed one: a restart would give a random one anew
            .with_kwargs(labels={OWNER_LABEL: f"{socket.gethostname()}/{os.getpid()}"})
        )
        try:
            self._container.start()
            super().__init__(image, self._container.get_container_host_ip(), host_port)
            self.wait_until_it_answers()
        except BaseException:
            self._container.stop()
            raise

    def alive(self) -> bool:
        wrapped = self._wrapped()
        wrapped.reload()
        return wrapped.status in {"running", "paused"}

    def logs(self) -> str:
        return self._wrapped().logs().decode(errors="replace")

    def stop(self) -> None:
        with contextlib.suppress(docker.errors.NotFound):  # a second stop, after an interrupt in the first
            self._container.stop()

    def _freeze(self) -> None:
        self._wrapped().pause()

    def _thaw(self) -> None:
        self._wrapped().unpause()

    def _kill(self) -> None:
        if self.alive():
            self._wrapped().kill()

    def _start_again(self) -> None:
        self._wrapped().start()

    def _wrapped(self) -> Container:
        return self._container.get_wrapped_container()


def die_with_parent() -> None:
    """In a child, before its program: the kernel kills it when the thread that started it ends, however it ends."""
    if sys.platform == "linux":
        pr_set_pdeathsig: Any = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
