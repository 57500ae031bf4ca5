"""A look at log and row, and a pointer more: what a repair is made of."""

import pytest
from redis import ResponseError

from repairs import MOUNTED, TALK, Yard, write
from todo_projection.look import Repair, Standing, look_at, mending, point_again
from todo_write.events import Position

pytestmark = pytest.mark.every_server


async def test_a_session_nobody_wrote_to_is_nothing(yard: Yard) -> None:
    look = await yard.look()
    assert (look.standing, look.tail, look.row, look.foldable) == (Standing.NOTHING, None, None, False)


async def test_a_row_is_behind_until_it_reaches_the_tail_then_even(yard: Yard) -> None:
    (first,) = await yard.append("s", write("a"))
    assert (await yard.look()).standing is Standing.BEHIND
    await yard.work()
    look = await yard.look()
    assert (look.standing, look.tail, look.row) == (Standing.EVEN, Position.parse(first), Position.parse(first))
    assert (look.versions, look.foreign, look.length) == (MOUNTED, "", 1)
    await yard.append("s", TALK)
    assert (await yard.look()).standing is Standing.BEHIND


async def test_a_log_that_went_back_leaves_the_row_ahead(yard: Yard) -> None:
    await yard.project(write("a"), write("b"))
    await yard.redis.xdel(yard.keys.log("s"), (await yard.log())[-1][0])
    assert (await yard.look()).standing is Standing.AHEAD


async def test_a_row_without_a_log_is_an_orphan_and_a_tombstone_is_nothing(yard: Yard) -> None:
    await yard.project(write("a"))
    await yard.redis.delete(yard.keys.log("s"))
    assert (await yard.look()).standing is Standing.ORPHAN
    await yard.redis.hdel(yard.keys.row("s"), "units")
    assert (await yard.look()).standing is Standing.NOTHING


async def test_a_log_that_came_back_under_a_tombstone_leaves_it_ahead(yard: Yard) -> None:
    await yard.project(write("a"))
    await yard.redis.hdel(yard.keys.row("s"), "units")
    assert (await yard.look()).standing is Standing.AHEAD


@pytest.mark.parametrize("key", ["log", "row"])
async def test_a_key_of_another_type_is_broken_and_the_next_session_is_looked_at(yard: Yard, key: str) -> None:
    await yard.project(write("a"), session="fine")
    await yard.redis.set(getattr(yard.keys, key)("s"), "x")
    broken, fine = await look_at(yard.wire, yard.keys, ["s", "fine"])
    assert broken.standing is Standing.BROKEN
    assert "WRONGTYPE" in broken.why
    assert fine.standing is Standing.EVEN


@pytest.mark.parametrize("fields", [{"pos": "nowhere"}, {"units": "todos"}, {"pos": ""}])
async def test_a_row_that_can_not_be_read_is_corrupt(yard: Yard, fields: dict[str, str]) -> None:
    await yard.project(write("a"))
    await yard.redis.hset(yard.keys.row("s"), mapping=fields)
    look = await yard.look()
    assert look.standing is Standing.CORRUPT
    assert look.etag.decode() == (await yard.row())["etag"]


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        (["1764517000000-3", "1764517000000-4"], "begins with event 3"),
        (["1764517000000-0", "1764517000000-1", "1764517000000-3"], "1 of its 4 events are missing"),
        (["1764517000000-0", "1764517000009-0"], "several epochs"),
        (["1764517000000-0", "99999999999999999-0"], "not a position"),
    ],
)
async def test_a_log_no_writer_of_ours_wrote_is_foreign_with_the_reason(yard: Yard, ids: list[str], why: str) -> None:
    for id in ids:
        await yard.redis.xadd(yard.keys.log("s"), {"type": "x", "time": "1", "op": "o", "data": "{}"}, id=id)
    look = await yard.look()
    assert why in look.foreign
    assert not look.foldable


async def test_a_log_trimmed_by_hand_is_called_trimmed_and_one_with_other_holes_foreign(yard: Yard) -> None:
    await yard.project(*[TALK] * 4)
    log, (first, second, third, _) = yard.keys.log("s"), [id for id, _ in await yard.log()]
    await yard.redis.xdel(log, first, second)
    assert ((await yard.look()).lack, (await yard.look()).foreign) == (
        "trimmed",
        "it begins with event 2, what stood before is gone",
    )
    assert "its log is trimmed" in (await yard.verify()).why
    await yard.redis.xadd(log, {"type": "x", "time": "1", "op": "o", "data": "{}"}, id=third.replace("-2", "-9"))
    assert (await yard.look()).lack == "foreign"


async def test_what_is_pointed_at_again_is_projected_again(yard: Yard) -> None:
    await yard.append("s", write("a"))
    await yard.redis.delete(yard.keys.feed(0))
    assert await point_again(yard.wire, yard.keys, [Repair(await yard.look())]) == [True]
    await yard.work()
    await yard.assert_right("s")


async def test_a_row_that_changed_since_the_look_is_left_alone(yard: Yard) -> None:
    await yard.project(write("a"))
    look = await yard.look()
    await yard.project(TALK)
    before = await yard.row()
    assert await point_again(yard.wire, yard.keys, [Repair(look, MOUNTED)]) == [False]
    assert (await yard.row(), await yard.pointed()) == (before, 0)


async def test_without_a_log_there_is_nothing_to_point_at(yard: Yard) -> None:
    assert await point_again(yard.wire, yard.keys, [Repair(await yard.look(), MOUNTED, partial=True)]) == [False]
    assert await yard.redis.exists(yard.keys.row("s"), yard.keys.feed(0)) == 0


async def test_a_feed_of_another_type_is_an_error_and_nothing_was_written(yard: Yard) -> None:
    await yard.project(write("a"))
    look, before = await yard.look(), await yard.row()
    await yard.redis.set(yard.keys.feed(0), "x")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await point_again(yard.wire, yard.keys, [Repair(look, MOUNTED)])
    assert await yard.row() == before


async def test_a_tombstone_that_is_a_row_again_lives_for_ever(yard: Yard) -> None:
    await yard.project(write("a"))
    await yard.redis.hdel(yard.keys.row("s"), "units")
    await yard.redis.pexpire(yard.keys.row("s"), 60_000)
    await point_again(yard.wire, yard.keys, [mending(await yard.look(), MOUNTED)])
    assert await yard.redis.pttl(yard.keys.row("s")) == -1
    await yard.work()
    await yard.assert_right("s")


async def test_readers_keep_the_old_values_until_the_new_ones_are_there(yard: Yard) -> None:
    await yard.project(write("a"))
    before = await yard.row()
    await point_again(yard.wire, yard.keys, [Repair(await yard.look(), MOUNTED)])
    asked = await yard.row()
    assert asked["units"] == "board:0,todos:0"
    kept = {name: raw for name, raw in before.items() if name not in ("etag", "units")}
    assert {name: raw for name, raw in asked.items() if name not in ("etag", "units")} == kept
    assert await yard.work() == 1
    after = await yard.row()
    assert {**after, "etag": before["etag"]} == before
