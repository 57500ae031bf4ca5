"""Logs that went back alone and grew again past the row: seen by the op of the event that the row was folded up to."""

import pytest
from redis.asyncio import Redis

from repairs import TALK, Given, Yard, write
from todo_projection.look import Standing
from todo_projection.projector import Projector
from workshop import Ear

OLD: Given = ("session/title", {"title": "old"})
NEW: Given = ("session/title", {"title": "new"})


async def fork(yard: Yard, *events: Given, by: Projector | None = None) -> None:
    """A log of three events is projected, restored alone as it was after the first, and goes on with these."""
    await yard.project(write("a"), by=by)
    backup = await yard.redis.dump(yard.keys.log("s"))
    await yard.project(OLD, write("b"), by=by)
    await yard.redis.restore(yard.keys.log("s"), 0, backup, replace=True)
    await yard.append("s", *events)


@pytest.mark.parametrize("more", [0, 3])
@pytest.mark.parametrize("remembered", [True, False], ids=["remembered", "read"])
async def test_a_worker_that_is_pointed_at_another_event_where_the_row_stands_folds_it_again(
    yard: Yard, redis: Redis, more: int, *, remembered: bool
) -> None:
    by = yard.projector()
    await fork(yard, TALK, NEW, *[TALK] * more, by=by)
    async with Ear(redis, yard.keys, "s") as ear:
        await yard.work(by if remembered else None)
        (frame,) = await ear.heard()
    assert frame["value"] == [{"content": "a", "status": "pending"}]
    await yard.assert_right("s")


@pytest.mark.parametrize("more", [0, 3])
async def test_without_a_pointer_the_audit_finds_it(yard: Yard, more: int) -> None:
    await fork(yard, TALK, NEW, *[TALK] * more)
    await yard.redis.delete(yard.keys.feed(0))
    assert (await yard.look()).standing is Standing.FORKED
    finding = await yard.verify()
    assert (finding.sound, sorted(finding.differences)) == (False, ["board", "todos"])
    await yard.sweep()
    await yard.work()
    await yard.assert_right("s")
    assert (await yard.look()).standing is Standing.EVEN
    assert yard.audit.repaired == 1


async def test_a_row_of_another_history_at_the_same_position_is_found(yard: Yard) -> None:
    await fork(yard, TALK, NEW)
    await yard.work()
    right = await yard.row()
    await yard.redis.delete(yard.keys.row("s"))
    await yard.redis.hset(yard.keys.row("s"), mapping={**right, "etag": right["etag"][:8] + "anotherO", "todos": "[]"})
    await yard.sweep()
    await yard.work()
    await yard.assert_right("s")


async def test_a_pointer_left_from_the_history_before_costs_a_fold_and_tells_nothing(yard: Yard, redis: Redis) -> None:
    await fork(yard, TALK, NEW)
    await yard.work()
    row = await yard.row()
    left = {"s": "s", "i": row["pos"], "o": "formerly", "t": "todo/write"}
    await yard.redis.xadd(yard.keys.feed(0), left)
    async with Ear(redis, yard.keys, "s") as ear:
        await yard.work()
        await yard.sweep()
        await yard.work()
        assert await ear.heard() == []
    assert (await yard.look()).standing is Standing.EVEN
    assert {**await yard.row(), "etag": ""} == {**row, "etag": ""}


@pytest.mark.parametrize("op", [b"", "é".encode(), b"o" * 100], ids=["none", "not ASCII", "long"])
async def test_where_nobody_knows_the_op_the_position_alone_counts(yard: Yard, op: bytes) -> None:
    fields = {"type": "todo/write", "time": "1", "op": op, "data": '{"todos":[]}'}
    await yard.redis.xadd(yard.keys.log("s"), fields, id="1764517000000-0")
    pointer = {"s": "s", "i": "1764517000000-0", "o": op, "t": "todo/write"}
    for _ in range(2):
        await yard.redis.xadd(yard.keys.feed(0), pointer)
        await yard.work()
    assert len((await yard.row())["etag"]) == 8
    assert (await yard.look()).standing is Standing.EVEN
    await yard.sweep()
    assert await yard.pointed() == 0


# --- marks for what is missing


async def test_pointers_beyond_the_end_of_a_restored_log_leave_no_mark_for_long(yard: Yard) -> None:
    await yard.project(write("a"))
    backup = await yard.redis.dump(yard.keys.log("s"))
    await yard.append("s", TALK, write("b"))
    await yard.redis.restore(yard.keys.log("s"), 0, backup, replace=True)
    await yard.work()
    assert list(await yard.marks()) == ["s"]
    await yard.sweep()
    await yard.work()
    await yard.assert_right("s")
    assert await yard.marks() == {}


async def test_nor_where_the_log_goes_on_with_what_no_unit_handles(yard: Yard) -> None:
    await yard.project(write("a"))
    backup = await yard.redis.dump(yard.keys.log("s"))
    await yard.append("s", write("b"))
    await yard.redis.restore(yard.keys.log("s"), 0, backup, replace=True)
    await yard.work()
    assert list(await yard.marks()) == ["s"]
    await yard.append("s", TALK)
    await yard.work()
    await yard.assert_right("s")
    assert await yard.marks() == {}


@pytest.mark.parametrize("kind", [TALK, OLD], ids=["unhandled", "handled"])
async def test_a_mark_goes_when_what_was_missing_is_there_again(yard: Yard, redis: Redis, kind: Given) -> None:
    await yard.project(write("a"))
    await yard.append("s", OLD, OLD)
    whole = await yard.redis.dump(yard.keys.log("s"))
    await yard.redis.xdel(yard.keys.log("s"), (await yard.log())[1][0])
    await yard.work()
    assert list(await yard.marks()) == ["s"]
    await yard.redis.restore(yard.keys.log("s"), 0, whole, replace=True)
    await yard.append("s", kind)
    async with Ear(redis, yard.keys, "s") as ear:
        await yard.work()
        (frame,) = await ear.heard()
    assert "stale" not in frame
    await yard.assert_right("s")
    assert await yard.marks() == {}
