"""Rebuilding all sessions: cut short, twice at once, at its rate; and waiting for what was asked for."""

import asyncio
import json
from typing import Any

from repairs import MOUNTED, Yard, write
from todo_projection.awaited import Awaited
from todo_projection.census import Place
from todo_projection.look import Standing
from todo_projection.rebuild import Rebuild


def rebuilding(yard: Yard, *units: str) -> Rebuild:
    return Rebuild(yard.wire, yard.keys, units or list(MOUNTED), MOUNTED)


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
