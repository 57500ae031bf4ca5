"""Rebuilding: rows folded again from the start of their logs; beside live events, twice, without noise."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from repairs import MOUNTED, POISON, TALK, TURN, Interrupted, Tally, Yard, write
from todo_projection.board import board
from todo_projection.rebuild import Rebuild
from todo_projection.unit import Unit
from todo_projection.wire import Script
from todo_write.events import Position
from todo_write.unit import TodosUnit, todos
from workshop import Ear

LOG_MB = int(os.environ.get("TODO_SIZE_LOG_MB", "40"))


def rebuilding(yard: Yard, *units: str) -> Rebuild:
    return Rebuild(yard.wire, yard.keys, units or list(MOUNTED), MOUNTED)


async def rebuild(yard: Yard, *sessions: str) -> None:
    """Rebuild these with workers that are there."""
    asked = await rebuilding(yard).ask(sessions)
    assert ([look.session for look in asked.looks], asked.refused) == (list(sessions), {})
    await yard.work()


# --- one session


async def test_a_rebuild_twice_gives_identical_bytes_and_publishes_nothing(yard: Yard, redis: Redis) -> None:
    await yard.project(("session/title", {"title": "t"}), write("a", "b", status="in_progress"), TALK, POISON)
    before = {**await yard.row(), "etag": ""}
    async with Ear(redis, yard.keys, "s") as ear:
        for _ in range(2):
            await rebuild(yard, "s")
            assert {**await yard.row(), "etag": ""} == before
        assert await ear.heard() == []


async def test_a_changed_value_is_published_once_and_nothing_historical(yard: Yard, redis: Redis) -> None:
    await yard.project(*[write(str(number)) for number in range(9)])
    await yard.redis.hset(yard.keys.row("s"), "todos", "[]")
    async with Ear(redis, yard.keys, "s") as ear:
        await rebuild(yard, "s")
        (frame,) = await ear.heard()
    assert frame["value"] == [{"content": "8", "status": "pending"}]


async def test_poison_under_a_unit_that_does_not_heal_is_folded_when_its_code_is_mended(yard: Yard) -> None:
    broken: list[Unit] = [board, Tally(mended=False), todos]
    events = [
        write("1"),
        write("2"),
        write("3"),
        write("4"),
        write("5", "poison"),
        *[write(str(n)) for n in range(6, 10)],
    ]
    await yard.project(*events, by=yard.projector(broken))
    row = await yard.row()
    assert (row["tally"], json.loads(row["tally.stale"])["seq"]) == ("8", 4)
    mended = {**MOUNTED, "tally": 1}
    asked = await Rebuild(yard.wire, yard.keys, ["tally"], mended).ask(["s"])
    assert asked.refused == {}
    await yard.work(yard.projector([board, Tally(), todos]))
    row = await yard.row()
    assert (row["tally"], "tally.stale" in row) == ("9", False)
    assert await yard.marks() == {}
    assert row["pos"].endswith("-8")


async def test_one_unit_is_folded_and_the_others_are_left_alone(yard: Yard) -> None:
    await yard.project(("session/title", {"title": "t"}), write("a"))
    await yard.redis.hset(yard.keys.row("s"), mapping={"todos": "[]", "board": '{"title":"kept"}'})
    asked = await rebuilding(yard, "todos").ask(["s"])
    assert len(asked.looks) == 1
    await yard.work()
    row = await yard.row()
    assert row["todos"] == '[{"content":"a","status":"pending"}]'
    assert row["board"] == '{"title":"kept"}'


@pytest.mark.parametrize("late", [True, False])
async def test_beside_live_events_the_position_only_rises(yard: Yard, *, late: bool) -> None:
    await yard.project(*[write(str(number)) for number in range(100)])
    positions = [Position.parse((await yard.row())["pos"])]
    for number in range(5):
        if late:
            await yard.append("s", write(f"live {number}"))
        await rebuilding(yard).ask(["s"])
        if not late:
            await yard.append("s", write(f"live {number}"))
        positions.append(Position.parse((await yard.row())["pos"]))
        await yard.work()
        positions.append(Position.parse((await yard.row())["pos"]))
    assert positions == sorted(positions)
    await yard.assert_right("s")


async def test_a_refold_that_meets_a_conflict_goes_on_from_where_the_row_is(yard: Yard) -> None:
    await yard.project(write("a"))
    await rebuilding(yard).ask(["s"])
    batch = await yard.deliver()
    await yard.project(write("b"))  # another worker was faster, and folded it anew
    outcome = await yard.projector().project({0: batch})
    assert outcome.conflicts == {}
    await yard.assert_right("s")


async def test_rebuilding_while_somebody_appends_ends_right(yard: Yard) -> None:
    await yard.project(*[write(str(number)) for number in range(300)])

    async def append() -> None:
        for number in range(40):
            await yard.append("s", write(f"live {number}"))

    async def ask() -> None:
        for _ in range(20):
            await rebuilding(yard).ask(["s"])
            await yard.work()

    await asyncio.gather(append(), ask())
    await yard.work()
    await yard.assert_right("s")


async def test_a_row_that_changes_just_then_is_asked_for_again(yard: Yard, redis_url: str) -> None:
    async def change() -> None:
        await yard.project(write("b"))

    await yard.project(write("a"))
    await yard.redis.hset(yard.keys.row("s"), "board", "{}")
    wire = Interrupted(redis_url, Script("repoint").sha, change)
    asked = await Rebuild(wire, yard.keys, list(MOUNTED), MOUNTED).ask(["s"])
    await wire.aclose()
    assert asked.refused == {}
    await yard.work()
    await yard.assert_right("s")


async def test_a_session_that_was_never_projected_is_pointed_at(yard: Yard) -> None:
    await yard.append("s", write("a"))
    await yard.redis.delete(yard.keys.feed(0))
    await rebuild(yard, "s")
    await yard.assert_right("s")


async def test_a_row_ahead_of_its_log_is_folded_whole_whatever_unit_was_asked_for(yard: Yard) -> None:
    await yard.project(write("a"), ("session/title", {"title": "lost"}))
    await yard.redis.xdel(yard.keys.log("s"), (await yard.log())[-1][0])
    await rebuilding(yard, "todos").ask(["s"])
    await yard.work()
    await yard.assert_right("s")


@pytest.mark.parametrize("fault", ["no log", "no session", "row of another type"])
async def test_what_can_not_be_rebuilt_is_refused_with_the_reason(yard: Yard, fault: str) -> None:
    if fault != "no session":
        await yard.project(write("a"))
    if fault == "no log":
        await yard.redis.delete(yard.keys.log("s"))
    if fault == "row of another type":
        await yard.redis.set(yard.keys.row("s"), "x")
    asked = await rebuilding(yard).ask(["s"])
    assert asked.looks == []
    assert {"no log": "--remove-orphans", "no session": "no log", "row of another type": "rename"}[
        fault
    ] in asked.refused["s"]


# --- logs with holes


async def test_a_trimmed_log_is_refused_and_its_row_goes_on(yard: Yard) -> None:
    await yard.project(write("a"), write("b"))
    await yard.redis.xtrim(yard.keys.log("s"), minid=(await yard.log())[1][0], approximate=False)
    before = await yard.row()
    asked = await rebuilding(yard).ask(["s"])
    assert "can't be folded from the start" in asked.refused["s"]
    assert await yard.row() == before
    await yard.project(write("c"))
    assert (await yard.row())["todos"] == '[{"content":"c","status":"pending"}]'


async def test_adopted_it_is_folded_as_it_stands_and_says_what_is_missing_until_that_heals(yard: Yard) -> None:
    units: list[Unit] = [board, Tally(), todos]
    await yard.project(write("a"), TALK, write("b"), by=yard.projector(units))
    await yard.redis.xtrim(yard.keys.log("s"), minid=(await yard.log())[1][0], approximate=False)
    rebuild = Rebuild(yard.wire, yard.keys, ["todos"], {**MOUNTED, "tally": 1})
    assert (await rebuild.ask(["s"], partial=True)).refused == {}
    await yard.work(yard.projector(units))
    row = await yard.row()
    assert (row["todos"], "todos.stale" in row) == ('[{"content":"b","status":"pending"}]', False)
    assert row["tally"] == "1"
    assert "missing from the log" in row["tally.stale"]
    assert (await yard.verify(units=units)).sound


async def test_an_adopted_log_goes_on_and_is_rebuilt_whole_with_one_unit_as_with_all(yard: Yard) -> None:
    await yard.project(TURN, write("a"), write("b"))
    await yard.redis.xdel(yard.keys.log("s"), (await yard.log())[1][0])
    await rebuilding(yard).ask(["s"], partial=True)
    await yard.work()
    await yard.project(TALK, write("c"))
    before = await yard.row()
    await rebuilding(yard, "todos").ask(["s"])
    await yard.work()
    assert {**await yard.row(), "etag": ""} == {**before, "etag": ""}
    assert "board.stale" not in before


async def test_a_log_that_began_anew_is_adopted_no_longer(yard: Yard) -> None:
    await yard.project(TURN, write("a"))
    await yard.redis.xdel(yard.keys.log("s"), (await yard.log())[0][0])
    await rebuilding(yard).ask(["s"], partial=True)
    await yard.work()
    await yard.redis.delete(yard.keys.log("s"))
    await yard.project(write("c"))
    await yard.assert_right("s")
    assert "partial" not in await yard.row()


# --- versions


class Todos(TodosUnit):
    """The todos unit in another version."""

    def __init__(self, state_version: int) -> None:
        self.state_version = state_version


async def test_a_version_that_rises_tells_viewers_of_what_changes_at_most_once(yard: Yard, redis: Redis) -> None:
    class Upper(Todos):
        def apply(self, state: Any, event: Any) -> Any:
            after = super().apply(state, event)
            return after[:1] if after else after

    await yard.project(*[write("a", str(number)) for number in range(5)])
    await yard.project(write("only"), session="t")
    async with Ear(redis, yard.keys, "s", "t") as ear:
        newer = yard.projector([board, Upper(3)])
        for session in ("s", "t"):
            await yard.project(TALK, session=session, by=newer)
        heard = await ear.heard()
    assert [(frame["sessionId"], frame["value"]) for frame in heard] == [("s", [{"content": "a", "status": "pending"}])]


async def test_rows_of_before_a_unit_was_mounted_get_it_with_a_rebuild(yard: Yard) -> None:
    await yard.project(write("a"), write("b"), by=yard.projector([todos]))
    assert "board" not in await yard.row()
    await rebuild(yard, "s")
    await yard.assert_right("s")


# --- size


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read the way Linux tells it")
async def test_a_long_log_is_folded_again_in_bounded_memory(yard: Yard, redis_url: str, namespace: str) -> None:
    text = "x" * 100_000
    for _ in range(LOG_MB):
        await yard.append("long", *[("assistant/chunk", {"text": text})] * 9, write(text[:50_000]))
    await yard.append("short", write("a"))
    await yard.work()
    arguments = (str(Path(__file__).with_name("refold_process.py")), redis_url, namespace, "short", "long")
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    assert process.returncode == 0
    assert int(told) < 24 * 1024, f"of a log of {LOG_MB} MB no more than a page or two is held"
    await yard.assert_right("long")
