"""The audit: what nobody points at any more is found and mended; what merely waits is left alone."""

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.asyncio import Redis

from eventually import eventually
from projecting import projected, working
from repairs import MOUNTED, POISON, TALK, TURN, Yard, write
from todo_projection.audit import Turn, keep_auditing
from todo_projection.beats import STEPPED_DOWN, WORKING, Beats, server_time
from todo_projection.look import Standing
from todo_projection.rebuild import Rebuild
from todo_projection.status import read_status
from todo_projection.suspects import Suspects
from todo_projection.worker import Worker
from todo_write.events import Position
from todo_write.log import Client, SessionLog

EPOCH = 1764517000000


async def mended(yard: Yard, *sessions: str) -> None:
    """Sweep, work, and see that everything is right."""
    await yard.sweep()
    await yard.work()
    await yard.assert_right(*sessions)


# --- pointers that were lost


async def test_after_a_feed_was_deleted_its_rows_get_where_their_logs_are(yard: Yard) -> None:
    await yard.project(write("a"))
    await yard.append("s", write("b"))
    await yard.append("t", write("c"))
    await yard.redis.delete(yard.keys.feed(0))
    await mended(yard, "s", "t")
    assert yard.audit.repaired == 2


async def test_a_row_deleted_while_its_log_lives_is_made_again(yard: Yard) -> None:
    await yard.project(write("a"), write("b"))
    await yard.redis.delete(yard.keys.row("s"))
    await mended(yard, "s")


