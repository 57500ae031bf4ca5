"""A cluster while slots move and primaries change: nothing is lost or done twice, and frames go on."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import RedisCluster
from redis.exceptions import RedisError

from eventually import eventually
from field import Field
from fleet import Fleet
from projecting import working
from servers import Server
from serving import plan
from todo_projection.shards import open_channels
from todo_write.log import Client, LogRewound, SessionLog, connect
from topologies import Cluster, Move, ask
from viewing import viewing

BUDGET_MS = 30_000
BLIND_S_MAX = 5.0
SESSIONS = [f"s{number}" for number in range(12)]

pytestmark = pytest.mark.timeout(300)  # each waits for several things, for half a minute at most

logger = logging.getLogger(__name__)


@pytest.fixture
def cluster(fleet: Fleet) -> Iterator[Cluster]:
    """The cluster, whole again afterwards."""
    with fleet.healed(fleet.cluster) as cluster:
        yield cluster


@pytest.fixture
async def patient(cluster: Cluster, namespace: str) -> AsyncIterator[Client]:
    """A client whose appends outlive a fail-over."""
    async with connect(cluster.url, namespace=namespace, append_budget_ms=BUDGET_MS) as client:
        yield client


@pytest.fixture
async def field(cluster: Cluster, namespace: str) -> AsyncIterator[Field]:
    async with RedisCluster.from_url(cluster.servers[0].url) as redis:
        yield Field(redis, namespace, 64)  # type: ignore[arg-type]  # the commands are the same


def todos(*items: str) -> list[dict[str, str]]:
    return [{"content": item, "status": "pending"} for item in items]


def other(cluster: Cluster, key: str) -> Server:
    """A primary that does not serve the key."""
    return next(server for server in cluster.primaries if server is not cluster.owner(key))


async def check_right(field: Field, *sessions: str) -> None:
    async def right() -> bool:
        await field.assert_right(sessions)
        return True

    await eventually(right, within=20)


async def test_frames_go_on_when_the_slot_of_a_watched_session_moves(
    cluster: Cluster, namespace: str, patient: Client, field: Field
) -> None:
    log, keys = SessionLog(patient, "s"), await patient.keys()
    async with working(cluster.url, namespace), viewing(patient, "s", poll_ms=60_000) as viewer:
        await log.append("todo/write", plan("0"))
        await viewer.shows("s", todos("0"))
        move = Move(cluster, keys.feed(keys.partition("s")), other(cluster, keys.log("s")))
        begun = time.monotonic()
        await asyncio.to_thread(move.whole)
        moved = time.monotonic()
        for number in range(1, 4):
            await log.append("todo/write", plan(str(number)))
            await viewer.shows("s", todos(str(number)), within=20)
            if number == 1:
                logger.warning("slot moved in %.2f s, shown %.2f s later", moved - begun, time.monotonic() - moved)
                assert time.monotonic() - moved < BLIND_S_MAX
    await check_right(field, "s")


async def test_an_append_follows_a_slot_that_is_on_its_way_and_lands_once(
    cluster: Cluster, namespace: str, patient: Client, field: Field
) -> None:
    log, keys = SessionLog(patient, "s"), await patient.keys()
    async with working(cluster.url, namespace):
        await log.append("todo/write", plan("0"))
        await check_right(field, "s")
    names = (keys.log("s"), keys.feed(keys.partition("s")), keys.row("s"))
    move = Move(cluster, names[0], other(cluster, names[0]))
    move.begin()
    await log.append("todo/write", plan("1"))  # all three keys are there still
    move.carry(names[0])
    torn = asyncio.create_task(log.append("todo/write", plan("2")))  # TRYAGAIN: they are in two places
    done, _ = await asyncio.wait({torn}, timeout=0.5)
    assert not done
    move.carry()
    assert (await torn).seq == 2  # ASK: all are over there, and the slot is not yet
    assert (await log.append("todo/write", plan("3"))).seq == 3
    await asyncio.to_thread(move.end)
    assert (await log.append("todo/write", plan("4"))).seq == 4  # MOVED
    assert [id.partition("-")[2] for id, _ in await field.log("s")] == ["0", "1", "2", "3", "4"]
    async with working(cluster.url, namespace):
        await check_right(field, "s")


async def test_a_commit_waits_while_its_keys_are_in_two_places_and_follows_them(
    cluster: Cluster, namespace: str, patient: Client, field: Field
) -> None:
    log, keys = SessionLog(patient, "s"), await patient.keys()
    async with working(cluster.url, namespace):
        await log.append("todo/write", plan("0"))
        await check_right(field, "s")
    await log.append("todo/write", plan("1"))
    row = keys.row("s")
    move = Move(cluster, row, other(cluster, row))
    ask(move.source, "CONFIG", "RESETSTAT")
    move.begin()
    move.carry(row)
    behind = await field.row("s")
    async with working(cluster.url, namespace):
        await eventually(lambda: _refused(move.source, "TRYAGAIN"), within=20)
        move.carry()
        await eventually(lambda: _refused(move.source, "ASK"), within=20)  # indexes that are not there are nowhere
        assert await field.row("s") == behind
        await asyncio.to_thread(move.end)
        await check_right(field, "s")


def _refused(server: Server, kind: str) -> bool:
    return f"errorstat_{kind}:" in ask(server, "INFO", "errorstats")


async def test_blocked_reads_are_unblocked_and_the_worker_goes_on(
    cluster: Cluster, namespace: str, patient: Client, field: Field, caplog: pytest.LogCaptureFixture
) -> None:
    log, keys = SessionLog(patient, "s"), await patient.keys()
    async with working(cluster.url, namespace, block_ms=1000):
        await log.append("todo/write", plan("0"))
        await check_right(field, "s")
        owner = cluster.owner(keys.log("s"))

        def blocked() -> list[str]:
            found = ask(owner, "CLIENT", "LIST").splitlines()
            return [line.split()[0].removeprefix("id=") for line in found if "cmd=xreadgroup" in line]

        ids = await eventually(blocked)
        assert sum(ask(owner, "CLIENT", "UNBLOCK", id, "ERROR") for id in ids) > 0
        await log.append("todo/write", plan("1"))
        await check_right(field, "s")
        assert "next try in" not in caplog.text  # nothing had to be waited for


async def test_a_promoted_node_without_scripts_and_groups_is_worked_with(
    cluster: Cluster, namespace: str, patient: Client, field: Field
) -> None:
    keys = await patient.keys()
    logs = {session: SessionLog(patient, session) for session in SESSIONS}
    async with working(cluster.url, namespace), viewing(patient, *SESSIONS) as viewer:
        for log in logs.values():
            await log.append("todo/write", plan("0"))
        promoted = await asyncio.to_thread(cluster.fail_over, cluster.owner(keys.log("s0")))
        for partition in range(keys.partitions):
            if cluster.owner(keys.feed(partition)) is promoted:
                ask(promoted, "XGROUP", "DESTROY", keys.feed(partition), "projection")
        for log in logs.values():
            await log.append("todo/write", plan("1"))
        for session in SESSIONS:
            await viewer.shows(session, todos("1"), within=30)
    await check_right(field, *SESSIONS)


async def test_a_primary_killed_under_load_loses_nothing_that_it_does_not_tell(
    cluster: Cluster, namespace: str, patient: Client, field: Field
) -> None:
    keys, told = await patient.keys(), dict.fromkeys(SESSIONS, 0)
    stop = asyncio.Event()

    async def write(session: str) -> None:
        log, number = SessionLog(patient, session), 0
        while not stop.is_set() or number < 3:
            try:
                await log.append("todo/write", plan(str(number)))
            except LogRewound:
                told[session] += 1
            number += 1
            await asyncio.sleep(0.02)
        await log.append("todo/write", plan("last"))

    async with working(cluster.url, namespace), viewing(patient, *SESSIONS) as viewer:
        writers = [asyncio.create_task(write(session)) for session in SESSIONS]
        await eventually(lambda: len(viewer.values) == len(SESSIONS), within=20)
        victim = cluster.owner(keys.log("s0"))
        replica = cluster.replica_of(victim)
        victim.kill()
        await eventually(lambda: ask(replica, "ROLE")[0] == "master", within=30)
        await asyncio.to_thread(victim.restart)
        elsewhere = next(one for one in SESSIONS if cluster.owner(keys.log(one)) is not replica)
        await asyncio.to_thread(Move(cluster, keys.log(elsewhere), replica).whole)
        stop.set()
        await asyncio.gather(*writers)
        for session in SESSIONS:
            await viewer.shows(session, todos("last"), within=40)
    assert max(told.values()) <= 1
    await check_right(field, *SESSIONS)


async def test_a_node_that_can_not_be_reached_is_not_taken_for_a_connection(
    cluster: Cluster, namespace: str, patient: Client
) -> None:
    await SessionLog(patient, "s").append("todo/write", plan("0"))  # who serves what is known by now
    keys, channels = await patient.keys(), await open_channels(patient)
    try:
        cluster.owner(keys.log("s")).kill()
        with pytest.raises((RedisError, OSError)):
            await channels.subscribe([keys.channel("s")])
        await channels.ping()
    finally:
        await channels.close()


async def test_all_nodes_silent_for_a_while(cluster: Cluster, namespace: str, patient: Client, field: Field) -> None:
    log = SessionLog(patient, "s")
    async with working(cluster.url, namespace), viewing(patient, "s") as viewer:
        await log.append("todo/write", plan("0"))
        await viewer.shows("s", todos("0"))
        for server in cluster.servers:
            server.freeze()
        writing = asyncio.create_task(log.append("todo/write", plan("1")))
        done, _ = await asyncio.wait({writing}, timeout=2)
        assert not done
        for server in cluster.servers:
            server.thaw()
        assert (await writing).seq == 1
        await viewer.shows("s", todos("1"), within=30)
    await check_right(field, "s")


async def test_all_nodes_killed_and_started_again_lose_nothing(
    cluster: Cluster, namespace: str, patient: Client, field: Field
) -> None:
    log = SessionLog(patient, "s")
    async with working(cluster.url, namespace), viewing(patient, "s") as viewer:
        await log.append("todo/write", plan("0"))
        await viewer.shows("s", todos("0"))
        for server in cluster.servers:
            server.kill()
        writing = asyncio.create_task(log.append("todo/write", plan("1")))
        done, _ = await asyncio.wait({writing}, timeout=1)
        assert not done
        for server in cluster.servers:
            await asyncio.to_thread(server.restart)
        assert (await writing).seq == 1
        await viewer.shows("s", todos("1"), within=30)
    await asyncio.to_thread(cluster.wait_until_whole)
    await check_right(field, "s")


async def test_no_replica_is_asked_for_anything(cluster: Cluster, namespace: str, patient: Client) -> None:
    replicas = [server for server in cluster.servers if server not in cluster.primaries]
    for replica in replicas:
        ask(replica, "CONFIG", "RESETSTAT")
    async with working(cluster.url, namespace), viewing(patient, *SESSIONS, poll_ms=500) as viewer:
        for session in SESSIONS:
            await SessionLog(patient, session).append("todo/write", plan("a"))
        for session in SESSIONS:
            await viewer.shows(session, todos("a"), within=30)
    for replica in replicas:
        stats = ask(replica, "INFO", "commandstats")
        assert not [name for name in ("hgetall", "evalsha", "ssubscribe", "xreadgroup") if f"cmdstat_{name}:" in stats]
