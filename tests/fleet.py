"""Which servers a test run covers, and the starting and ending of them."""

import atexit
import contextlib
import gc
import os
import socket
import subprocess
import warnings
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TypeVar, cast

import docker
import docker.errors
from testcontainers.core.config import testcontainers_config
from testcontainers.core.docker_client import DockerClient

from servers import OWNER_LABEL, DockerServer, ProcessServer, Server
from todo_projection.embedded import find_server, wheel_server
from topologies import Cluster, Service

IMAGES = ("redis:7.0", "redis:8.0", "valkey/valkey:8.1")


Whole = TypeVar("Whole", bound=Service | Cluster)


class Fleet:
    """The servers one test run covers; each is started when the first test asks for it."""

    def __init__(self, images: tuple[str, ...], uncovered: dict[str, str]) -> None:
        self.images = images
        self.uncovered = uncovered
        self._shared: dict[str, Server] = {}
        self._places: dict[str, Service | Cluster] = {}
        self._running: list[Server | Service | Cluster] = []
        asked = os.environ.get("TODO_TEST_SERVER")  # the program of another server, for topologies above all
        self._embedded_program = Path(asked) if asked else wheel_server() or find_server()
        self.embedded = f"embedded {version(self._embedded_program)}"
        atexit.register(self.stop)  # a second Ctrl-C goes past pytest's own teardown

    @classmethod
    def discover(cls) -> "Fleet":
        """What this machine offers: the images of a Docker engine when one answers, always the embedded server."""
        engine = _engine()
        if isinstance(engine, str):
            return cls((), dict.fromkeys(IMAGES, engine))
        with contextlib.closing(engine):
            _remove_orphans(engine)
            testcontainers_config.ryuk_disabled = not _have(engine, testcontainers_config.ryuk_image, pull=False)
            uncovered = {image: "the image can't be had" for image in IMAGES if not _have(engine, image, pull=True)}
        return cls(tuple(image for image in IMAGES if image not in uncovered), uncovered)

    @property
    def names(self) -> tuple[str, ...]:
        """Every covered server; the first is the default."""
        return (*self.images, self.embedded)

    def get(self, name: str) -> Server:
        """The shared server of that name, started if need be."""
        if name not in self._shared:
            self._shared[name] = self.launch(name)
        return self._shared[name]

    @property
    def service(self) -> Service:
        """The servers behind sentinels, started if need be; left whole by whoever uses them."""
        return cast("Service", self._place("sentinel", Service))

    @property
    def cluster(self) -> Cluster:
        """The cluster, started if need be; left whole by whoever uses it."""
        return cast("Cluster", self._place("cluster", Cluster))

    @contextlib.contextmanager
    def healed(self, whole: Whole) -> Generator[Whole]:
        """The shared servers of a topology, whole again afterwards; those that do not get there are ended.

        Then the next test has new ones, and none that somebody else broke.
        """
        try:
            yield whole
            whole.heal()
        except BaseException:
            self._places = {name: place for name, place in self._places.items() if place is not whole}
            whole.stop()
            raise

    def launch_whole(self, name: str) -> Service | Cluster:
        """New servers that belong together, ``sentinel`` or ``cluster``."""
        whole = (Service if name == "sentinel" else Cluster)(self._embedded_program)
        self._running.append(whole)
        return whole

    def _place(self, name: str, kind: Callable[[Path], Service | Cluster]) -> Service | Cluster:
        if name not in self._places:
            self._places[name] = kind(self._embedded_program)
        return self._places[name]

    def is_shared(self, server: Server) -> bool:
        """Whether other tests use it too."""
        return server in self._shared.values()

    def launch(self, name: str, options: tuple[str, ...] = ()) -> Server:
        """A new server of that name, with extra options of its command line."""
        if name in self.images:
            server: Server = DockerServer(name, options)
        else:
            server = ProcessServer(self._embedded_program, self.embedded, options)
        self._running.append(server)
        return server

    def end(self, server: Server | Service | Cluster) -> None:
        """End a server for good, or all of several."""
        server.stop()
        self._running.remove(server)  # only now: an interrupted stop is repeated at exit

    def stop(self) -> None:
        """End every server; may be called twice."""
        while self._places:
            self._places.popitem()[1].stop()
        for server in list(self._running):
            self.end(server)

    def what_is_missing(self) -> str:
        """The servers that are not covered, and why."""
        reasons = dict.fromkeys(self.uncovered.values())
        missing = {why: [image for image in self.uncovered if self.uncovered[image] == why] for why in reasons}
        return "; ".join(f"{', '.join(images)} ({why})" for why, images in missing.items())


def version(program: Path) -> str:
    """Kind and version of a server program: ``valkey 9.1.2``."""
    words = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()
    number = next(word.removeprefix("v=") for word in words if word.startswith("v="))
    return f"{words[0].lower()} {number}"


def _engine() -> docker.DockerClient | str:
    """A Docker engine that answers, found the way containers will be started; else why there is none."""
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        try:
            engine = DockerClient().client
            engine.ping()
        except docker.errors.DockerException as error:
            why = f"no Docker engine answers: {error}"
        else:
            return engine
        gc.collect()  # the socket that docker leaves open when nobody answers, before a test is blamed for it
    return why


def _have(engine: docker.DockerClient, image: str, *, pull: bool) -> bool:
    try:
        engine.images.get(image)
    except docker.errors.ImageNotFound:
        if not pull:
            return False
        try:
            engine.images.pull(image)
        except docker.errors.APIError:
            return False
    return True


def _remove_orphans(engine: docker.DockerClient) -> None:
    """Remove containers of test runs on this host that were killed before they could."""
    for container in engine.containers.list(all=True, filters={"label": OWNER_LABEL}, ignore_removed=True):
        host, _, pid = container.labels[OWNER_LABEL].rpartition("/")
        if host == socket.gethostname() and not _is_running(int(pid)):
            with contextlib.suppress(docker.errors.APIError):  # another run beside this one is removing it
                container.remove(force=True, v=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