async def test_a_row_of_another_type_is_reported_once_and_made_again_when_it_is_gone(
    yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    await yard.project(write("a"))
    await yard.redis.set(yard.keys.row("s"), "x")
    with caplog.at_level(logging.WARNING):
        await yard.sweep()
        await yard.sweep()
    why = f"WRONGTYPE {yard.keys.row('s')} is a string, not a hash"
    told = f"session 's' can't be projected: {why}; rename or delete that key"
    assert [record.getMessage() for record in caplog.records if "WRONGTYPE" in record.getMessage()] == [told]
    assert await yard.pointed() == 0
    await yard.redis.delete(yard.keys.row("s"))
    await mended(yard, "s")


async def test_a_key_of_another_type_is_in_the_index_before_anything_is_committed_and_until_it_is_mended(
    yard: Yard,
) -> None:
    await yard.project(write("a"))
    await yard.redis.rename(yard.keys.row("s"), "aside")
    await yard.redis.set(yard.keys.row("s"), "x")
    await yard.sweep()
    assert (await read_status(yard.wire, yard.keys, beat_ms=1000)).stale.sessions == {
        "s": f"WRONGTYPE {yard.keys.row('s')} is a string, not a hash"
    }
    await yard.redis.rename("aside", yard.keys.row("s"))
    await mended(yard, "s")
    assert (await read_status(yard.wire, yard.keys, beat_ms=1000)).stale.count == 0


async def test_a_row_that_can_not_be_read_is_made_again(yard: Yard) -> None:
    await yard.project(write("a"))
    await yard.redis.hset(yard.keys.row("s"), "pos", "nowhere")
    await mended(yard, "s")


@pytest.mark.parametrize("name", ["etag", "todos", "todos.ver"])
async def test_so_is_one_that_lacks_what_readers_need(yard: Yard, name: str) -> None:
    await yard.project(write("a"))
    await yard.redis.hdel(yard.keys.row("s"), name)
    await mended(yard, "s")
    assert name in await yard.row()


async def test_a_refold_that_was_asked_for_is_done_though_its_pointer_was_lost(yard: Yard) -> None:
    await yard.project(write("a"))
    await yard.redis.hset(yard.keys.row("s"), "todos", "[]")
    assert (await Rebuild(yard.wire, yard.keys, list(MOUNTED), MOUNTED).ask(["s"])).refused == {}
    for _ in range(2):
        await yard.sweep()
    assert await yard.pointed() == 1
    await yard.redis.delete(yard.keys.feed(0))
    assert "to be folded anew" in (await yard.verify()).why
    await mended(yard, "s")


async def test_a_row_whose_log_is_gone_is_reported_once(yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    await yard.project(write("a"))
    await yard.redis.delete(yard.keys.log("s"))
    with caplog.at_level(logging.WARNING, "todo_projection.audit"):
        for _ in range(2):
            await yard.sweep()
    (told,) = [record.getMessage() for record in caplog.records]
    assert "'s': its log is gone" in told


# --- pointers that wait


async def test_a_row_behind_only_because_its_pointer_waits_is_not_pointed_at_twice(yard: Yard) -> None:
    await yard.append("s", write("a"))
    for _ in range(3):
        await yard.sweep()
    assert await yard.pointed() == 1
    await yard.work()
    await yard.sweep()
    assert (await yard.pointed(), yard.audit.repaired) == (0, 0)


async def test_nor_is_one_whose_pointer_is_in_the_hands_of_a_worker(yard: Yard) -> None:
    await yard.append("s", write("a"))
    await yard.deliver("frozen")
    for _ in range(3):
        await yard.sweep()
    assert await yard.pointed() == 1


async def test_nor_one_that_has_got_on_while_newer_events_wait(yard: Yard) -> None:
    """The feed holds nothing from before the first look: what waits in it is of later events."""
    await yard.append("s", write("a"))
    await yard.audit.step(1000)
    first = await yard.deliver()
    await past(yard, first[0].time_ms)
    await yard.append("s", write("b"))
    await yard.projector().project({0: first})
    assert (await yard.look()).standing is Standing.BEHIND
    await yard.audit.step(1000)
    assert (await yard.pointed(), yard.audit.repaired) == (1, 0)


async def test_nor_one_whose_log_began_anew_between_two_looks(yard: Yard) -> None:
    await yard.project(write("a"))
    await yard.append("s", write("b"))
    await yard.append("other", TALK)
    await yard.audit.step(1000)
    await yard.redis.delete(yard.keys.log("s"))
    batch = await yard.deliver()
    await yard.projector().project({0: [one for one in batch if one.session == "other"]})
    await yard.append("s", write("c"))
    await yard.projector().project({0: [one for one in batch if one.session == "s"]})
    await yard.audit.step(1000)
    assert yard.audit.repaired == 0
    await mended(yard, "s")


async def test_nor_one_whose_log_lost_its_tail_and_grew_again_between_two_looks(yard: Yard) -> None:
    """As a fail-over leaves it: log and feed are what they were before, and what is appended then has its pointer."""
    await yard.project(write("a"))
    names = (yard.keys.log("s"), yard.keys.feed(0), yard.keys.row("s"))
    before = [await yard.redis.dump(name) for name in names]
    await yard.append("s", write("lost"))
    await yard.audit.step(1000)
    for name, dump in zip(names, before, strict=True):
        await yard.redis.restore(name, 0, dump, replace=True)
    await past(yard, await server_time(yard.wire))
    await yard.append("s", write("b"), write("c"))
    await yard.audit.step(1000)
    assert (await yard.pointed(), yard.audit.repaired) == (2, 0)
    await yard.redis.delete(yard.keys.feed(0))  # and what is lost then is found
    await mended(yard, "s")
    assert yard.audit.repaired == 1


async def past(yard: Yard, ms: int) -> None:
    """Return once the server's clock is well beyond this."""

    async def later() -> bool:
        return await server_time(yard.wire) > ms + 50

    await eventually(later)


async def test_a_clock_that_was_stepped_back_lets_nobody_be_a_suspect_for_as_long(yard: Yard) -> None:
    await yard.append("s", write("a"))
    await yard.redis.delete(yard.keys.feed(0))
    suspects, now = Suspects(yard.wire, yard.keys, count_max=10), await server_time(yard.wire)
    suspects.add(await yard.look(), now + 3_600_000)
    suspects.add(await yard.look(), now - 1)
    await yard.append("other", TALK)  # of a feed in use there is always something to wait for
    assert [look.session for look in await suspects.judge()] == ["s"]


# --- logs that went back


@pytest.mark.parametrize("left", [1, 2])
async def test_a_log_restored_from_a_backup_takes_the_row_back_with_it(yard: Yard, left: int) -> None:
    events = [write("a"), write("b"), TALK]
    await yard.append("s", *events[:left])
    backup = await yard.redis.dump(yard.keys.log("s"))
    await yard.append("s", *events[left:])
    await yard.work()
    await yard.redis.restore(yard.keys.log("s"), 0, backup, replace=True)
    await mended(yard, "s")
    assert (await yard.row())["pos"].endswith(f"-{left - 1}")


async def test_a_log_deleted_and_made_again_by_a_slower_clock_takes_the_row_back(yard: Yard) -> None:
    await yard.project(write("a"), write("b"))
    epoch = int((await yard.row())["pos"].partition("-")[0]) - 5000
    await yard.redis.delete(yard.keys.log("s"))
    fields = {"type": "todo/write", "time": "1", "op": "o", "data": '{"todos":[]}'}
    await yard.redis.xadd(yard.keys.log("s"), fields, id=f"{epoch}-0")
    await mended(yard, "s")


async def test_a_log_deleted_and_made_again_while_a_worker_holds_the_old_row(yard: Yard) -> None:
    by = yard.projector()
    await yard.project(write("a"), TALK, write("b"), by=by)
    await yard.redis.delete(yard.keys.log("s"))
    await yard.append("s", write("c"))
    await yard.work(by)
    await yard.assert_right("s")
    await yard.sweep()
    assert yard.audit.repaired == 0


async def test_an_equal_value_of_a_shorter_log_publishes_nothing(yard: Yard) -> None:
    await yard.project(write("a"), TALK)
    rev = (await yard.row())["rev"]
    await yard.redis.xdel(yard.keys.log("s"), (await yard.log())[-1][0])
    await mended(yard, "s")
    assert (await yard.row())["rev"] == rev


# --- logs nobody of ours wrote


async def test_a_foreign_log_is_reported_and_marked_once_and_not_folded(
    yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    fields = {"type": "todo/write", "time": "1", "op": "o", "data": '{"todos":[]}'}
    for id in (f"{EPOCH}-3", f"{EPOCH}-4"):
        await yard.redis.xadd(yard.keys.log("s"), fields, id=id)
    with caplog.at_level(logging.WARNING, "todo_projection.audit"):
        await yard.sweep()
        assert await yard.work() == 1
        row = await yard.row()
        for _ in range(3):
            await yard.sweep()
            assert await yard.work() == 0
    assert row["todos"] == "null"
    assert "begin with event 0" in row["todos.stale"]
    assert list(await yard.marks()) == ["s"]
    assert await yard.row() == row
    assert sum("has a trimmed log" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize("first", [0, 3], ids=["with a gap", "without its start"])
async def test_a_foreign_log_that_goes_on_is_not_reported_again(
    yard: Yard, caplog: pytest.LogCaptureFixture, first: int
) -> None:
    fields = {"type": "todo/write", "time": "1", "op": "o", "data": '{"todos":[]}'}
    await yard.redis.xadd(yard.keys.log("s"), fields, id=f"{EPOCH}-{first}")
    with caplog.at_level(logging.WARNING, "todo_projection.audit"):
        for seq in range(5, 8):
            await yard.redis.xadd(yard.keys.log("s"), fields, id=f"{EPOCH}-{seq}")
            await yard.sweep()
            await yard.work()
    assert sum("foreign log" in record.getMessage() for record in caplog.records) == 1


async def test_a_log_that_became_foreign_is_marked_and_the_last_good_value_stays(yard: Yard) -> None:
    await yard.project(write("a"))
    fields = {"type": "todo/write", "time": "1", "op": "o", "data": '{"todos":[]}'}
    epoch = (await yard.row())["pos"].partition("-")[0]
    await yard.redis.xadd(yard.keys.log("s"), fields, id=f"{epoch}-7")
    await yard.sweep()
    await yard.work()
    row = await yard.row()
    assert row["todos"] == '[{"content":"a","status":"pending"}]'
    assert "event 1 is missing" in row["todos.stale"]
    assert row["pos"] == f"{epoch}-0"


async def test_marking_again_what_is_marked_leaves_the_board_in_its_order(yard: Yard) -> None:
    fields = {"type": "todo/write", "time": "1", "op": "o", "data": '{"todos":[]}'}
    await yard.redis.xadd(yard.keys.log("s"), fields, id=f"{EPOCH}-3")
    await mended_by_a_new_worker(yard)
    before = await yard.indexed("recent"), await yard.row()
    await mended_by_a_new_worker(yard)
    assert (await yard.indexed("recent"), await yard.row()) == before


async def mended_by_a_new_worker(yard: Yard) -> None:
    yard.audit = type(yard.audit)(yard.wire, yard.keys, yard.audit.mounted)
    await yard.sweep()
    await yard.work()


# --- in a worker


async def test_a_worker_audits_by_itself(redis_url: str, namespace: str, client: Client, redis: Redis) -> None:
    keys = await client.keys()
    log = SessionLog(client, "s")
    async with working(redis_url, namespace, beat_ms=100, audit_rate=100):
        await projected(redis, keys, "s", await log.append(*write("a")))
        await redis.delete(keys.row("s"))
        await projected(redis, keys, "s", Position(0, 0))


async def test_of_two_workers_one_audits_and_the_other_when_that_one_is_gone(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    keys = await client.keys()
    log = SessionLog(client, "s")
    async with AsyncExitStack() as outer, AsyncExitStack() as inner:
        one = await outer.enter_async_context(working(redis_url, namespace, beat_ms=100, audit_rate=100))
        two = await inner.enter_async_context(working(redis_url, namespace, beat_ms=100, audit_rate=100))
        await projected(redis, keys, "s", await log.append(*write("a")))
        await eventually(lambda: looked(one) + looked(two) > 0)
        assert min(looked(one), looked(two)) == 0
        first, second = sorted((one, two), key=lambda worker: worker.name)
        assert looked(second) == 0
        first.stop()
        await eventually(lambda: looked(second) > 0)


async def test_rate_zero_is_off(yard: Yard) -> None:
    turn = Turn(yard.wire, yard.keys, "w", 5000)
    await asyncio.wait_for(keep_auditing(yard.audit, turn, rate=0, working=lambda: True), 5)
    assert yard.audit.looked == 0


async def test_while_a_worker_has_stepped_down_another_audits(yard: Yard) -> None:
    versions = {"todos": 2}
    for name, state in (("a", STEPPED_DOWN), ("b", WORKING), ("c", WORKING)):
        await Beats(yard.wire, yard.keys, name, versions).beat(state)
    assert [await Turn(yard.wire, yard.keys, name, 5000).is_ours() for name in "abc"] == [False, True, False]


async def test_the_turn_passes_a_worker_without_an_audit_by(yard: Yard) -> None:
    await Beats(yard.wire, yard.keys, "a", {"todos": 2}, audits=False).beat()
    await Beats(yard.wire, yard.keys, "b", {"todos": 2}).beat()
    assert [await Turn(yard.wire, yard.keys, name, 5000).is_ours() for name in "ab"] == [False, True]


async def test_a_dead_worker_with_a_beat_of_the_future_does_not_keep_the_turn(yard: Yard) -> None:
    """A server's clock that was stepped back."""
    await Beats(yard.wire, yard.keys, "b", {"todos": 2}).beat()
    beat = json.loads(await yard.redis.hget(yard.keys.workers, "b"))
    await yard.redis.hset(yard.keys.workers, "a", json.dumps({**beat, "at": beat["at"] + 3_600_000}))
    assert await Turn(yard.wire, yard.keys, "b", 5000).is_ours()


def looked(worker: Worker) -> int:
    """How many sessions the audit of a worker has looked at."""
    parts: Any = vars(worker)["_parts"]
    return 0 if parts is None else parts.audit.looked


async def test_marks_heal_as_ever_after_a_repair(yard: Yard) -> None:
    await yard.project(write("a"), POISON)
    await yard.redis.delete(yard.keys.row("s"))
    await mended(yard, "s")
    await yard.project(TURN)
    await yard.assert_right("s")
    assert await yard.marks() == {}
