"""The access rights of each role: enough for its work, told where missing, granted by what the doctor prints."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from consulting import Patient
from eventually import eventually
from projecting import projected, working
from running import operator
from servers import Server
from todo_projection.facts import ROLES, Role
from todo_projection.rights import commands
from todo_projection.subscriber import Frame, Snapshot, subscribe
from todo_write.events import Keys
from todo_write.log import Client, SessionLog, connect

RULES = Path(__file__).parents[1] / "deploy" / "users.acl"
TODOS = {"todos": [{"content": "build", "status": "in_progress"}]}


@pytest.fixture
async def user(redis: Any, namespace: str) -> AsyncIterator[str]:
    """A user of the test's own, who may nothing yet."""
    await redis.execute_command("ACL", "SETUSER", namespace, "on", ">secret", "-@all")
    yield namespace
    await redis.execute_command("ACL", "DELUSER", namespace)


def url_of(server: Server, user: str) -> str:
    return f"redis://{user}:secret@{server.host}:{server.port}/0"


async def allow(redis: Any, user: str, role: Role) -> None:
    """Give a user what the role's table says, and nothing else."""
    rules = [f"+{name}" for name in commands(role)]
    await redis.execute_command("ACL", "SETUSER", user, *rules, f"~{user}:*", f"&{user}:*")


@pytest.mark.every_server
async def test_the_rights_of_agent_worker_and_carrier_are_enough_for_their_work(
    server: Server, namespace: str, redis: Any, user: str, client: Client
) -> None:
    keys = await client.keys()
    await allow(redis, user, "agent")
    async with connect(url_of(server, user), namespace=namespace) as agent:
        position = await SessionLog(agent, "s1").append("todo/write", TODOS)
    await redis.execute_command("ACL", "SETUSER", user, "-@all")
    await allow(redis, user, "worker")
    async with working(url_of(server, user), namespace, beat_ms=100, claim_idle_ms=100) as worker:
        await projected(redis, keys, "s1", position)
        await eventually(lambda: redis.hexists(keys.workers, worker.name))
    await redis.execute_command("ACL", "SETUSER", user, "-@all")
    await allow(redis, user, "carrier")
    async with connect(url_of(server, user), namespace=namespace) as carrier, subscribe(carrier, "s1") as plans:
        await asyncio.wait_for(anext(update async for update in plans if isinstance(update, Snapshot | Frame)), 10)
    assert await denials(redis, user) == []


async def denials(redis: Any, user: str) -> list[dict[str, Any]]:
    """What the server refused that user."""
    entries = await redis.acl_log()
    return [entry for entry in entries if entry["username"] == user and "client" not in str(entry["object"])]


@pytest.mark.parametrize("role", ROLES)
async def test_what_is_missing_is_granted_by_what_is_printed(
    server: Server, namespace: str, redis: Redis, user: str, role: Role
) -> None:
    patient = Patient(server.url, namespace, redis)
    found = await patient.findings(user=user, role=role)
    assert found["rights"].severity == "error"
    await patient.mend(found["rights"])
    assert "rights" not in await patient.findings(user=user, role=role)
    assert {name for name in commands(role) if f"+{name}" not in found["rights"].mend[0].split()} == set()


@pytest.mark.parametrize("right", ["-xautoclaim", "-xinfo|groups", "resetkeys", "resetchannels"])
async def test_one_missing_right_is_named_alone(
    server: Server, namespace: str, redis: Any, user: str, right: str
) -> None:
    patient = Patient(server.url, namespace, redis)
    await allow(redis, user, "worker")
    assert "rights" not in await patient.findings(user=user, role="worker")
    await redis.execute_command("ACL", "SETUSER", user, right)
    (mend,) = (await patient.findings(user=user, role="worker"))["rights"].mend
    named = {"resetkeys": f"~{namespace}:*", "resetchannels": f"&{namespace}:*"}.get(right, f"+{right[1:]}")
    assert mend == f"ACL SETUSER {user} {named}"
    await redis.execute_command(*mend.split())
    assert "rights" not in await patient.findings(user=user, role="worker")


async def test_without_a_role_it_says_what_a_user_can_be(server: Server, namespace: str, redis: Any, user: str) -> None:
    patient = Patient(server.url, namespace, redis)
    await allow(redis, user, "agent")
    rights = (await patient.findings(user=user))["rights"]
    assert (rights.severity, rights.what) == ("note", f"user {user!r} can be agent")
    assert rights.mend == [f"todo-projection doctor --user {user} --role {role}" for role in ROLES[1:]]


async def test_a_user_nobody_knows_is_told(server: Server, namespace: str, redis: Redis) -> None:
    rights = (await Patient(server.url, namespace, redis).findings(user="nobody", role="worker"))["rights"]
    assert "not found" in rights.why


OPERATIONS = (
    *(["status"], ["sessions"], ["verify", "--all"], ["rebuild", "--all"], ["stale"], ["explain", "s1"]),
    *(["retention", "--idle", "1s", "--yes"], ["units", "set", "board:1,todos:2"], ["units", "clear"]),
)


@pytest.mark.parametrize("arguments", OPERATIONS, ids=" ".join)
async def test_the_rights_of_an_operator_are_enough_for_each_command(
    server: Server, namespace: str, redis: Any, user: str, arguments: list[str]
) -> None:
    await allow(redis, user, "operator")
    keys = Keys(namespace)
    async with connect(server.url, namespace=namespace) as client, working(server.url, namespace):
        await projected(redis, keys, "s1", await SessionLog(client, "s1").append("todo/write", TODOS))
        done = await operator(url_of(server, user), namespace)(*arguments)
    assert done.code == 0, done.err
    assert await denials(redis, user) == []


@pytest.mark.parametrize("role", ROLES)
async def test_the_rules_that_are_shipped_give_each_role_its_rights(own_server: Server, redis: Any, role: Role) -> None:
    rules = re.search(rf"^user todo-{role} on #\w+ (.+)$", RULES.read_text(), re.MULTILINE)
    assert rules
    await redis.execute_command("ACL", "SETUSER", f"todo-{role}", "on", *re.findall(r"\([^)]*\)|\S+", rules[1]))
    assert "rights" not in await Patient(own_server.url, "todo", redis).findings(user=f"todo-{role}", role=role)
