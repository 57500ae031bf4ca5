"""Workers that share the feeds: whoever comes, goes, dies or is frozen, no feed waits for longer than its bound."""

import signal
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from eventually import eventually
from field import FOR_EVER_MS, Field, append, quick, right
from running import operator, running
from servers import Server
from todo_projection.affinity import UNMOVED_S, owner
from todo_projection.lanes import LOOK_S
from todo_write.log import Client, connect

PARTITIONS = 32  # so many that of two workers each has some
BOUND_S = UNMOVED_S + LOOK_S
SLACK_S = 8.0  # a loaded machine; without the watch over others' feeds nothing would come for an hour


@pytest.fixture
def field(redis: Redis, namespace: str) -> Field:
    return Field(redis, namespace, PARTITIONS)


@pytest.fixture
async def client(redis_url: str, namespace: str) -> AsyncIterator[Client]:
    async with connect(redis_url, namespace=namespace, partitions=PARTITIONS) as client:
        yield client


def one_a_feed(field: Field, round: int) -> list[str]:
    """A session in every partition."""
    names = [f"r{round}-{n}" for n in range(1000)]
    return [next(name for name in names if field.keys.partition(name) == p) for p in range(field.keys.partitions)]


@pytest.mark.every_topology
async def test_every_feed_is_read_within_its_bound_while_workers_go_and_come(
    redis_url: str, namespace: str, field: Field, client: Client
) -> None:
    await client.keys()
    rounds = iter(range(100))

    async def all_are_read() -> None:
        sessions = one_a_feed(field, next(rounds))
        for session in sessions:
            await append(client, session)
        await eventually(right(field, *sessions), within=BOUND_S + SLACK_S)

    four = [quick(redis_url, namespace) for _ in range(4)]
    workers = [await one.__aenter__() for one in four]
    await all_are_read()
    for gone in four[2:]:
        await gone.__aexit__(None, None, None)
        await all_are_read()
    await four[1].__aexit__(None, None, None)
    await all_are_read()
    again = [quick(redis_url, namespace) for _ in range(3)]
    workers += [await one.__aenter__() for one in again]
    await all_are_read()
    for one in (four[0], *again):
        await one.__aexit__(None, None, None)
    assert len({worker.name for worker in workers}) == 7


async def test_the_feeds_of_a_frozen_worker_are_read_by_another_long_before_it_counts_as_dead(
    own_server: Server, namespace: str, field: Field, client: Client
) -> None:
    await client.keys()
    settings = {"TODO_BEAT_MS": "60000", "TODO_CLAIM_IDLE_MS": str(FOR_EVER_MS)}
    async with running(operator(own_server.url, namespace, **settings), "worker") as frozen:
        await eventually(lambda: field.redis.hlen(field.keys.workers), within=60)
        (name,) = [key.decode() for key in await field.redis.hkeys(field.keys.workers)]
        await append(client, "warm")
        await eventually(right(field, "warm"), within=60)
        frozen.send(signal.SIGSTOP)
        async with quick(own_server.url, namespace, beat_ms=60_000) as other:
            await eventually(lambda: field.redis.hexists(field.keys.workers, other.name))
            sessions = one_a_feed(field, 0)
            assert any(owner(p, [name, other.name]) == name for p in range(PARTITIONS))
            for session in sessions:
                await append(client, session)
            # The server gives the frozen one what comes while it is blocked there: the second event is the other's.
            for session in sessions:
                await append(client, session)
            await eventually(lambda: _none_unread(field), within=BOUND_S + SLACK_S)
        frozen.send(signal.SIGCONT)


async def _none_unread(field: Field) -> bool:
    """Whether every pointer was delivered to somebody."""
    for feed in field.feeds:
        (group,) = await field.redis.xinfo_groups(feed)
        tail = await field.redis.xrevrange(feed, count=1)
        assert not tail or tail[0][0] <= group["last-delivered-id"]
    return True
