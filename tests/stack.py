"""The services of deploy/compose.yaml as containers, started with what stands there; nothing is said twice."""

import contextlib
import os
import re
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker
import docker.errors
import yaml
from docker.models.containers import Container
from docker.types import Healthcheck

from servers import OWNER_LABEL
from todo_projection.embedded import free_port

DEPLOY = Path(__file__).parents[1] / "deploy"
SECOND_NS = 1_000_000_000
CHECK_INTERVAL_NS = SECOND_NS  # instead of that of compose.yaml: a test waits for it
SECONDS = {"s": 1, "m": 60}


def services(variables: Mapping[str, str]) -> dict[str, Any]:
    """The services of compose.yaml, with these variables, else the defaults that stand there."""

    def value(match: re.Match[str]) -> str:
        return variables.get(match[1], match[2])

    text = re.sub(r"\$\{(\w+):-([^}]*)\}", value, (DEPLOY / "compose.yaml").read_text())
    found: dict[str, Any] = yaml.safe_load(text)["services"]
    return found


def seconds(text: str) -> int:
    """``15s`` or ``1m``, as compose.yaml says times."""
    return int(text[:-1]) * SECONDS[text[-1]]


class Stack:
    """A stack of one's own: ``ports`` are where its published ports are on this host, ``of`` the running containers."""

    def __init__(self, engine: docker.DockerClient, owner: str, variables: Mapping[str, str]) -> None:
        self._engine = engine
        self._labels = {OWNER_LABEL: owner}
        self._name = f"todo-stack-{secrets.token_hex(4)}"
        self.services = services(variables)
        self.ports: dict[str, int] = {}
        self.of: dict[str, list[Container]] = {name: [] for name in self.services}
        self._network = engine.networks.create(self._name, driver="bridge", labels=self._labels)
        self._volume = engine.volumes.create(self._name, labels=self._labels)

    def start(self, name: str) -> None:
        """Start every container of a service."""
        service = self.services[name]
        self.ports.setdefault(name, free_port())
        count = service.get("deploy", {}).get("replicas", 1)
        for number in range(count):
            self.of[name].append(self._create(name, service, published=count == 1 and number == 0))
            self.of[name][-1].start()

    def healthy(self, name: str) -> bool:
        """Whether the health checks of all containers of a service say so."""
        for container in self.of[name]:
            container.reload()
            state = container.attrs["State"]
            assert state["Status"] == "running", container.logs().decode()
            checked = "disable" not in self.services[name]["healthcheck"]
            assert not checked or state["Health"]["Status"] == "healthy", state["Health"]
        return True

    def all_healthy(self) -> bool:
        """Whether all services are."""
        return all(self.healthy(name) for name in self.services)

    def kill(self, name: str) -> None:
        """SIGKILL to every container of a service; ``again`` starts the same ones."""
        for container in self.of[name]:
            container.kill()

    def again(self, name: str) -> None:
        """Start what was killed or stopped, as `restart: unless-stopped` does."""
        for container in self.of[name]:
            container.start()

    def close(self) -> None:
        """Remove all of it."""
        for container in [one for found in self.of.values() for one in found]:
            with contextlib.suppress(docker.errors.NotFound):
                container.remove(force=True)
        self._network.remove()
        self._volume.remove()

    def _create(self, name: str, service: dict[str, Any], *, published: bool) -> Container:
        more: dict[str, Any] = {}
        check = service["healthcheck"]
        if "disable" in check:
            more["healthcheck"] = Healthcheck(test=["NONE"])
        else:
            more["healthcheck"] = Healthcheck(
                test=check["test"],
                interval=CHECK_INTERVAL_NS,
                timeout=seconds(check["timeout"]) * SECOND_NS,
                retries=check["retries"],
            )
        if published and "ports" in service:
            inside = service["ports"][0].rpartition(":")[2]
            more["ports"] = {f"{inside}/tcp": ("127.0.0.1", self.ports[name])}
        container: Container = self._engine.containers.create(
            service["image"],
            service["command"],
            environment=service.get("environment", {}),
            read_only=service["read_only"],
            cap_drop=service["cap_drop"],
            cap_add=service.get("cap_add", []),
            security_opt=service["security_opt"],
            mem_limit=service["mem_limit"],
            pids_limit=service.get("pids_limit"),
            volumes=[self._bound(volume) for volume in service.get("volumes", [])],
            network=self._name,
            labels=self._labels,
            detach=True,
            **more,
        )
        self._network.disconnect(container)
        self._network.connect(container, aliases=[name])
        return container

    def _bound(self, volume: str) -> str:
        source, _, target = volume.partition(":")
        return f"{DEPLOY / source if source.startswith('.') else self._name}:{target}"


def owner() -> str:
    """The label of containers of this run, by which the next one finds those it left."""
    return f"{socket.gethostname()}/{os.getpid()}"
