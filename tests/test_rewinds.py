"""Histories that went back, and clocks that did: rows follow the log that is there, and positions only rise."""

from redis.asyncio import Redis

from repairs import Yard, write
from stepping import settle
from stored import Stored
from todo_write.events import Position
from todo_write.log import SessionLog, connect

FUTURE_MS = 4_000_000_000_000


async def test_a_log_rewound_and_regrown_to_the_same_position_under_a_worker_that_remembers_the_row(
    yard: Yard, redis: Redis, namespace: str
) -> None:
    stored, worker = Stored(redis, namespace, "s", partitions=1), yard.projector()
    await yard.pin()
    await yard.project(write("a"), by=worker)
    before = await stored.copy()
    await yard.project(write("b"), by=worker)
    at = (await yard.row())["pos"]
    await stored.fail_over(before)
    await yard.append("s", write("c"))
    await settle(worker, {0: await yard.deliver()})
    assert (await yard.row())["pos"] == at
    await yard.assert_right("s")


async def test_log_feed_and_row_rewound_between_read_and_commit_make_the_batch_a_conflict(
    yard: Yard, redis: Redis, namespace: str
) -> None:
    stored, worker = Stored(redis, namespace, "s", partitions=1), yard.projector()
    await yard.pin()
    await yard.project(write("a"), by=worker)
    before = await stored.copy()
    await yard.append("s", write("b"))
    batch = await yard.deliver()
    await stored.fail_over(before)
    outcome = await worker.project({0: batch})
    assert (outcome.committed, outcome.rewound) == (0, [0])
    await yard.append("s", write("c"))
    await settle(worker, {0: await yard.deliver()})
    await yard.assert_right("s")


async def test_a_server_clock_that_is_stepped_back_lets_positions_rise_all_the_same(
    yard: Yard, redis_url: str, namespace: str
) -> None:
    # What a clock of the future left behind: a log and a feed whose ids are far ahead of what the server says now.
    fields = {"type": "todo/write", "time": "1", "op": "future", "data": '{"todos":[]}'}
    await yard.redis.xadd(yard.keys.log("s"), fields, id=f"{FUTURE_MS}-0")
    pointer = {"s": "s", "i": f"{FUTURE_MS}-0", "o": "future", "t": "todo/write"}
    await yard.redis.xadd(yard.keys.feed(0), pointer, id=f"{FUTURE_MS}-0")
    await yard.work()
    positions = await yard.append("s", write("a"), write("b"))
    assert positions == [f"{FUTURE_MS}-1", f"{FUTURE_MS}-2"]
    ids = [id for id, _ in await yard.redis.xrange(yard.keys.feed(0))]
    assert all(id.startswith(b"%d-" % FUTURE_MS) for id in ids)
    await yard.work()
    await yard.assert_right("s")
    async with connect(redis_url, namespace=namespace, partitions=1) as client:
        log = SessionLog(client, "s")
        await log.delete()
        assert await log.append(*write("c")) > Position(FUTURE_MS, 2)
    await yard.work()
    await yard.assert_right("s")
