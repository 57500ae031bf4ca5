"""Fail-overs behind sentinels: what is lost is told once, everything else goes on, and no replica is asked."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from redis.asyncio import Redis

from eventually import eventually
from field import Field
from fleet import Fleet
from projecting import projected, working
from servers import Server
from serving import plan
from todo_write.log import Client, LogRewound, NotSaved, SessionLog, TooFewReplicas, connect
from topologies import Service, ask
from viewing import viewing

READONLY_S = float(os.environ.get("TODO_TEST_READONLY_S", "1"))
BUDGET_MS = 30_000  # a fail-over takes a second or two here, and longer on a busy machine
pytestmark = pytest.mark.timeout(300)  # each waits for several things, for half a minute at most
OURS = ("hgetall", "hmget", "eval", "evalsha", "xreadgroup", "xrange")


@pytest.fixture
def service(fleet: Fleet) -> Iterator[Service]:
    """The service, whole again afterwards."""
    with fleet.healed(fleet.service) as service:
        yield service


@pytest.fixture
async def patient(service: Service, namespace: str) -> AsyncIterator[Client]:
    """A client whose appends outlive a fail-over."""
    async with connect(service.url, namespace=namespace, append_budget_ms=BUDGET_MS) as client:
        yield client


def todos(*items: str) -> list[dict[str, str]]:
    return [{"content": item, "status": "pending"} for item in items]


async def check_right(service: Service, namespace: str, *sessions: str) -> None:
    """Every row equals the fold of the log that is there."""
    async with Redis.from_url(service.primary.url) as redis:
        field = Field(redis, namespace, 64)

        async def right() -> bool:
            await field.assert_right(sessions)
            return True

        await eventually(right, within=30)


async def test_a_fail_over_that_loses_a_tail_is_told_once_and_all_follow_the_surviving_log(
    service: Service, namespace: str, patient: Client
) -> None:
    log = SessionLog(patient, "s")
    async with working(service.url, namespace), viewing(patient, "s") as viewer:
        kept = await log.append("todo/write", plan("kept"))
        await viewer.shows("s", todos("kept"))
        before = service.primary
        await asyncio.to_thread(wait_for_replicas, before)
        for replica in service.replicas:
            replica.freeze()
        ask(before, "CLIENT", "KILL", "TYPE", "replica")  # what is written from here on is sent to nobody
        for item in ("lost", "lost too"):
            await log.append("todo/write", plan(item))
        await viewer.shows("s", todos("lost too"))
        before.kill()
        for server in service.servers:
            server.thaw()
        await asyncio.to_thread(service.wait_until_led_by_other, before)
        await viewer.shows("s", todos("kept"), within=30)
        with pytest.raises(LogRewound) as told:
            await log.append("todo/write", plan("refused"))
        assert (told.value.expected.seq if told.value.expected else None, told.value.tail) == (2, kept)
        assert (await log.append("todo/write", plan("after"))).seq == 1
        await viewer.shows("s", todos("after"), within=30)
    await check_right(service, namespace, "s")


def wait_for_replicas(primary: Server) -> None:
    """What was written is on all replicas."""
    assert ask(primary, "WAIT", 2, 5000) == 2


async def test_writers_worker_and_viewer_go_on_after_a_fail_over_without_loss(
    service: Service, namespace: str, patient: Client
) -> None:
    async with working(service.url, namespace), viewing(patient, "s") as viewer:
        log = SessionLog(patient, "s")
        await log.append("todo/write", plan("0"))
        await asyncio.to_thread(service.fail_over)  # the script is in no cache of the new one
        await log.append("todo/write", plan("1"))
        await viewer.shows("s", todos("1"), within=30)
        keys = await patient.keys()
        assert ask(service.primary, "XGROUP", "DESTROY", keys.feed(keys.partition("s")), "projection") == 1
        await log.append("todo/write", plan("2"))
        await viewer.shows("s", todos("2"), within=30)
    await check_right(service, namespace, "s")


async def test_no_replica_is_asked_for_anything(service: Service, namespace: str, patient: Client) -> None:
    for server in service.servers:
        ask(server, "CONFIG", "RESETSTAT")
    async with working(service.url, namespace), viewing(patient, "s", poll_ms=500) as viewer:
        await SessionLog(patient, "s").append("todo/write", plan("a"))
        await viewer.shows("s", todos("a"), within=30)
        await eventually(lambda: "cmdstat_hmget:" in ask(service.primary, "INFO", "commandstats"))  # it has polled
        for replica in service.replicas:  # sentinels subscribe as well, to channels of their own
            assert ask(replica, "PUBSUB", "CHANNELS", f"{namespace}:*") == []
        assert ask(service.primary, "PUBSUB", "CHANNELS", f"{namespace}:*") != []
    for replica in service.replicas:
        stats = ask(replica, "INFO", "commandstats")
        assert not [name for name in OURS if f"cmdstat_{name}:" in stats]


async def test_all_sentinels_away_stop_nobody_who_is_connected(
    service: Service, namespace: str, patient: Client
) -> None:
    log = SessionLog(patient, "s")
    async with working(service.url, namespace), viewing(patient, "s") as viewer:
        await log.append("todo/write", plan("0"))
        await viewer.shows("s", todos("0"))
        for sentinel in service.sentinels:
            sentinel.freeze()
        await log.append("todo/write", plan("1"))
        await viewer.shows("s", todos("1"), within=20)


async def test_a_server_that_only_reads_for_a_while_loses_nothing(own_server: Server, namespace: str) -> None:
    async with (
        connect(own_server.url, namespace=namespace, append_budget_ms=BUDGET_MS) as client,
        working(own_server.url, namespace),
        Redis.from_url(own_server.url) as redis,
    ):
        log = SessionLog(client, "s")
        await log.append("todo/write", plan("0"))
        ask(own_server, "REPLICAOF", "127.0.0.1", "1")
        writing = asyncio.create_task(log.append("todo/write", plan("1")))
        done, _ = await asyncio.wait({writing}, timeout=READONLY_S)
        assert not done
        ask(own_server, "REPLICAOF", "NO", "ONE")
        position = await writing
        await projected(redis, await client.keys(), "s", position)
        assert position.seq == 1


async def test_a_primary_that_only_reads_and_sentinels_that_say_nothing_of_it_lose_nothing(
    service: Service, namespace: str, patient: Client
) -> None:
    log, primary = SessionLog(patient, "s"), service.primary
    async with working(service.url, namespace), viewing(patient, "s") as viewer:
        await log.append("todo/write", plan("0"))
        await viewer.shows("s", todos("0"))
        for sentinel in service.sentinels:
            sentinel.freeze()
        ask(primary, "REPLICAOF", "127.0.0.1", "1")
        writing = asyncio.create_task(log.append("todo/write", plan("1")))
        done, _ = await asyncio.wait({writing}, timeout=READONLY_S)
        assert not done
        ask(primary, "REPLICAOF", "NO", "ONE")
        assert (await writing).seq == 1
        await viewer.shows("s", todos("1"), within=30)
    for sentinel in service.sentinels:
        sentinel.thaw()
    await check_right(service, namespace, "s")


async def test_all_servers_and_sentinels_killed_and_started_again_lose_nothing(
    service: Service, namespace: str, patient: Client
) -> None:
    log = SessionLog(patient, "s")
    async with working(service.url, namespace), viewing(patient, "s") as viewer:
        await log.append("todo/write", plan("0"))
        await viewer.shows("s", todos("0"))
        for one in (*service.sentinels, *service.servers):
            one.kill()
        writing = asyncio.create_task(log.append("todo/write", plan("1")))
        done, _ = await asyncio.wait({writing}, timeout=READONLY_S)
        assert not done
        for one in (*service.servers, *service.sentinels):
            await asyncio.to_thread(one.restart)
        assert (await writing).seq == 1
        await viewer.shows("s", todos("1"), within=30)
    await asyncio.to_thread(service.wait_until_whole)
    await check_right(service, namespace, "s")


async def test_a_service_with_too_few_replicas_in_touch_refuses_with_a_type(service: Service, namespace: str) -> None:
    async with connect(service.url, namespace=namespace, append_budget_ms=300) as client:
        await SessionLog(client, "s").append("x", 1)
        ask(service.primary, "CONFIG", "SET", "min-replicas-to-write", "3")
        try:
            with pytest.raises(TooFewReplicas, match="NOREPLICAS"):
                await SessionLog(client, "s").append("x", 1)
        finally:
            ask(service.primary, "CONFIG", "SET", "min-replicas-to-write", "0")
        assert (await SessionLog(client, "s").append("x", 1)).seq == 1


async def test_a_primary_without_its_replicas_refuses_and_the_writer_gets_that_as_a_type(
    launch: Callable[..., Server], namespace: str
) -> None:
    server = launch("--min-replicas-to-write", "1")
    async with connect(server.url, namespace=namespace, partitions=1, append_budget_ms=300) as client:
        with pytest.raises(NotSaved, match="NOREPLICAS") as refused:
            await SessionLog(client, "s").append("x", 1)
        ask(server, "CONFIG", "SET", "min-replicas-to-write", "0")
        await client.keys()
        ask(server, "CONFIG", "SET", "min-replicas-to-write", "1")
        with pytest.raises(TooFewReplicas, match="NOREPLICAS") as refused:
            await SessionLog(client, "s").append("x", 1)
        assert isinstance(refused.value, NotSaved)
