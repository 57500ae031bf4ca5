"""The doctor: each finding on a server that really has it, and gone when what is printed was done."""

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from command import Command, Done
from consulting import SOUND, Patient
from eventually import eventually
from projecting import working
from servers import ProcessServer, Server
from todo_projection.doctor import CHECKS, diagnose
from todo_projection.embedded import free_port
from todo_projection.facts import ROLES, Facts
from todo_write.events import Keys
from todo_write.log import SessionLog, connect


@pytest.fixture
def own_server(launch: Callable[..., Server]) -> Server:
    """A server set as the doctor likes it."""
    return launch(*SOUND)


@pytest.fixture
async def patient(own_server: Server, namespace: str, redis: Redis) -> AsyncIterator[Patient]:
    """A sound server with a worker."""
    patient = Patient(own_server.url, namespace, redis)
    async with working(own_server.url, namespace):
        await eventually(lambda: patient.redis.exists(Keys(namespace).workers))
        yield patient


async def asked(patient: Patient, *arguments: str) -> Done:
    """The command as people run it."""
    return await Command("todo-projection", **patient.environment)("doctor", *arguments)


async def test_a_sound_server_with_a_worker_has_nothing(patient: Patient) -> None:
    assert await patient.findings() == {}
    shown = await asked(patient)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.endswith(f"✓ {len(CHECKS)} checks, nothing found\n")


@pytest.mark.parametrize(
    ("name", "severity", "set"),
    [
        ("eviction", "error", [("maxmemory-policy", "allkeys-lru")]),
        ("persistence", "error", [("appendonly", "no"), ("save", "")]),
        ("persistence", "warning", [("appendonly", "no"), ("save", "900 1")]),
        ("fsync", "warning", [("appendfsync", "no")]),
        ("memory", "note", [("maxmemory", "0")]),
        ("pubsub_buffer", "warning", [("client-output-buffer-limit", "pubsub 0 0 0")]),
        ("pubsub_buffer", "warning", [("client-output-buffer-limit", "pubsub 100000 0 0")]),
        ("idle_timeout", "warning", [("timeout", "5")]),
        ("stream_nodes", "note", [("stream-node-max-bytes", "4096")]),
        ("stream_nodes", "note", [("stream-node-max-bytes", "0")]),
        ("row_hashes", "note", [("hash-max-listpack-value", "64")]),
    ],
)
async def test_a_setting_is_found_and_mended_by_what_is_printed(
    patient: Patient, name: str, severity: str, set: Sequence[tuple[str, str]]
) -> None:
    for parameter, value in set:
        await patient.redis.config_set(parameter, value)
    assert await patient.severities() == {name: severity}
    await patient.mend((await patient.findings())[name])
    assert await patient.findings() == {}


async def test_few_places_left_for_connections_are_found(patient: Patient) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(12):
            other: Any = await stack.enter_async_context(patient.redis.client())
            await other.ping()
        taken = (await patient.redis.info("clients"))["connected_clients"]
        await patient.redis.config_set("maxclients", taken + 4)  # the doctor takes two of them
        found = await patient.findings()
        assert found["connections"].severity == "warning"
        await patient.mend(found["connections"])
        assert await patient.findings() == {}


async def test_a_server_nearly_full_is_found_before_it_refuses(patient: Patient) -> None:
    used = (await patient.redis.info("memory"))["used_memory"]
    await patient.redis.config_set("maxmemory", int(used / 0.97))
    found = await patient.findings()
    assert found["memory"].severity == "error"
    await patient.mend(found["memory"])
    assert await patient.findings() == {}


async def test_a_snapshot_that_failed_is_found(patient: Patient, own_server: Server) -> None:
    assert isinstance(own_server, ProcessServer)

    async def saved(how: str) -> None:
        async def ended() -> bool:
            info = await patient.redis.info("persistence")
            return not info["rdb_bgsave_in_progress"] and info["rdb_last_bgsave_status"] == how

        await eventually(ended)

    in_its_way = own_server.folder / "dump.rdb"
    in_its_way.mkdir()  # no file can be given the name of a folder
    await patient.redis.bgsave()
    await saved("err")
    found = await patient.findings()
    assert found["disk"].severity == "error"
    in_its_way.rmdir()
    await patient.mend(found["disk"])
    await saved("ok")
    assert await patient.findings() == {}


