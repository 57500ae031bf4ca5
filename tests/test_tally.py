"""The tally: every event is counted once, by what became of it."""

import pytest
from redis.asyncio import Redis

from eventually import eventually
from projecting import projected, working
from stepping import POISON, TALK, write
from todo_projection.projector import Projector
from todo_projection.rows import Rows
from todo_projection.tally import Histogram, Tally
from todo_projection.unit import mounted_units
from todo_projection.wire import Wire
from todo_write.log import Client, SessionLog
from workshop import Workshop


@pytest.fixture
def shop(redis: Redis, namespace: str, wire: Wire) -> Workshop:
    return Workshop(redis, namespace, wire)


@pytest.fixture
def tally() -> Tally:
    return Tally()


@pytest.fixture
def projector(shop: Workshop, tally: Tally) -> Projector:
    return Projector(shop.wire, shop.keys, mounted_units(), Rows(shop.wire, shop.keys), tally=tally)


def test_a_histogram_counts_a_value_at_the_first_bound_it_does_not_exceed() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.5):
        histogram.add(value)
    assert (histogram.counts, histogram.sum) == ([2, 1, 1], 5.5)


async def test_what_is_projected_is_counted_with_its_frames_and_times(
    shop: Workshop, projector: Projector, tally: Tally
) -> None:
    await shop.project(write("a"), TALK, write("b"), by=projector)
    assert (tally.projected, tally.published) == (3, 1)
    assert (sum(tally.step_s.counts), sum(tally.commit_s.counts)) == (1, 1)
    assert tally.step_s.sum > tally.commit_s.sum > 0


async def test_what_a_row_holds_already_counts_as_repeated(shop: Workshop, projector: Projector, tally: Tally) -> None:
    await shop.pin()
    await shop.append("s", write("a"), write("b"))
    batch = await shop.deliver()
    await projector.project({0: batch})
    await projector.project({0: batch})
    assert (tally.projected, tally.repeated) == (2, 2)


async def test_a_conflict_and_its_repeat_are_counted_apart(shop: Workshop, projector: Projector, tally: Tally) -> None:
    await shop.project(write("a"), by=projector)
    await shop.redis.hset(shop.keys.row("s"), "etag", "another")
    outcome = await shop.project(write("b"), by=projector)
    assert (tally.projected, tally.conflicts) == (1, 1)
    await projector.project(outcome.conflicts)
    assert (tally.projected, tally.conflicts) == (2, 1)


async def test_marks_rewinds_and_what_cannot_be_stored_are_counted(
    shop: Workshop, projector: Projector, tally: Tally
) -> None:
    await shop.project(POISON, by=projector)
    assert (tally.projected, tally.marked) == (1, 1)
    await shop.append("t", write("a"))
    batch = await shop.deliver()
    await shop.redis.delete(shop.keys.feed(0))
    await projector.project({0: batch})
    assert tally.rewound == 1
    await shop.append("u", write("a"))
    await shop.redis.set(shop.keys.row("u"), "of another type")
    await projector.project({0: await shop.deliver()})
    assert tally.broken == 1


async def test_a_worker_counts_what_it_takes_over_and_says_that_it_gets_on(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    keys = await client.keys()
    position = await SessionLog(client, "s").append(*write("a"))
    feed = keys.feed(keys.partition("s"))
    await redis.xgroup_create(feed, "projection", "0")
    await redis.xreadgroup("projection", "dead", {feed: ">"})
    async with working(redis_url, namespace, claim_idle_ms=100, beat_ms=100) as worker:
        await projected(redis, keys, "s", position)
        assert (worker.tally.reclaimed_dead, worker.tally.projected) == (1, 1)
        stepped = worker.tally.stepped_at
        await eventually(lambda: worker.tally.stepped_at > stepped and worker.tally.beaten_at is not None)
