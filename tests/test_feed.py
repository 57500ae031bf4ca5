"""The feeds as one consumer sees them: nothing read is lost, nothing looked at counts as delivered."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis import ResponseError
from redis.asyncio import Redis

from eventually import eventually
from servers import Server
from todo_projection.feed import DEEPER, PENDING_PAGE, Feeds
from todo_projection.killers import DEATHS_ALONE
from todo_projection.span import Pointer
from todo_projection.wire import Wire
from todo_write.events import Keys

GROUP = "projection"
EPOCH = 1764517000000

pytestmark = pytest.mark.every_server


class Ground:
    """Two feeds and their group."""

    def __init__(self, redis: Redis, namespace: str, reads: Wire, commands: Wire) -> None:
        self.redis: Any = redis  # redis-py types its answers for str and bytes alike
        self.keys = Keys(namespace, 2)
        self._wires = (reads, commands)
        self.sessions = [self._session(partition) for partition in (0, 1)]

    def feeds(self, consumer: str, *, lanes: int = 1) -> Feeds:
        return Feeds(*self._wires, self.keys, consumer, lanes=lanes)

    async def point(self, partition: int, count: int = 1) -> list[bytes]:
        """New pointers; their ids."""
        pipe = self.redis.pipeline(transaction=False)
        for seq in range(count):
            fields = {"s": self.sessions[partition], "i": f"{EPOCH}-{seq}", "o": "op", "t": "x"}
            pipe.xadd(self.keys.feed(partition), fields)
        return list(await pipe.execute())

    async def pending(self, partition: int) -> dict[bytes, tuple[bytes, int, int]]:
        """Id to consumer, idle ms, deliveries."""
        found = await self.redis.xpending_range(self.keys.feed(partition), GROUP, "-", "+", 100_000)
        return {
            entry["message_id"]: (entry["consumer"], entry["time_since_delivered"], entry["times_delivered"])
            for entry in found
        }

    def _session(self, partition: int) -> str:
        return next(f"s{n}" for n in range(100) if self.keys.partition(f"s{n}") == partition)


@pytest.fixture
async def ground(redis: Redis, namespace: str, redis_url: str) -> AsyncIterator[Ground]:
    reads, commands = Wire(redis_url), Wire(redis_url)
    ground = Ground(redis, namespace, reads, commands)
    await ground.feeds("w").ensure_groups()
    yield ground
    await reads.aclose()
    await commands.aclose()


def ids(batches: dict[int, list[Pointer]]) -> dict[int, list[bytes]]:
    return {partition: [pointer.id for pointer in batch] for partition, batch in batches.items()}


async def drain(feeds: Feeds, count_max: int = 100_000) -> dict[int, list[bytes]]:
    return ids(await feeds.read(count_max=count_max, block_ms=1))


async def test_new_pointers_come_by_partition_in_order_and_only_once(ground: Ground) -> None:
    first, second = await ground.point(0, 5), await ground.point(1, 2)
    feeds = ground.feeds("w")
    assert await drain(feeds, 3) == {0: first[:3], 1: second}
    assert await drain(feeds, 3) == {0: first[3:]}
    assert await drain(feeds, 3) == {}


async def test_a_pointer_tells_session_position_op_and_type(ground: Ground) -> None:
    (id,) = await ground.point(1)
    ((pointer,),) = (await ground.feeds("w").read(count_max=1, block_ms=1)).values()
    told = (pointer.id, pointer.session, str(pointer.position), pointer.op, pointer.type)
    assert told == (id, ground.sessions[1], f"{EPOCH}-0", b"op", "x")


async def test_a_waiting_read_gets_the_next_pointer(ground: Ground) -> None:
    reading = asyncio.create_task(ground.feeds("w").read(count_max=10, block_ms=5000))
    await eventually(lambda: _blocked(ground))
    (id,) = await ground.point(1)
    assert ids(await reading) == {1: [id]}


async def test_a_feed_that_is_behind_is_read_once_more_deeper_and_then_all_are(ground: Ground) -> None:
    await ground.point(0, 50)
    await ground.point(1)
    feeds = ground.feeds("w")
    assert [len(found) for found in (await drain(feeds, 4)).values()] == [4, 1]
    await ground.point(1)
    assert {partition: len(found) for partition, found in (await drain(feeds, 4)).items()} == {0: 4 * DEEPER}
    assert [len(found) for found in (await drain(feeds, 4)).values()] == [4, 1]


async def test_a_feed_that_seemed_behind_is_not_waited_for(ground: Ground) -> None:
    await ground.point(0, 4)
    feeds = ground.feeds("w")
    assert len((await drain(feeds, 4))[0]) == 4
    assert await asyncio.wait_for(feeds.read(count_max=4, block_ms=60_000), 5) == {}


async def test_a_read_of_some_partitions_leaves_the_others_alone(ground: Ground) -> None:
    first, second = await ground.point(0, 9), await ground.point(1)
    feeds = ground.feeds("w", lanes=2)
    assert ids(await feeds.read(count_max=4, block_ms=1, lane=1, partitions=[0])) == {
        0: first[:4]
    }  # behind from now on
    assert await feeds.firsts([0, 1]) == {0: first[0], 1: second[0]}
    assert ids(await feeds.read(count_max=4, block_ms=1, lane=1, partitions=[1])) == {1: second}
    assert ids(await feeds.read_at_once([0, 1], count_max=9)) == {0: first[4:]}
    assert await feeds.read_at_once([0, 1], count_max=9) == {}


async def test_own_pending_looked_at_ten_times_is_no_delivery_and_no_activity(ground: Ground) -> None:
    mine = await ground.point(0, 3)
    feeds = ground.feeds("w")
    await drain(feeds)
    others = await ground.point(0)
    await drain(ground.feeds("other"))
    await eventually(lambda: _idle_for(ground, 30))
    for _ in range(10):
        assert ids(await feeds.own_pending()) == {0: mine}
    found = await ground.pending(0)
    assert [found[id][0] for id in (*mine, *others)] == [b"w", b"w", b"w", b"other"]
    assert all(idle >= 30 and deliveries == 1 for _, idle, deliveries in found.values())


async def test_own_pending_comes_a_page_at_a_time(ground: Ground) -> None:
    all_ids = await ground.point(0, PENDING_PAGE + 1)
    feeds = ground.feeds("w")
    await drain(feeds)
    assert ids(await feeds.own_pending()) == {0: all_ids[:PENDING_PAGE]}
    await ground.redis.xack(ground.keys.feed(0), GROUP, *all_ids[:PENDING_PAGE])
    assert ids(await feeds.own_pending()) == {0: all_ids[PENDING_PAGE:]}


async def test_what_another_holds_for_long_is_taken_over_without_counting_as_delivered(ground: Ground) -> None:
    held = await ground.point(0, 2)
    await drain(ground.feeds("dead"))
    await eventually(lambda: _idle_for(ground, 30))
    young = await ground.point(1)
    await drain(ground.feeds("alive"))
    feeds = ground.feeds("w")
    claimed = await feeds.claim(idle_ms_min=30)
    batches, at_once = ids(claimed.batches), await ground.pending(1)
    assert batches.pop(0) == held
    assert batches in ({}, {1: young})  # a slow machine may let the young one grow old
    assert at_once[young[0]][0] == (b"w" if batches else b"alive")
    assert [(owner, deliveries) for owner, _, deliveries in (await ground.pending(0)).values()] == [(b"w", 1)] * 2
    assert claimed.cursors == {}


async def test_a_sweep_goes_through_every_page_and_past_what_is_young(ground: Ground) -> None:
    young, old = await ground.point(0, 10 * PENDING_PAGE + 5), await ground.point(0, 2 * PENDING_PAGE)
    await drain(ground.feeds("slow"))
    hour_ms = 3_600_000
    await ground.redis.xclaim(ground.keys.feed(0), GROUP, "dead", 0, old, idle=hour_ms, justid=True)
    feeds, found = ground.feeds("w"), list[bytes]()
    cursors: dict[int, bytes] | None = None
    for _ in range(5):
        claimed = await feeds.claim(cursors, idle_ms_min=hour_ms)
        found += ids(claimed.batches).get(0, [])
        cursors = claimed.cursors
        if not cursors:
            break
    assert found == old
    assert cursors == {}
    owners = {id: owner for id, (owner, _, _) in (await ground.pending(0)).items()}
    assert {owners[id] for id in young} == {b"slow"}


@pytest.mark.parametrize("claiming", [True, False], ids=["another's", "own"])
async def test_ids_whose_entry_is_gone_leave_the_pending_list(
    ground: Ground, caplog: pytest.LogCaptureFixture, claiming: bool
) -> None:
    gone, kept = await ground.point(0, 2)
    feeds = ground.feeds("w")
    await drain(ground.feeds("dead") if claiming else feeds)
    await ground.redis.xdel(ground.keys.feed(0), gone)
    if claiming:
        assert ids((await feeds.claim(idle_ms_min=0)).batches) == {0: [kept]}
    else:
        assert ids(await feeds.own_pending()) == {0: [kept]}
    assert list(await ground.pending(0)) == [kept]
    assert f"1 pending pointers are gone from it, the first is {gone.decode()}" in caplog.text


MALFORMED = {
    "no session": {"i": "1-0", "o": "o", "t": "x"},
    "another field": {"s": "S", "i": "1-0", "o": "o", "t": "x", "more": "1"},
    "no position": {"s": "S", "i": "soon", "o": "o", "t": "x"},
    "the position of no event": {"s": "S", "i": "1--1", "o": "o", "t": "x"},
    "a position written otherwise": {"s": "S", "i": "01-0", "o": "o", "t": "x"},
    "no text": {"s": b"\xff", "i": "1-0", "o": "o", "t": "x"},
    "a type that is no text": {"s": "S", "i": "1-0", "o": "o", "t": b"\xff"},
    "a session of another feed": {"s": "T", "i": "1-0", "o": "o", "t": "x"},
}


@pytest.mark.parametrize("fields", MALFORMED.values(), ids=MALFORMED.keys())
async def test_an_entry_that_points_nowhere_is_reported_and_acknowledged(
    ground: Ground, caplog: pytest.LogCaptureFixture, fields: dict[str, Any]
) -> None:
    named = {"S": ground.sessions[0], "T": ground.sessions[1]}
    entry = {name: named.get(value, value) for name, value in fields.items()}
    bad = await ground.redis.xadd(ground.keys.feed(0), entry)
    (good,) = await ground.point(0)
    assert await drain(ground.feeds("w")) == {0: [good]}
    assert list(await ground.pending(0)) == [good]
    assert f"entry {bad.decode()} is no pointer" in caplog.text


async def test_a_missing_group_is_an_error_and_is_made_at_0(ground: Ground) -> None:
    found = await ground.point(0, 2)
    feeds = ground.feeds("w")
    await drain(feeds)
    await ground.redis.xgroup_destroy(ground.keys.feed(0), GROUP)
    await ground.redis.delete(ground.keys.feed(1))
    for call in (feeds.own_pending(), feeds.claim(idle_ms_min=0), feeds.read(count_max=1, block_ms=1)):
        with pytest.raises(ResponseError, match="NOGROUP"):
            await call
    await feeds.ensure_groups()
    await feeds.ensure_groups()  # being there already is success
    assert await drain(feeds) == {0: found}


async def test_a_feed_of_another_type_is_named_and_left_alone(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    await ground.redis.delete(ground.keys.feed(1))
    await ground.redis.set(ground.keys.feed(1), "mine")
    await ground.feeds("w").ensure_groups()
    assert "the others go on: WRONGTYPE" in caplog.text
    assert ground.keys.feed(1) in caplog.text


@pytest.mark.parametrize("how", ["feed", "group"])
async def test_a_waiting_read_whose_feed_or_group_goes_ends_with_an_error(ground: Ground, how: str) -> None:
    reading = asyncio.create_task(ground.feeds("w").read(count_max=10, block_ms=5000))
    await eventually(lambda: _blocked(ground))
    if how == "feed":
        await ground.redis.delete(ground.keys.feed(1))
    else:
        await ground.redis.xgroup_destroy(ground.keys.feed(1), GROUP)
    with pytest.raises(ResponseError):
        await asyncio.wait_for(reading, 4)


async def test_a_waiting_consumer_that_is_taken_for_dead_gets_the_next_pointer(ground: Ground) -> None:
    feeds = ground.feeds("w")
    reading = asyncio.create_task(feeds.read(count_max=10, block_ms=5000))
    await eventually(lambda: _blocked(ground))
    assert await ground.feeds("other").retire(["other"])
    assert await ground.redis.xinfo_consumers(ground.keys.feed(0), GROUP) == []
    (id,) = await ground.point(0)
    assert ids(await reading) == {0: [id]}
    assert ids(await feeds.own_pending()) == {0: [id]}


async def test_who_holds_pointers_is_not_retired(ground: Ground) -> None:
    await ground.point(0)
    await drain(ground.feeds("holds"))
    await drain(ground.feeds("gone"))
    feeds = ground.feeds("w")
    assert not await feeds.retire(["w"])
    names = [entry["name"] for entry in await ground.redis.xinfo_consumers(ground.keys.feed(0), GROUP)]
    assert names == [b"holds"]


async def test_a_full_server_does_not_stop_recovery(own_server: Server, ground: Ground) -> None:
    found = await ground.point(0, 2)
    feeds = ground.feeds("dead")
    await drain(feeds)
    await ground.redis.config_set("maxmemory", "1")
    await feeds.ensure_groups()
    assert ids(await feeds.own_pending()) == {0: found}
    assert ids((await ground.feeds("w").claim(idle_ms_min=0)).batches) == {0: found}
    assert await drain(feeds) == {}


async def _blocked(ground: Ground) -> bool:
    """Whether a read waits at the server."""
    clients = await ground.redis.client_list()
    return any(client["cmd"] == "xreadgroup" and "b" in client["flags"] for client in clients)


async def _idle_for(ground: Ground, ms: int) -> bool:
    found = await ground.pending(0)
    return bool(found) and all(idle >= ms for _, idle, _ in found.values())


async def test_of_the_sessions_that_may_kill_one_is_in_hand_at_a_time(ground: Ground) -> None:
    for partition in (0, 1):
        (id,) = await ground.point(partition)
        await drain(ground.feeds("dead"))
        claim = ("XCLAIM", ground.keys.feed(partition), GROUP, "dead", 0, id, "RETRYCOUNT", DEATHS_ALONE + partition)
        await ground.redis.execute_command(*claim)
    found = await ground.feeds("heir").inherit({"heir"}, idle_ms_min=0)
    assert {pointer.session for batch in found.batches.values() for pointer in batch} == {ground.sessions[0]}
    assert found.more, "the other one comes when this one is done with"
    assert {owner for owner, _, _ in (await ground.pending(1)).values()} == {b"dead"}
