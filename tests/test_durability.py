"""Durability by choice: what was reached is told, and a shortfall is no lie."""

from collections.abc import Callable

import pytest

from eventually import eventually
from proxy import Proxy
from servers import Server
from todo_write.events import Position
from todo_write.log import Client, Receipt, SessionLog, connect

Launch = Callable[..., Server]


async def _tail(log: SessionLog) -> Position:
    tail = await log.tail()
    assert tail
    return tail


async def test_an_append_to_memory_gives_its_position_and_asks_nothing_more(client: Client) -> None:
    log = SessionLog(client, "s1")
    assert await log.append("x", {}) == await log.tail()


async def test_without_a_replica_an_event_is_stored_and_the_shortfall_told(client: Client) -> None:
    log = SessionLog(client, "s1", append_attempt_ms=200)
    receipt = await log.append("x", {}, durability="replicated")
    assert receipt == Receipt([await _tail(log)], "replicated", reached=False, why=receipt.why)
    assert receipt.why == "no replica confirmed it within 200 ms"


@pytest.mark.every_server
async def test_without_a_log_file_an_event_is_stored_and_the_shortfall_told(client: Client) -> None:
    log = SessionLog(client, "s1")
    receipt = await log.append("x", {}, durability="fsynced")
    assert (receipt.positions, receipt.reached) == ([await _tail(log)], False)
    assert "append" in receipt.why or "unknown command" in receipt.why  # Redis 7.0 has no WAITAOF


async def test_on_disk_means_on_disk(launch: Launch, namespace: str) -> None:
    server = launch("--appendonly", "yes", "--appendfsync", "always")
    async with connect(server.url, namespace=namespace) as client:
        receipt = await SessionLog(client, "s1").append("x", {}, durability="fsynced")
    assert (receipt.reached, receipt.why) == (True, "")


async def test_replicated_means_that_a_replica_has_it(launch: Launch, namespace: str) -> None:
    primary = launch()
    replica = launch("--replicaof", primary.host, str(primary.port))
    with replica.connect() as follower:
        await eventually(lambda: follower.info("replication")["master_link_status"] == "up")
    async with connect(primary.url, namespace=namespace) as client:
        log = SessionLog(client, "s1")
        receipt = await log.append("x", {}, durability="replicated")
        assert receipt.reached, receipt.why
        with replica.connect() as follower:
            assert follower.xlen((await client.keys()).log("s1")) == 1


async def test_what_an_earlier_try_appended_is_not_said_to_be_safe(proxy: Proxy, namespace: str) -> None:
    async with connect(proxy.url, namespace=namespace, append_attempt_ms=300) as client:
        log = SessionLog(client, "s1")
        await log.append("x", {})
        lost = proxy.lose_reply(b"EVALSHA")
        receipt = await log.append("x", {}, durability="replicated")
        assert lost.hit.is_set()
        assert receipt.positions == [await _tail(log)]
        assert (receipt.reached, "earlier try" in receipt.why) == (False, True)
