"""Verification: whatever is stored otherwise than the log says is found, and what is right is left in peace."""

import json
from typing import Any

import pytest

from eventually import eventually
from projecting import working
from repairs import MOUNTED, POISON, TALK, TURN, Interrupted, Tally, Yard, write
from todo_projection.board import board
from todo_projection.look import Repair, point_again
from todo_projection.unit import Unit, mounted_units
from todo_projection.verify import Verifier
from todo_projection.wire import Wire
from todo_write.canary import sing
from todo_write.events import CANARY
from todo_write.log import Client
from todo_write.unit import todos


async def filled(yard: Yard) -> dict[str, str]:
    """A session whose row has a value, a state beside it, a mark, and stands in every index; the row."""
    await yard.project(("session/start", {"label": "l"}), write("a", "b", status="in_progress"), TALK, POISON)
    assert (await yard.verify()).sound
    row = await yard.row()
    assert {"board.state", "todos.stale"} <= row.keys()
    return row


async def test_what_workers_made_is_sound_and_nothing_is_written(yard: Yard) -> None:
    before = await filled(yard)
    finding = await yard.verify()
    assert (finding.sound, finding.differences, finding.repair) == (True, {}, None)
    assert (await yard.row(), await yard.pointed()) == (before, 0)


async def test_the_canary_is_sound_without_a_place_on_any_board(client: Client, redis_url: str, wire: Wire) -> None:
    await sing(client)
    keys = await client.keys()
    async with working(redis_url, keys.namespace):
        await eventually(lambda: wire.command("EXISTS", keys.row(CANARY)))
    found = [finding async for finding in Verifier(wire, keys, mounted_units()).verify([CANARY])]
    assert [(finding.sound, finding.differences) for finding in found] == [(True, {})]


@pytest.mark.parametrize(
    ("unit", "fields"),
    [
        ("todos", {"todos": "[]"}),
        ("todos", {"todos": "not json"}),
        ("todos", {"todos.at": "1-1"}),
        ("board", {"board.state": "{}"}),
        ("todos", {"todos.stale": '{"seq":1,"reason":"r","since":1}'}),
        ("todos", {"todos.ver": "1"}),
        ("todos", {"todos.state": "null"}),
    ],
)
async def test_a_corrupted_value_state_or_mark_is_found_and_a_worker_mends_it(
    yard: Yard, unit: str, fields: dict[str, str]
) -> None:
    before = await filled(yard)
    await yard.redis.hset(yard.keys.row("s"), mapping=fields)
    finding = await yard.verify()
    assert not finding.sound
    assert unit in finding.differences
    assert finding.differences[unit].stored != finding.differences[unit].folded
    await mend(yard, finding.repair)
    assert timeless(await yard.row()) == timeless(before)


@pytest.mark.parametrize("name", ["todos.stale", "board.state", "todos.at"])
async def test_a_field_that_is_gone_is_found(yard: Yard, name: str) -> None:
    before = await filled(yard)
    await yard.redis.hdel(yard.keys.row("s"), name)
    await mend(yard, (await yard.verify()).repair)
    assert timeless(await yard.row()) == timeless(before)


@pytest.mark.parametrize("name", ["todos.ver", "pos", "etag"])
async def test_a_row_that_can_not_be_read_is_found_and_made_again(yard: Yard, name: str) -> None:
    before = await filled(yard)
    await yard.redis.hdel(yard.keys.row("s"), name)
    finding = await yard.verify()
    assert not finding.sound
    await mend(yard, finding.repair)
    assert timeless(await yard.row()) == timeless(before)


@pytest.mark.parametrize(
    ("index", "command"),
    [
        ("recent", ("ZREM", "s")),
        ("working", ("ZREM", "s")),
        ("working", ("ZADD", 5, "s")),
        ("stale", ("HDEL", "s")),
        ("stale", ("HSET", "s", "{}")),
        ("stale", ("HSET", "s", "no json")),
    ],
)
async def test_an_index_that_says_another_thing_is_found_and_mended(
    yard: Yard, index: str, command: tuple[Any, ...]
) -> None:
    await filled(yard)
    before = await indexes(yard)
    name, *rest = command
    await yard.redis.execute_command(name, getattr(yard.keys, index)(0), *rest)
    finding = await yard.verify()
    assert set(finding.differences) == {f"index {index}"}
    await mend(yard, finding.repair)
    after = await indexes(yard)
    if index != "recent":  # there it is the time of the event, by its writer's clock, from now on
        assert after == before


async def test_a_repair_does_not_make_a_session_look_as_if_it_had_just_had_an_event(yard: Yard) -> None:
    await filled(yard)
    before = await yard.indexed("recent")
    await mend(yard, Repair(await yard.look(), MOUNTED))
    assert await yard.indexed("recent") == before


async def test_unchanged_values_publish_nothing(yard: Yard) -> None:
    rev = (await filled(yard))["rev"]
    await mend(yard, Repair(await yard.look(), MOUNTED))
    assert (await yard.row())["rev"] == rev


async def test_one_that_changes_while_it_is_looked_at_is_looked_at_again(yard: Yard, redis_url: str) -> None:
    async def change() -> None:
        await yard.project(write("b", status="in_progress"))

    await yard.project(write("a"))
    wire = Interrupted(redis_url, "ZSCORE", change)
    found = [finding async for finding in Verifier(wire, yard.keys, [board, todos]).verify(["s"])]
    await wire.aclose()
    assert [finding.sound for finding in found] == [True]
    assert await yard.indexed("working")