async def test_a_primary_that_would_go_on_without_its_replicas_and_a_replica_taken_for_a_primary(
    patient: Patient, own_server: Server, launch: Callable[..., Server]
) -> None:
    replica = launch(*SOUND, "--replicaof", f"{own_server.host} {own_server.port}")

    async def follows() -> bool:
        return bool((await patient.redis.info("replication"))["connected_slaves"] == 1)

    await eventually(follows)
    found = await patient.findings()
    assert found["replicas"].severity == "warning"
    await patient.mend(found["replicas"])
    assert await patient.findings() == {}
    patient.environment["TODO_REDIS_URL"] = replica.url
    found = await patient.findings()
    assert found["is_primary"].severity == "error"
    await patient.mend(found["is_primary"])
    assert await patient.findings() == {}


async def test_another_number_of_partitions_and_another_layout_are_findings_not_ends(patient: Patient) -> None:
    patient.environment["TODO_PARTITIONS"] = "7"
    found = await patient.findings()
    assert found["layout"].severity == "error"
    assert "is 64, TODO_PARTITIONS asks for 7" in found["layout"].what
    await patient.mend(found["layout"])
    assert await patient.findings() == {}
    await patient.redis.hset(Keys(patient.namespace).meta, "layout", 9)
    assert "layout version is 9" in (await patient.findings())["layout"].what


async def test_a_node_of_a_cluster_taken_for_a_server_is_found(launch: Callable[..., Server], namespace: str) -> None:
    node = launch(*SOUND, "--cluster-enabled", "yes")
    async with Redis.from_url(node.url) as redis:
        patient = Patient(node.url, namespace, redis)
        found = await patient.findings()  # no slot is assigned: every key is refused
        assert found["topology"].severity == "error"
        assert found["topology"].mend == [f"export TODO_REDIS_URL=redis+cluster://{node.host}:{node.port}"]


async def test_two_databases_with_one_namespace_are_found(patient: Patient, own_server: Server) -> None:
    async with connect(own_server.url.replace("/0", "/3"), namespace=patient.namespace) as other:
        await SessionLog(other, "s1").append("note", {})
    found = await patient.findings()
    assert "databases 0 and 3" in found["namesakes"].what
    await patient.mend(found["namesakes"])
    assert "namesakes" not in await patient.findings()


async def test_a_feed_ahead_of_the_clock_is_found_and_when_drained_can_be_deleted(patient: Patient) -> None:
    keys = Keys(patient.namespace)
    seconds, _ = await patient.redis.time()
    ahead = f"{(seconds + 3600) * 1000}-0"
    await patient.redis.xadd(keys.feed(5), {"not": "a pointer"}, id=ahead)
    await patient.redis.xdel(keys.feed(5), ahead)
    found = await patient.findings()
    assert found["feed_clock"].mend == [f"DEL {keys.feed(5)}"]
    await patient.mend(found["feed_clock"])
    assert await patient.findings() == {}


async def test_a_group_beside_the_workers_is_found(patient: Patient) -> None:
    feed = Keys(patient.namespace).feed(5)
    await patient.redis.xgroup_create(feed, "mine", "0", mkstream=True)
    found = await patient.findings()
    assert found["strangers"].severity == "note"
    await patient.mend(found["strangers"])
    assert await patient.findings() == {}


async def test_feeds_nobody_reads_are_found_until_a_worker_comes(
    own_server: Server, namespace: str, redis: Redis
) -> None:
    patient = Patient(own_server.url, namespace, redis)
    assert await patient.severities() == {"unread": "warning"}
    async with connect(own_server.url, namespace=namespace) as client:
        await SessionLog(client, "s1").append("note", {})
    found = await patient.findings()
    assert (found["unread"].severity, found["unread"].mend) == ("error", ["todo-projection worker"])
    async with working(own_server.url, namespace):

        async def content() -> bool:
            return await patient.findings() == {}

        await eventually(content)


async def test_an_event_that_waits_beside_a_worker_is_found(own_server: Server, namespace: str, redis: Any) -> None:
    patient = Patient(own_server.url, namespace, redis)
    async with connect(own_server.url, namespace=namespace) as client:
        keys = await client.keys()
    await redis.xadd(keys.feed(5), {"s": "s1", "i": "1-0", "o": "o", "t": "t"}, id="1-1")
    await redis.hset(keys.workers, "w", json.dumps(await beat(redis)))
    assert await patient.severities() == {"unread": "error"}


