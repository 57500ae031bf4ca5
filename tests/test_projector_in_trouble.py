"""The projector before logs that can't be folded, rows that can't be read, other versions and poison."""

import json
from collections.abc import AsyncIterator, Container, Iterable
from typing import Any

import pytest
from redis.asyncio import Redis

from oracle import shown
from stepping import POISON, TALK, TURN, Tally, TodosAt, settle, write
from todo_projection.advance import Outdated
from todo_projection.board import board
from todo_projection.projector import Projector
from todo_projection.row import Row
from todo_projection.rows import Rows
from todo_projection.unit import mounted_units
from todo_projection.wire import Wire
from todo_write.unit import todos
from workshop import Ear, Workshop


@pytest.fixture
def shop(redis: Redis, namespace: str, wire: Wire) -> Workshop:
    return Workshop(redis, namespace, wire)


@pytest.fixture
async def ear(redis: Redis, shop: Workshop) -> AsyncIterator[Ear]:
    """Frames of session s."""
    async with Ear(redis, shop.keys, "s") as ear:
        yield ear


# --- logs that can't be folded


async def _foreign(shop: Workshop, how: str) -> int:
    """Break the log of s somewhere behind its first event; the first seq that is wrong."""
    (first, *_, last) = await shop.append("s", write("b"), TALK, write("c"), TALK, write("d"))
    log = shop.keys.log("s")
    match how:
        case "missing":
            await shop.redis.xdel(log, last)
            return 5
        case "unhandled missing":
            await shop.redis.xdel(log, first.replace("-1", "-2"))
            return 2
        case "no event":
            await shop.redis.delete(log)
            epoch = first.partition("-")[0]
            for seq, fields in enumerate([{"type": "x", "time": 1, "op": "o", "data": "{}"}, {"what": "ever"}]):
                await shop.redis.xadd(log, fields, id=f"{epoch}-{seq}")
            return 1
        case _:
            await shop.redis.delete(log)
            await shop.redis.set(log, "mine")
            return 1


@pytest.mark.parametrize("how", ["missing", "unhandled missing", "no event", "other type"])
async def test_a_log_with_a_gap_is_marked_once_and_not_folded(shop: Workshop, ear: Ear, how: str) -> None:
    await shop.pin()
    projector = shop.projector()
    await shop.project(write("a", status="in_progress"), by=projector)
    good = await shop.row()
    seq = await _foreign(shop, how)
    batch = await shop.deliver()
    await ear.heard()
    for pointers in ([batch[4]], batch[3:], batch[:1] + batch[2:]):
        for by in (projector, shop.projector()):
            await settle(by, {0: pointers})
    row = await shop.row()
    assert {name: raw for name, raw in row.items() if name in shown(good) and name != "pos"} == {
        name: raw for name, raw in good.items() if name not in ("etag", "rev", "pos")
    }
    assert row["pos"] == good["pos"]
    (frame,) = await ear.heard()
    assert (frame["value"], frame["stale"]["seq"]) == (json.loads(good["todos"]), seq)
    assert frame["stale"] == json.loads(row["todos.stale"])
    assert (await shop.marks())["s"]["todos"] == frame["stale"]
    assert (row["rev"], frame["rev"]) == (f"2-{row['rev'][2:]}", row["rev"])
    assert await shop.pending() == 2  # the pin, and the pointer that was left out


async def test_a_log_that_does_not_begin_with_event_0_is_marked_and_not_folded(shop: Workshop, ear: Ear) -> None:
    first, *_ = await shop.append("s", TALK, write("a"), write("b"))
    await shop.redis.xdel(shop.keys.log("s"), first)
    projector = shop.projector()
    await projector.project({0: await shop.deliver()})
    await shop.project(write("c"), by=projector)
    row = await shop.row()
    assert (row["pos"], row["todos"]) == (first.replace("-0", "--1"), "null")
    (frame,) = await ear.heard()
    assert (frame["seq"], frame["stale"]["seq"], frame["value"]) == (-1, 0, None)


async def test_a_log_of_two_epochs_is_marked_and_the_row_stays_where_it_was(shop: Workshop) -> None:
    await shop.project(write("a"))
    good = await shop.row()
    log = shop.keys.log("s")
    await shop.redis.xadd(log, {"type": "x", "time": 1, "op": "o", "data": "{}"}, id="4000000000000-0")
    await shop.project(write("b"))
    row = await shop.row()
    assert (row["pos"], row["todos"]) == (good["pos"], good["todos"])
    assert "does not begin" in json.loads(row["todos.stale"])["reason"]


