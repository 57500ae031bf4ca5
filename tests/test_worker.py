"""The worker as a whole: processes that die, and rows that are right all the same."""

import asyncio
import json
import math
import os
import signal
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from eventually import eventually
from field import (
    COMMIT,
    PARTITIONS,
    Field,
    append,
    assert_rising,
    at,
    beats_again,
    knows,
    only,
    pin,
    quick,
    right,
    worker,
    writing,
)
from proxy import Proxy
from running import operator, running
from servers import Server
from todo_projection.board import board
from todo_projection.feed import PENDING_PAGE
from todo_projection.lanes import Lane
from todo_projection.row import Row
from todo_projection.rows import Rows
from todo_projection.settings import Settings
from todo_projection.span import Pointer
from todo_projection.steps import HANDLED_WEIGHT, STEP_WEIGHT_MAX, steps
from todo_projection.worker import Worker
from todo_write.events import GROUP
from todo_write.log import Client, connect
from workshop import Ear

RESTARTS = int(os.environ.get("TODO_SIZE_RESTARTS", "20"))


@pytest.fixture
def field(redis: Redis, namespace: str) -> Field:
    return Field(redis, namespace)


@pytest.fixture
async def client(redis_url: str, namespace: str) -> AsyncIterator[Client]:
    async with connect(redis_url, namespace=namespace, partitions=PARTITIONS) as client:
        yield client


# --- processes


async def test_rows_are_right_after_a_worker_was_killed_while_it_held_pointers(
    own_server: Server, namespace: str, field: Field, client: Client, proxy: Proxy
) -> None:
    await client.keys()  # stores the number of partitions that this test knows
    settings = {"TODO_CLAIM_IDLE_MS": "1000", "TODO_BEAT_MS": "200", "TODO_AUDIT_RATE": "0"}
    held = proxy.hold_request(COMMIT, nth=3)
    async with (
        running(operator(proxy.url, namespace, **settings), "worker") as one,
        writing(own_server.url, namespace, processes=8, sessions=200, events=100) as written,
    ):
        await asyncio.wait_for(held.hit.wait(), 60)  # alone, it reads every feed; of two, one may have none
        (name,) = await field.consumers()
        assert await field.pending(name) > 0
        async with running(operator(own_server.url, namespace, **settings), "worker") as two:
            await eventually(lambda: _are_beating(field, 2), within=60)
            one.send(signal.SIGKILL)
            await written()
            await eventually(field.drained, within=60)
            sessions = [f"s{n}" for n in range(200)]
            await field.assert_right(sessions)
            assert [len(await field.log(session)) for session in sessions] == [100] * 200
            await eventually(lambda: only(field, two), within=20)
            two.send(signal.SIGTERM)
            assert await two.ended() == 0


async def _are_beating(field: Field, count: int) -> bool:
    return bool(await field.redis.hlen(field.keys.workers) == count)


async def test_a_worker_stopped_past_the_claim_time_changes_nothing_when_it_goes_on(
    own_server: Server, namespace: str, field: Field, client: Client, proxy: Proxy
) -> None:
    keys = await client.keys()
    settings = {"TODO_CLAIM_IDLE_MS": "200", "TODO_BEAT_MS": "100", "TODO_BLOCK_MS": "50", "TODO_AUDIT_RATE": "0"}
    sessions = [f"s{n}" for n in range(40)]
    late = proxy.hold_request(COMMIT, nth=2)
    async with (
        Ear(field.redis, keys, *sessions) as ear,
        writing(own_server.url, namespace, processes=2, sessions=40, events=60) as written,
        running(operator(proxy.url, namespace, **settings), "worker") as one,
    ):
        await asyncio.wait_for(late.hit.wait(), 60)
        (name,) = await field.consumers()
        one.send(signal.SIGSTOP)
        async with running(operator(own_server.url, namespace, **settings), "worker"):
            await written()
            await eventually(field.drained, within=30)
            rows = [await field.row(session) for session in sessions]
            late.release()
            one.send(signal.SIGCONT)
            await eventually(lambda: beats_again(field, name), within=20)
            await append(client, "after")
            await eventually(right(field, *sessions, "after"), within=20)
            assert [await field.row(session) for session in sessions] == rows
            assert_rising(await ear.heard())


async def test_a_terminated_worker_leaves_nothing_half_done(
    own_server: Server, namespace: str, field: Field, client: Client
) -> None:
    await client.keys()
    command = operator(own_server.url, namespace, TODO_AUDIT_RATE="0")
    async with (
        running(command, "worker") as worker,
        writing(own_server.url, namespace, processes=2, sessions=20, events=400) as written,
    ):
        await eventually(lambda: field.redis.exists(field.keys.row("s0")), within=60)
        worker.send(signal.SIGTERM)
        assert await worker.ended(within=10) == 0
        assert await field.pending() == 0
        assert await field.consumers() == set()
        assert not await field.redis.hlen(field.keys.workers)
        await field.assert_right([f"s{n}" for n in range(20)], up_to_date=False)
        async with running(command, "worker"):
            await written()
            await eventually(right(field, *(f"s{n}" for n in range(20))), within=30)