async def beat(redis: Any) -> dict[str, Any]:
    seconds, _ = await redis.time()
    return {"at": seconds * 1000, "started": 0, "host": "h", "pid": 7, "units": "todos:2"}


async def test_what_a_managed_server_keeps_to_itself_is_a_note(patient: Patient, own_server: Server) -> None:
    await patient.redis.execute_command("ACL", "SETUSER", "managed", "on", ">secret", "~*", "&*", "+@all", "-config")
    host = f"{own_server.host}:{own_server.port}"
    patient.environment["TODO_REDIS_URL"] = f"redis://managed:secret@{host}/0"
    found = await patient.findings()
    assert set(found) == {"configuration_told", "rights"}, "an operator reads the configuration"
    assert "stream-node-max-bytes" in found["configuration_told"].what
    assert "maxmemory," not in found["configuration_told"].what, "INFO tells"
    await patient.mend(found["configuration_told"])
    assert await patient.findings() == {}


async def test_a_user_that_may_hardly_anything_is_told_what_is_missing(patient: Patient, own_server: Server) -> None:
    await patient.redis.execute_command("ACL", "SETUSER", "low", "on", ">secret", "-@all")
    host = f"{own_server.host}:{own_server.port}"
    patient.environment["TODO_REDIS_URL"] = f"redis://low:secret@{host}/0"
    done = await asked(patient)
    assert "Traceback" not in done.err
    assert "can't tell" in done.out
    assert "secret" not in done.out + done.err


def facts(**more: Any) -> Facts:
    given: dict[str, Any] = {"address": "h:1/0", "namespace": "t", "database": 0, "workers": 1, "version": "7.2.0"}
    given["lacking"] = {role: [] for role in ROLES}
    return Facts(**{**given, **more})


@pytest.mark.parametrize(
    ("kind", "version", "severity"),
    [
        ("redis", "6.2.14", "error"),
        ("redis", "7.0.15", None),
        ("redis", "8.4.0", None),
        ("redis", "9.0.0", "note"),
        ("valkey", "7.2.5", None),
        ("valkey", "9.1.2", None),
        ("valkey", "10.0.0", "note"),
        ("dragonfly", "1.2", "note"),
    ],
)
def test_a_version_is_judged_by_its_kind(kind: str, version: str, severity: str | None) -> None:
    found = [one for one in diagnose(facts(kind=kind, version=version)).findings if one.name == "server_version"]
    assert [one.severity for one in found] == ([severity] if severity else [])


@pytest.mark.parametrize(("off_ms", "doubt_ms", "told"), [(900, 0, False), (-1500, 0, True), (1500, 800, False)])
def test_clocks_apart_by_more_than_can_be_doubted_are_told(off_ms: int, doubt_ms: int, *, told: bool) -> None:
    found = diagnose(facts(now=1_000_000 + off_ms, host_now=1_000_000, doubt_ms=doubt_ms)).findings
    assert ["clock"] * told == [one.name for one in found if one.name == "clock"]


@pytest.mark.every_server
async def test_every_server_is_known_by_kind_and_version(redis_url: str, namespace: str, server: Server) -> None:
    done = await Command("todo-projection", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)("doctor", "--json")
    told = json.loads(done.out)
    kind, version = server.name.replace("embedded ", "").replace("valkey/", "").replace(":", " ").split()
    assert told["server"].startswith(f"{kind} {version}"), told["server"]
    assert {one["name"] for one in told["findings"]}.isdisjoint({"server_version", "rights", "configuration_told"})


async def test_the_worst_comes_first(own_server: Server, namespace: str, redis: Any) -> None:
    await redis.config_set("stream-node-max-bytes", 4096)
    await redis.config_set("maxmemory-policy", "allkeys-lru")
    patient = Patient(own_server.url, namespace, redis)
    assert list(await patient.findings()) == ["eviction", "unread", "stream_nodes"]
    shown = await asked(patient)
    assert shown.code == 1
    assert [line[:1] for line in shown.out.splitlines() if line and line[0] in "✗!·"] == ["✗", "!", "·"]
    assert "\x1b" not in shown.out


async def test_a_server_that_is_away_is_exit_3() -> None:
    done = await Command("todo-projection", TODO_REDIS_URL=f"redis://:secret@127.0.0.1:{free_port()}/0")("doctor")
    assert (done.code, "secret" in done.err) == (3, False)