async def test_a_log_of_two_epochs_is_marked_though_every_event_of_the_newer_one_is_pointed_at(shop: Workshop) -> None:
    fields = {"type": "todo/write", "time": 1, "op": "o", "data": '{"todos": []}'}
    for position in ("1-0", "2-0"):
        await shop.redis.xadd(shop.keys.log("s"), fields, id=position)
    await shop.redis.xadd(shop.keys.feed(0), {"s": "s", "i": "2-0", "o": "o", "t": "todo/write"})
    await shop.projector().project({0: await shop.deliver()})
    row = await shop.row()
    assert (row["pos"], row["todos"]) == ("2--1", "null")
    assert "does not begin" in json.loads(row["todos.stale"])["reason"]


async def test_a_unit_is_not_said_to_be_covered_when_its_log_can_not_be_folded_again(shop: Workshop) -> None:
    await shop.project(TALK, write("a"), by=shop.projector([TodosAt(1)]))
    log = shop.keys.log("s")
    await shop.redis.xdel(log, (await shop.log())[0][0])
    await shop.project(write("b"), by=shop.projector([board, todos]))
    row = await shop.row()
    assert (row["units"], row["todos.ver"]) == ("todos:1", "1")
    assert "board" not in row
    assert "todos.stale" in row


# --- what is stored can't be trusted either


async def test_a_row_that_can_not_be_read_is_folded_again_and_its_rev_goes_on(shop: Workshop, ear: Ear) -> None:
    await shop.project(write("a"))
    await shop.project(write("b"))
    await shop.redis.hset(shop.keys.row("s"), mapping={"pos": "garbage", "etag": b"\xff", "todos.stale": "x"})
    await shop.project(write("c"))
    await shop.assert_right("s")
    assert (await ear.heard())[-1]["rev"].startswith("3-")


@pytest.mark.parametrize("field", ["todos", "board.state"])
async def test_a_value_its_unit_can_not_read_is_folded_again(shop: Workshop, field: str) -> None:
    await shop.project(write("a", "b", status="in_progress"))
    await shop.redis.hset(shop.keys.row("s"), field, '{"no": "list"')
    await shop.project(("session/title", {"title": "t"}))
    await shop.project(TURN, write("c"))
    await shop.assert_right("s")