async def test_a_row_that_is_merely_on_its_way_is_sound(yard: Yard) -> None:
    await yard.project(write("a"))
    await yard.append("s", write("b"))
    await yard.append("new", write("b"))
    assert (await yard.verify()).sound
    assert (await yard.verify("new")).sound


@pytest.mark.parametrize("projected", [True, False])
async def test_a_row_nobody_points_at_any_more_is_found(yard: Yard, *, projected: bool) -> None:
    if projected:
        await yard.project(write("a"))
    await yard.append("s", write("b"))
    await yard.redis.delete(yard.keys.feed(0))
    finding = await yard.verify()
    assert not finding.sound
    assert "nothing points at it" in finding.why
    await mend(yard, finding.repair)


async def test_a_row_ahead_of_its_log_is_found(yard: Yard) -> None:
    await yard.project(write("a"), write("b"))
    await yard.redis.xdel(yard.keys.log("s"), (await yard.log())[-1][0])
    finding = await yard.verify()
    assert "ahead" in finding.why
    await mend(yard, finding.repair)


async def test_another_log_of_the_same_length_is_found(yard: Yard) -> None:
    """Neither position nor length tell it: only a fold does."""
    await yard.project(write("a"))
    id, fields = (await yard.log())[0]
    await yard.redis.delete(yard.keys.log("s"))
    await yard.redis.xadd(yard.keys.log("s"), {**fields, "data": json.dumps(write("other")[1])}, id=id)
    finding = await yard.verify()
    assert set(finding.differences) == {"todos"} or set(finding.differences) == {"todos", "board"}
    await mend(yard, finding.repair)


async def test_a_row_without_a_log_is_an_orphan(yard: Yard) -> None:
    await yard.project(write("a"))
    await yard.redis.delete(yard.keys.log("s"))
    finding = await yard.verify()
    assert (finding.sound, finding.orphan, finding.repair) == (False, True, None)


async def test_a_key_of_another_type_is_found_and_named(yard: Yard) -> None:
    await yard.project(write("a"))
    await yard.redis.set(yard.keys.row("s"), "x")
    finding = await yard.verify()
    assert (finding.sound, finding.repair) == (False, None)
    assert yard.keys.row("s") in finding.why


async def test_a_trimmed_log_is_found_until_its_marks_say_so_or_it_is_adopted(yard: Yard) -> None:
    await yard.project(write("a"), write("b"), TURN)
    await yard.redis.xtrim(yard.keys.log("s"), minid=(await yard.log())[1][0], approximate=False)
    finding = await yard.verify()
    assert (finding.sound, finding.repair) == (False, None)
    assert "--partial" in finding.why
    assert await point_again(yard.wire, yard.keys, [Repair(await yard.look(), MOUNTED, partial=True)]) == [True]
    await yard.work()
    assert (await yard.verify()).sound
    assert (await yard.row())["partial"] == "1"


async def test_an_adopted_log_stays_adopted_when_its_row_can_not_be_read(yard: Yard) -> None:
    await yard.project(write("a"), write("b"), TURN)
    await yard.redis.xtrim(yard.keys.log("s"), minid=(await yard.log())[1][0], approximate=False)
    assert await point_again(yard.wire, yard.keys, [Repair(await yard.look(), MOUNTED, partial=True)]) == [True]
    await yard.work()
    before = await yard.row()
    await yard.redis.hdel(yard.keys.row("s"), "todos.ver")
    await yard.project(TALK)
    before = {**before, "pos": (await yard.row())["pos"]}
    assert timeless(await yard.row()) == timeless(before)
    assert (await yard.verify()).sound


@pytest.mark.parametrize("projected", [True, False])
async def test_what_can_not_be_folded_is_found_until_its_marks_say_so(yard: Yard, *, projected: bool) -> None:
    if projected:
        await yard.project(write("a"))
    epoch = (await yard.row()).get("pos", "1764517000000").partition("-")[0]
    fields = {"type": "todo/write", "time": "1", "op": "o", "data": '{"todos":[]}'}
    await yard.redis.xadd(yard.keys.log("s"), fields, id=f"{epoch}-3")
    assert not (await yard.verify()).sound
    await yard.sweep()
    await yard.work()
    finding = await yard.verify()
    assert finding.sound
    assert "as its marks say" in finding.why


async def test_a_unit_that_waits_to_be_folded_is_passed_over(yard: Yard) -> None:
    await yard.project(write("a"), by=yard.projector([todos]))
    assert (await yard.verify()).sound
    await yard.work()
    assert await point_again(yard.wire, yard.keys, [Repair(await yard.look(), MOUNTED)]) == [True]
    assert (await yard.verify()).sound
    await yard.work()
    await yard.assert_right("s")


async def test_a_row_of_a_worker_with_other_code_is_found(yard: Yard) -> None:
    units: list[Unit] = [board, Tally(mended=False), todos]
    await yard.project(write("a"), write("a", "b"), by=yard.projector(units))
    finding = await yard.verify(units=[board, Tally(), todos])
    assert set(finding.differences) == {"tally"}


async def mend(yard: Yard, repair: Repair | None) -> None:
    """Do what the finding offers, and see that all is right."""
    assert repair is not None
    assert await point_again(yard.wire, yard.keys, [repair]) == [True]
    await yard.work()
    await yard.assert_right("s")
    assert (await yard.verify()).sound


async def indexes(yard: Yard) -> list[Any]:
    return [await yard.indexed("recent"), await yard.indexed("working"), await yard.marks()]


def timeless(row: dict[str, str]) -> dict[str, str]:
    """A row without what each write makes anew."""
    return {name: raw for name, raw in row.items() if name not in ("etag", "rev")}
