"""The doctor where several servers belong together: every primary is looked at, and how all of them stand."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError
from rich.console import Console

from consulting import Patient
from eventually import eventually
from fleet import Fleet
from projecting import working
from running import operator
from todo_projection.diagnosis import Ailment, Diagnosis
from todo_projection.doctor import diagnose, diagnosis_view
from todo_projection.facts import ROLES, ClusterFacts, Facts, PrimaryFacts, SentinelFacts
from todo_write.events import Keys
from topologies import SERVICE, Cluster, Move, Service, ask

PARAMETERS = {
    "maxmemory": "256mb",
    "stream-node-max-bytes": "512",
    "hash-max-listpack-value": "4096",
    "client-output-buffer-limit": "pubsub 33554432 8388608 60",
    "min-replicas-to-write": "1",
}


@pytest.fixture
def whole(request: pytest.FixtureRequest, fleet: Fleet, topology: str) -> Iterator[Service | Cluster]:
    """The servers of a topology, set as the doctor likes them, and as they were afterwards."""
    with fleet.healed(fleet.service if topology == "sentinel" else fleet.cluster) as place:
        before = {one: {name: ask(one, "CONFIG", "GET", name)[1] for name in PARAMETERS} for one in place.servers}
        for server in place.servers:
            for name, value in PARAMETERS.items():
                ask(server, "CONFIG", "SET", name, value)
        yield place
        place.heal()
        for server, values in before.items():
            for name, value in values.items():
                ask(server, "CONFIG", "SET", name, value)


@pytest.fixture
async def patient(whole: Service | Cluster, namespace: str, redis: Redis) -> AsyncIterator[Patient]:
    """These servers with a worker."""
    patient = Patient(whole.url, namespace, redis)
    async with working(whole.url, namespace):
        await eventually(lambda: patient.redis.exists(Keys(namespace).workers))
        yield patient


@pytest.mark.parametrize("topology", ["sentinel", "cluster"], indirect=True)
async def test_sound_servers_have_nothing(patient: Patient) -> None:
    assert await patient.findings() == {}


@pytest.mark.parametrize("topology", ["cluster"], indirect=True)
async def test_what_ails_one_primary_is_found_and_where(patient: Patient, fleet: Fleet) -> None:
    first, second, _ = fleet.cluster.primaries
    ask(first, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        found = await patient.findings()
        assert set(found) == {"eviction"}
        assert found["eviction"].at == [f"{first.host}:{first.port}"]
        ask(second, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        assert set((await patient.findings())["eviction"].at) == {f"{one.host}:{one.port}" for one in (first, second)}
    finally:
        for one in (first, second):
            ask(one, "CONFIG", "SET", "maxmemory-policy", "noeviction")


@pytest.mark.parametrize("topology", ["cluster"], indirect=True)
async def test_a_primary_that_is_away_is_told_and_the_others_are_looked_at(patient: Patient, fleet: Fleet) -> None:
    cluster = fleet.cluster
    away = cluster.owner(Keys(patient.namespace).meta)  # what the namespace says of itself is gone with it
    replica = cluster.replica_of(away)
    ask(replica, "CONFIG", "SET", "cluster-replica-no-failover", "yes")  # so soon the whole refuses everything
    away.kill()
    other = next(one for one in cluster.primaries if one is not away)
    ask(other, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:

        async def cluster_refuses() -> bool:
            found = await patient.findings()
            assert (found["answers"].severity, found["answers"].at) == ("error", [f"{away.host}:{away.port}"])
            assert found["eviction"].at == [f"{other.host}:{other.port}"]
            return "cluster_state" in found

        assert await eventually(cluster_refuses, within=30)
        assert "unread" not in await patient.findings(), "nobody can say whether workers work"
        await eventually(lambda: _is_replaced(patient, cluster), within=30)
    finally:
        ask(replica, "CONFIG", "SET", "cluster-replica-no-failover", "no")
        ask(other, "CONFIG", "SET", "maxmemory-policy", "noeviction")


async def _is_replaced(patient: Patient, cluster: Cluster) -> bool:
    """By its replica, which is told to by what is printed."""
    ailment = (await patient.findings()).get("answers")
    for line in ailment.mend if ailment else []:
        port, *command = line.partition(" -p ")[2].split()
        with contextlib.suppress(ResponseError):  # it has just done so
            ask(next(one for one in cluster.servers if one.port == int(port)), *command)
    return ailment is None


@pytest.mark.parametrize("topology", ["sentinel"], indirect=True)
async def test_replicas_that_are_away_are_told_and_an_error_once_none_is_left(patient: Patient, fleet: Fleet) -> None:
    replicas = fleet.service.replicas
    for count, severity in ((1, "warning"), (2, "error")):
        replicas[count - 1].kill()
        names = sorted(f"{one.host}:{one.port}" for one in replicas[:count])

        async def told(names: list[str] = names, severity: str = severity) -> bool:
            found = (await patient.findings()).get("service_replicas")
            assert found
            assert (found.severity, found.at) == (severity, names)
            return True

        await eventually(told, within=30)


@pytest.mark.parametrize("topology", ["cluster"], indirect=True)
async def test_a_slot_left_on_its_way_is_found(patient: Patient, fleet: Fleet) -> None:
    cluster = fleet.cluster
    source, target, _ = cluster.primaries
    keys = Keys(patient.namespace)
    key = next(keys.feed(number) for number in range(64) if cluster.owner(keys.feed(number)) is source)
    move = Move(cluster, key, target)
    move.begin()
    found = await patient.findings()
    assert found["cluster_slots"].what == "slots on their way: 1"
    await asyncio.to_thread(move.carry)
    await asyncio.to_thread(move.end)
    assert await patient.findings() == {}


@pytest.mark.parametrize("topology", ["sentinel"], indirect=True)
async def test_sentinels_that_are_silent_are_an_error_once_no_fail_over_is_possible(
    patient: Patient, fleet: Fleet
) -> None:
    for count, severity in ((1, "warning"), (2, "error")):
        fleet.service.sentinels[count - 1].freeze()
        found = (await patient.findings())["sentinels_reached"]
        assert (found.severity, len(found.at)) == (severity, count)


@pytest.mark.parametrize("topology", ["sentinel"], indirect=True)
async def test_a_primary_away_that_nobody_replaces_is_told_by_those_sentinels_that_answer(
    patient: Patient, fleet: Fleet
) -> None:
    service, primary = fleet.service, fleet.service.primary
    silent = service.sentinels[:2]  # the third is no majority
    for sentinel in silent:
        sentinel.freeze()
    primary.kill()
    done = await operator(service.url, patient.namespace)("doctor", "--json")
    assert done.code == 1, done.err
    found = {one["name"]: one for one in json.loads(done.out)["findings"]}
    assert {name: one["severity"] for name, one in found.items()} == {"answers": "error", "sentinels_reached": "error"}
    assert found["answers"]["at"] == [f"{primary.host}:{primary.port}"]
    assert found["sentinels_reached"]["at"] == [f"{one.host}:{one.port}" for one in silent]
    await asyncio.to_thread(primary.restart)

    async def well() -> bool:
        return "answers" not in await patient.findings()

    assert await eventually(well, within=30)


@pytest.mark.parametrize("topology", ["sentinel"], indirect=True)
async def test_without_a_primary_and_sentinels_nothing_answers(patient: Patient, fleet: Fleet) -> None:
    for server in (*fleet.service.sentinels, fleet.service.primary):
        server.freeze()
    done = await operator(fleet.service.url, patient.namespace)("doctor")
    fleet.service.heal()
    assert done.code == 3, done.out


@pytest.mark.parametrize("topology", ["sentinel"], indirect=True)
async def test_a_quorum_of_one_is_found_and_mended_by_what_is_printed(patient: Patient, fleet: Fleet) -> None:
    for sentinel in fleet.service.sentinels:
        ask(sentinel, "SENTINEL", "SET", SERVICE, "quorum", 1)
    found = (await patient.findings())["sentinels_quorum"]
    for sentinel in fleet.service.sentinels:
        ask(sentinel, *found.mend[0].split())
    assert await patient.findings() == {}


def judged(**more: Any) -> Diagnosis:
    given: dict[str, Any] = {"address": "a", "namespace": "t", "database": 0, "workers": 1, "version": "7.2.0", **more}
    return diagnose(Facts(**given, lacking={role: [] for role in ROLES}))


def found(**more: Any) -> dict[str, Ailment]:
    return {one.name: one for one in judged(**more).findings}


def test_what_is_told_to_be_typed_goes_to_the_primary_that_sentinels_name() -> None:
    silent, answers = (SentinelFacts("s1:1", refused="frozen"), SentinelFacts("s2:1", primary="10.0.0.7:6379"))
    name = "sentinel s1:1,s2:1/plans/0"
    told = judged(address=name, sentinels=[silent, answers], service="plans")
    told = msgspec.structs.replace(
        told, findings=[Ailment("note", "memory", "no limit", "", ["CONFIG SET maxmemory 1"])]
    )
    with (console := Console(width=200)).capture() as shown:
        console.print(diagnosis_view(told))
    assert "redis-cli -h 10.0.0.7 -p 6379 takes commands in capitals" in shown.get()


def test_slots_that_nobody_serves_and_primaries_that_nobody_follows_are_found() -> None:
    primaries = [PrimaryFacts("a:1", 1, 0), PrimaryFacts("b:1", 0, 0)]
    ailing = found(cluster=ClusterFacts("fail", 10923, primaries))
    assert ailing["cluster_state"].what == "cluster_state is fail, 10923 of 16384 slots are served"
    assert ailing["cluster_replicas"].at == ["b:1"]


def test_sentinels_that_disagree_or_know_no_replica_are_found() -> None:
    one, other = (SentinelFacts(f"s{n}:1", primary=f"p{n}:1", quorum=2, others=2, replicas=0) for n in (1, 2))
    assert {"sentinels_agree", "service_replicas"} <= set(found(sentinels=[one, other], service="plans"))