# --- what is done twice, late, or never answered


async def test_what_is_left_of_a_batch_whose_end_was_lost_is_taken_up_at_once(
    own_server: Server, namespace: str, field: Field, client: Client, proxy: Proxy
) -> None:
    # As after a fail-over: the newest pointer of the batch is gone, those before it are still this worker's.
    await client.keys()
    lost = next(f"t{n}" for n in range(1000) if field.keys.partition(f"t{n}") == field.keys.partition("s"))
    await append(client, "s")
    await append(client, lost)
    held = proxy.hold_request(COMMIT)
    async with quick(proxy.url, namespace):
        await asyncio.wait_for(held.hit.wait(), 10)
        feed = field.keys.feed(field.keys.partition("s"))
        _, (newest, _) = await field.redis.xrange(feed)
        await field.redis.xdel(feed, newest)
        held.release()
        await eventually(right(field, "s"))
    assert await field.row(lost) == {}


@pytest.mark.parametrize("pinned", [True, False], ids=["the feed still holds the pointers", "they are trimmed away"])
async def test_a_commit_that_comes_late_is_refused_and_so_is_its_frame(
    own_server: Server, namespace: str, field: Field, client: Client, proxy: Proxy, pinned: bool
) -> None:
    keys = await client.keys()
    if pinned:
        await pin(field)
    late = proxy.hold_request(COMMIT)
    async with Ear(field.redis, keys, "s") as ear, quick(proxy.url, namespace) as slow:
        await append(client, "s")
        await asyncio.wait_for(late.hit.wait(), 10)
        async with quick(own_server.url, namespace, claim_idle_ms=100):
            await eventually(lambda: at(field, "s", 0))
            await append(client, "s")
            await eventually(lambda: at(field, "s", 1))
            row = await field.row("s")
            late.release()
            await append(client, "t")
            await eventually(lambda: at(field, "t", 0))
            await eventually(lambda: slow.in_hand == 0)
            assert await field.row("s") == row
        assert [frame["rev"][:2] for frame in await ear.heard()] == ["1-", "2-"]


async def test_a_commit_whose_answer_is_lost_is_done_once(
    own_server: Server, namespace: str, field: Field, client: Client, proxy: Proxy
) -> None:
    keys = await client.keys()
    lost = proxy.cut_after(COMMIT, nth=2)  # the first finds no script
    async with Ear(field.redis, keys, "s") as ear, quick(proxy.url, namespace):
        await append(client, "warm")
        await eventually(right(field, "warm"))
        await append(client, "s")
        await asyncio.wait_for(lost.hit.wait(), 10)
        await append(client, "s", type="x", data={})
        await eventually(right(field, "s"))
        assert [frame["rev"][:2] for frame in await ear.heard()] == ["1-"]


async def test_what_was_delivered_and_never_arrived_is_taken_up_at_once(
    namespace: str, field: Field, client: Client, proxy: Proxy
) -> None:
    # Nobody else is there, and nothing is claimed for an hour: only a look at one's own pending list finds it.
    await client.keys()
    session = "s"
    await append(client, session, PENDING_PAGE + 500)
    lost = proxy.cut_after(b"XREADGROUP")
    async with quick(proxy.url, namespace, batch_max=10_000):
        await asyncio.wait_for(lost.hit.wait(), 10)
        await eventually(right(field, session))


async def test_what_a_dead_worker_held_is_taken_over_and_its_name_forgotten(
    redis_url: str, namespace: str, field: Field, client: Client
) -> None:
    await client.keys()
    await append(client, "s", 3)
    for feed in field.feeds:
        await field.redis.xgroup_create(feed, GROUP, "0", mkstream=True)
        await field.redis.xreadgroup(GROUP, "dead", {feed: ">"})
    beat = {"at": 1, "started": 1, "host": "h", "pid": 1, "units": ""}
    await field.redis.hset(field.keys.workers, "dead", json.dumps(beat))
    async with quick(redis_url, namespace, claim_idle_ms=100) as worker:
        await eventually(right(field, "s"))
        await eventually(lambda: knows(field, {worker.name}))
        assert await field.redis.hkeys(field.keys.workers) == [worker.name.encode()]
    assert await field.consumers() == set()
    assert await field.redis.hlen(field.keys.workers) == 0


