"""Rebuilding: rows folded again from the start of their logs; beside live events, cut short, twice, without noise."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from repairs import MOUNTED, POISON, TALK, TURN, Interrupted, Tally, Yard, write
from todo_projection.awaited import Awaited
from todo_projection.board import board
from todo_projection.census import Place
from todo_projection.look import Standing
from todo_projection.rebuild import Rebuild
from todo_projection.wire import Script, Wire
from todo_write.events import Position
from todo_write.unit import TodosUnit, todos
from workshop import Ear


@pytest.fixture
async def wire(redis_url: str) -> AsyncIterator[Wire]:
    wire = Wire(redis_url)
    yield wire
    await wire.aclose()


@pytest.fixture
def yard(redis: Redis, namespace: str, wire: Wire) -> Yard:
    return Yard(redis, namespace, wire)


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
    broken = [board, Tally(mended=False), todos]
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
    units = [board, Tally(), todos]
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


# --- all sessions


async def gone_through(rebuild: Rebuild, place: Place, pages: int | None = None) -> list[str]:
    """Whom a rebuild asks for, cut after so many pages."""
    found: list[str] = []
    async for _, asked in rebuild.all(place, rate_s=100_000):
        found += [look.session for look in asked.looks]
        pages = None if pages is None else pages - 1
        if pages == 0:
            break
    return found


async def many(yard: Yard, count: int = 1500) -> set[str]:
    sessions = {f"s{number}" for number in range(count)}
    for session in sessions:
        await yard.append(session, write("a"))
    await yard.work()
    return sessions


async def test_all_means_every_session_with_a_log_whatever_the_indexes_know(yard: Yard) -> None:
    sessions = await many(yard, 150)
    await yard.redis.delete(yard.keys.recent(0))
    rebuild = rebuilding(yard)
    assert set(await gone_through(rebuild, await rebuild.place())) == sessions
    await yard.work()
    assert set(await yard.indexed("recent")) == sessions
    await yard.assert_right("s0", "s149")


async def test_cut_short_it_goes_on_where_it_was(yard: Yard) -> None:
    sessions = await many(yard)
    cut = rebuilding(yard)
    first = await gone_through(cut, await cut.place(), pages=12)
    again = rebuilding(yard)
    place = await again.place()
    assert place.count
    rest = await gone_through(again, place)
    assert set(first) | set(rest) == sessions
    assert len(rest) < len(sessions)
    assert (await rebuilding(yard).place()).count == 0


async def test_what_was_cut_before_another_server_came_begins_anew(yard: Yard) -> None:
    await many(yard)
    cut = rebuilding(yard)
    await gone_through(cut, await cut.place(), pages=12)
    name = "rebuild:" + ",".join(sorted(MOUNTED))
    place: dict[str, Any] = json.loads(await yard.redis.hget(yard.keys.meta, name))
    await yard.redis.hset(yard.keys.meta, name, json.dumps({**place, "run": "another"}))
    assert (await rebuilding(yard).place()).cursor == "0"
    assert (await cut.place(restart=True)).cursor == "0"


async def test_of_two_at_once_each_asks_for_all_and_neither_leaves_anything_behind(yard: Yard) -> None:
    sessions = await many(yard, 600)
    one, two = rebuilding(yard), rebuilding(yard)
    places = await one.place(), await two.place()
    found = await asyncio.gather(gone_through(one, places[0]), gone_through(two, places[1]))
    assert [set(each) for each in found] == [sessions, sessions]
    await yard.work()
    assert {(await yard.look(session)).standing for session in ("s0", "s599")} == {Standing.EVEN}
    assert await yard.redis.hkeys(yard.keys.meta) == []


async def test_its_rate_is_kept(yard: Yard) -> None:
    await many(yard, 120)
    clock = asyncio.get_running_loop().time
    started = clock()
    rebuild = rebuilding(yard)
    async for _ in rebuild.all(await rebuild.place(), rate_s=200):
        pass
    assert clock() - started >= 120 / 200


# --- waiting for it


async def test_it_is_awaited_until_all_is_folded(yard: Yard) -> None:
    await yard.project(write("a"))
    asked = await rebuilding(yard).ask(["s"])
    awaited = Awaited(yard.wire, yard.keys)
    awaited.add(asked.looks, list(MOUNTED))
    await awaited.look()
    assert len(awaited) == 1
    await yard.work()
    await awaited.look()
    assert (len(awaited), awaited.done) == (0, 1)


async def test_without_a_worker_nobody_waits_for_ever(yard: Yard) -> None:
    await yard.project(write("a"))
    asked = await rebuilding(yard).ask(["s"])
    awaited = Awaited(yard.wire, yard.keys)
    awaited.add(asked.looks, list(MOUNTED))
    assert not await asyncio.wait_for(awaited.wait(beat_ms=100, told=lambda: None), 5)
    await yard.work()
    await yard.assert_right("s")  # the wish stood in the row all the while


async def test_a_session_deleted_meanwhile_is_not_waited_for(yard: Yard) -> None:
    await yard.project(write("a"))
    asked = await rebuilding(yard).ask(["s"])
    awaited = Awaited(yard.wire, yard.keys)
    awaited.add(asked.looks, list(MOUNTED))
    await yard.redis.delete(yard.keys.row("s"), yard.keys.log("s"))
    await awaited.look()
    assert len(awaited) == 0


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
    for _ in range(40):
        await yard.append("long", *[("assistant/chunk", {"text": text})] * 9, write(text[:50_000]))
    await yard.append("short", write("a"))
    await yard.work()
    arguments = (str(Path(__file__).with_name("refold_process.py")), redis_url, namespace, "short", "long")
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    assert process.returncode == 0
    assert int(told) < 24 * 1024, "of a log of 38 MB no more than a page or two is held"
    await yard.assert_right("long")