async def test_a_row_of_another_type_is_reported_and_the_others_go_on(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    await shop.append("s", write("a"))
    await shop.append("t", write("b"))
    await shop.redis.set(shop.keys.row("s"), "mine")
    outcome = await shop.projector().project({0: await shop.deliver()})
    assert (outcome.committed, outcome.conflicts) == (2, {})
    await shop.assert_right("t")
    assert "session 's' can't be projected: WRONGTYPE" in caplog.text
    assert await shop.redis.hkeys(shop.keys.stale(0)) == [b"s"]
    assert await shop.pending() == 0
    await shop.redis.delete(shop.keys.row("s"))
    await shop.project(TALK)
    await shop.assert_right("s")
    assert await shop.marks() == {}


async def test_the_log_of_a_row_that_can_not_be_written_is_not_read(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    await shop.append("s", write("a"))
    await shop.redis.set(shop.keys.row("s"), "mine")
    await shop.redis.delete(shop.keys.log("s"))  # who reads it says what is missing
    await shop.projector().project({0: await shop.deliver()})
    assert "can't be projected" in caplog.text
    assert "not folded" not in caplog.text


async def test_a_row_whose_key_is_freed_under_the_commit_is_not_passed_over(shop: Workshop) -> None:
    await shop.append("s", write("a"))
    await shop.redis.set(shop.keys.row("s"), "mine")
    batch = {0: await shop.deliver()}

    class Freed(Rows):
        """The key is freed between the read and the commit."""

        async def load(self, sessions: Iterable[str], *, new: Container[str] = ()) -> dict[str, Row]:
            found = await super().load(sessions, new=new)
            await shop.redis.delete(shop.keys.row("s"))
            return found

    projector = Projector(shop.wire, shop.keys, mounted_units(), Freed(shop.wire, shop.keys))
    assert (await projector.project(batch)).conflicts == batch
    assert (await projector.project(batch)).committed == 1
    await shop.assert_right("s")


# --- units and their versions


async def test_a_unit_a_row_lacks_is_folded_from_the_start_and_nothing_is_told_of_it(shop: Workshop, ear: Ear) -> None:
    await shop.project(TURN, write("a", status="in_progress"), by=shop.projector([todos]))
    assert (await shop.row())["units"] == "todos:2"
    await ear.heard()
    await shop.project(TALK)
    await shop.assert_right("s")
    assert await ear.heard() == []
    assert await shop.indexed("working") == {"s": 1_000_001}


async def test_a_lower_version_is_folded_again_and_only_a_changed_value_is_told(shop: Workshop, ear: Ear) -> None:
    await shop.project(TURN, write("a"), write("b"), by=shop.projector([board, TodosAt(1)]))
    await ear.heard()
    await shop.project(TALK)
    await shop.assert_right("s")
    assert await ear.heard() == []
    await shop.project(TALK, by=shop.projector([board, TodosAt(3, upper=True)]))
    (frame,) = await ear.heard()
    assert (frame["value"], frame["seq"], frame["stateVersion"]) == ([{"content": "B", "status": "pending"}], 2, 3)
    assert frame["time"] == int((await shop.log())[2][1]["time"])
    assert (await shop.row())["units"] == "board:1,todos:3"


async def test_an_identical_rewrite_is_told_even_when_it_comes_with_a_new_version(shop: Workshop, ear: Ear) -> None:
    await shop.project(write("a"), by=shop.projector([board, TodosAt(1)]))
    await ear.heard()
    await shop.project(write("a"))
    (frame,) = await ear.heard()
    assert frame["seq"] == 1


@pytest.mark.parametrize("units", [[board], [board, TodosAt(1)]], ids=["unknown unit", "newer version"])
@pytest.mark.parametrize("remembered", [True, False])
async def test_a_row_of_a_newer_worker_is_not_touched(shop: Workshop, units: list[Any], remembered: bool) -> None:
    older = shop.projector(units)
    if remembered:
        await shop.project(write("a"), by=older)
    await shop.project(write("b"))
    before = await shop.row()
    await shop.append("s", write("c"))
    batch = {0: await shop.deliver()}
    with pytest.raises(Outdated, match="todos"):
        await settle(older, batch)
    assert await shop.row() == before
    assert await shop.pending() == 1


async def test_a_view_that_can_not_be_written_down_marks_its_unit_alone(shop: Workshop, ear: Ear) -> None:
    tally = Tally()
    projector = shop.projector([board, tally, todos])
    await shop.project(write("a"), by=projector)
    tally.broken = True
    await shop.project(write("b"), by=projector)
    row = await shop.row()
    assert (row["tally"], json.loads(row["tally.stale"])["seq"]) == ("1", 1)
    assert json.loads(row["todos"]) == write("b")[1]["todos"]
    assert {frame["key"]: "stale" in frame for frame in await ear.heard()} == {"tally": True, "todos": False}


# --- poison


async def test_poison_is_marked_in_the_commit_that_meets_it_and_healed_by_the_next_good_write(
    shop: Workshop, ear: Ear
) -> None:
    await shop.project(write("a"), POISON)
    row, (frame,) = await shop.row(), await ear.heard()
    time = int((await shop.log())[1][1]["time"])
    assert row["pos"].endswith("-1")
    assert frame["value"] == write("a")[1]["todos"]
    assert frame["stale"] == {"seq": 1, "reason": frame["stale"]["reason"], "since": time}
    assert (frame["seq"], frame["time"]) == (1, time)
    assert json.loads(row["todos.stale"]) == frame["stale"]
    assert (await shop.marks())["s"]["todos"] == frame["stale"]
    await shop.project(TALK)
    assert await ear.heard() == []
    await shop.project(write("a"))
    (frame,) = await ear.heard()
    assert ("stale" in frame, frame["seq"]) == (False, 3)
    await shop.assert_right("s")
    assert await shop.marks() == {}
    assert not [name for name in await shop.row() if name.endswith(".stale")]


async def test_a_unit_that_does_not_heal_keeps_its_mark(shop: Workshop) -> None:
    tally = Tally()
    projector = shop.projector([tally, todos])
    tally.apply = lambda state, event: state + len(event.read(dict)["todos"][0]["content"])  # type: ignore[method-assign]
    await shop.project(("todo/write", {"todos": []}), write("abc"), by=projector)
    row = await shop.row()
    assert (row["tally"], json.loads(row["tally.stale"])["seq"]) == ("3", 0)
    assert list((await shop.marks())["s"]) == ["tally"]