async def test_a_session_that_changes_under_every_try_is_waited_for_loudly(
    redis_url: str,
    namespace: str,
    field: Field,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await client.keys()
    load, left = Rows.load, 15

    async def load_and_meddle(self: Rows, sessions: Iterable[str], **options: Any) -> dict[str, Row]:
        nonlocal left
        found = await load(self, sessions, **options)
        left -= 1
        if left > 0:
            await field.redis.hset(field.keys.row("s"), "etag", f"other{left}")
        elif left == 0:
            await field.redis.delete(field.keys.row("s"))
        return found

    monkeypatch.setattr(Rows, "load", load_and_meddle)
    async with quick(redis_url, namespace):
        await append(client, "s")
        await eventually(right(field, "s"))
    assert "Contended: 1 sessions changed under each of 10 tries: 's'" in caplog.text


# --- workers among themselves


async def test_an_older_worker_steps_down_and_leaves_what_it_read_to_a_newer_one(
    redis_url: str, namespace: str, field: Field, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    keys = await client.keys()
    await append(client, "s")
    async with quick(redis_url, namespace):
        await eventually(right(field, "s"))
    older = worker(redis_url, namespace, [board])
    task = asyncio.create_task(older.run())
    await append(client, "s")
    await eventually(lambda: "stepping down" in caplog.text)
    assert await field.pending(older.name) == 1
    async with quick(redis_url, namespace, claim_idle_ms=100):
        await eventually(right(field, "s"))
    beat = json.loads(await field.redis.hget(keys.workers, older.name))
    assert (beat["state"], "todos" in beat["why"]) == ("stepped down", True)
    older.stop()
    await task


async def test_starts_leave_no_consumers_behind(redis_url: str, namespace: str, field: Field, client: Client) -> None:
    await client.keys()
    for n in range(RESTARTS):
        async with quick(redis_url, namespace, block_ms=1):
            await append(client, "s")
            await eventually(partial(at, field, "s", n), within=60)
    assert await field.consumers() == set()


class Always:
    """A lane that is behind, and gives one pointer a read."""

    is_behind = True

    def __init__(self) -> None:
        self.given: list[Pointer] = []

    async def read(self, within_s: float) -> dict[int, list[Pointer]]:
        assert within_s > 0
        self.given.append(Pointer(b"%d-0" % len(self.given), "s", 1, len(self.given), b"o", "x"))
        return {0: self.given[-1:]}


class Noting(Worker):
    """A worker that projects nothing, and finds after three batches that it has something else to do."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, [board])
        self.noted: list[Pointer] = []
        self._recovering, self._sweep_at = False, math.inf

    async def drain(self, lane: Lane) -> None:
        """One lane, until there is something else to do."""
        await self._drain(cast("Any", None), lane)

    async def _project(self, parts: Any, batches: Mapping[int, Sequence[Pointer]], *, unseen: bool = False) -> int:
        assert (parts, unseen) == (None, True)
        self.noted += batches[0]
        await asyncio.sleep(0)  # as it would wait for the server
        self._sweep_at = math.inf if len(self.noted) < 3 else 0.0
        return 1


async def test_what_was_read_ahead_is_projected_before_anything_else_is_done(redis_url: str) -> None:
    noting, lane = Noting(Settings(redis_url=redis_url)), Always()
    await noting.drain(lane)
    assert noting.noted == lane.given
    assert len(lane.given) == 4


def test_a_step_holds_no_more_than_fits_and_keeps_the_order() -> None:
    pointers = [
        Pointer(b"%d-0" % n, f"s{n % 7}", 1, n, b"o", "todo/write" if n % 3 == 0 else "x") for n in range(10_000)
    ]
    batches = {0: pointers[:100], 1: pointers[100:9000], 2: pointers[9000:]}
    found = list(steps(batches, frozenset({"todo/write"})))
    for step in found:
        weights = [HANDLED_WEIGHT if p.type == "todo/write" else 1 for batch in step.values() for p in batch]
        assert 0 < sum(weights) < STEP_WEIGHT_MAX + HANDLED_WEIGHT
    for partition, batch in batches.items():
        assert [pointer for step in found for pointer in step.get(partition, ())] == batch
    assert len(found) <= 2 * len(pointers) * HANDLED_WEIGHT / STEP_WEIGHT_MAX


def test_of_events_that_are_spared_a_step_counts_the_last_of_each_session_only() -> None:
    pointers = [Pointer(b"%d-0" % n, f"s{n % 7}", 1, n, b"o", "todo/write") for n in range(STEP_WEIGHT_MAX)]
    one = list(steps({0: pointers[: STEP_WEIGHT_MAX // 2]}, frozenset({"todo/write"}), frozenset({"todo/write"})))
    many = list(steps({0: pointers[: STEP_WEIGHT_MAX // 2]}, frozenset({"todo/write"})))
    assert (len(one), len(many)) == (1, HANDLED_WEIGHT // 2)


async def test_what_a_worker_holds_that_beats_on_is_taken_over_without_a_death(
    redis_url: str, namespace: str, field: Field, client: Client
) -> None:
    await client.keys()
    await append(client, "s", 3)
    for feed in field.feeds:
        await field.redis.xgroup_create(feed, GROUP, "0", mkstream=True)
        await field.redis.xreadgroup(GROUP, "stuck", {feed: ">"})
    beat = {"at": 10**15, "started": 1, "host": "h", "pid": 1, "units": ""}
    await field.redis.hset(field.keys.workers, "stuck", json.dumps(beat))
    async with quick(redis_url, namespace, claim_idle_ms=100) as worker:
        await eventually(right(field, "s"))
        assert (worker.tally.reclaimed_slow, worker.tally.reclaimed_dead) == (3, 0)
