"""Retention: idle sessions go whole, logs are trimmed only to what every unit still needs, and nobody is surprised."""

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from repairs import MOUNTED, POISON, TALK, TURN, Tally, Yard, write
from todo_projection.board import board
from todo_projection.rebuild import Rebuild
from todo_projection.retention import Cut, Idle, Retention
from todo_projection.wire import Script
from todo_write.unit import todos
from workshop import Ear


def retaining(yard: Yard, units: Any = (board, todos)) -> Retention:
    return Retention(yard.wire, yard.keys, units)


async def cut(yard: Yard, keep: int, units: Any = (board, todos)) -> Cut:
    return await retaining(yard, units).cut(await yard.look(), keep)


async def trim(yard: Yard, keep: int) -> list[int]:
    """Trim, and see that the row and what verification says are as before; the seqs that are left."""
    before = await yard.row()
    found = await cut(yard, keep)
    assert found.why == ""
    assert await retaining(yard).trim(found) == found.removed
    after = await yard.row()
    assert after["etag"] != before["etag"] or found.first is None
    assert {**after, "etag": ""} == {**before, "etag": ""} | ({"partial": "1"} if found.first else {})
    assert (await yard.verify()).sound
    return [int(id.partition("-")[2]) for id, _ in await yard.log()]


# --- trimming


async def test_the_last_events_stay_and_with_them_what_units_remember_of_earlier_ones(yard: Yard) -> None:
    names = [("session/start", {"label": "l", "parentSession": "p"}), TALK, ("session/title", {"title": "t"})]
    await yard.project(*names, TALK, write("a"), TALK, TURN, write("b", status="in_progress"), TALK)
    assert await trim(yard, 3) == [0, 2, 6, 7, 8]


async def test_more_stays_than_asked_where_a_unit_needs_it(yard: Yard) -> None:
    await yard.project(TURN, write("a", status="in_progress"), *[TALK] * 20)
    assert await trim(yard, 1) == list(range(22))  # the turn and its write are what the board is made of
    await yard.project(*[TALK] * 20, TURN, write("b"), *[TALK] * 3)
    assert await trim(yard, 1) == list(range(39, 47))  # twice as many each time


async def test_an_item_in_progress_keeps_the_write_that_began_it(yard: Yard) -> None:
    await yard.project(TURN, write("a", status="in_progress"), write("a", "b", status="in_progress"), TALK, TALK)
    left = await trim(yard, 2)
    assert {0, 1, 2} <= set(left)


async def test_what_is_trimmed_goes_on_and_can_be_folded_again(yard: Yard, redis: Redis) -> None:
    await yard.project(TALK, write("a"), TALK, TURN, write("b"), TALK)
    etag = (await yard.row())["etag"]
    await trim(yard, 3)
    trimmed = (await yard.row())["etag"]
    assert (trimmed[:8] != etag[:8], trimmed[8:]) == (True, etag[8:])  # it still tells the op of its last event
    await yard.project(write("c"), TURN, write("d"))
    before = {**await yard.row(), "etag": ""}
    async with Ear(redis, yard.keys, "s") as ear:
        asked = await Rebuild(yard.wire, yard.keys, list(MOUNTED), MOUNTED).ask(["s"])
        assert [look.partial for look in asked.looks] == [True]
        await yard.work()
        assert await ear.heard() == []
    assert {**await yard.row(), "etag": ""} == before
    assert (await yard.verify()).sound


async def test_trimming_again_takes_what_is_old_by_then(yard: Yard) -> None:
    await yard.project(TALK, TURN, write("b"))
    assert await trim(yard, 2) == [1, 2]
    await yard.project(TALK, TURN, write("c"))
    assert await trim(yard, 2) == [4, 5]


@pytest.mark.parametrize("keep", [1, 2, 1000])
async def test_the_last_event_always_stays(yard: Yard, keep: int) -> None:
    await yard.project(TALK, TURN)
    left = await trim(yard, keep)
    assert 1 in left
    await yard.project(write("next"))
    assert (await yard.verify()).sound


async def test_the_script_leaves_the_last_event_whatever_it_is_told(yard: Yard) -> None:
    await yard.project(TALK, TURN)
    row = await yard.row()
    epoch = row["pos"].partition("-")[0]
    names = [yard.keys.log("s"), yard.keys.row("s")]
    arguments = [row["etag"], "new", f"{epoch}-9", "5000"]
    (reply,) = await Script("trim").call_all(yard.wire, [(names, arguments)])
    assert reply == [b"done", 1]
    assert [id for id, _ in await yard.log()] == [f"{epoch}-1"]


async def test_a_unit_that_needs_every_event_keeps_them(yard: Yard) -> None:
    units = (board, Tally(), todos)
    await yard.project(TURN, write("a"), TURN, write("b"), by=yard.projector(units))
    found = await cut(yard, 1, units)
    assert (found.why, found.first) == ("", None)


async def test_a_mark_that_stands_keeps_what_it_tells_of(yard: Yard) -> None:
    await yard.project(TURN, write("a"), POISON, TALK, TALK, TALK)
    assert 2 in await trim(yard, 1)


async def test_a_row_that_is_behind_foreign_or_of_other_units_is_left_alone(yard: Yard) -> None:
    await yard.project(TALK, TURN, TALK, by=yard.projector([todos]))
    assert "folded anew" in (await cut(yard, 1)).why
    await yard.append("s", TALK)
    assert "behind" in (await cut(yard, 1)).why
    await yard.work()
    await yard.redis.xdel(yard.keys.log("s"), (await yard.log())[1][0])
    assert "foreign" in (await cut(yard, 1)).why


async def test_a_session_that_changed_since_it_was_looked_at_is_not_trimmed(yard: Yard) -> None:
    await yard.project(TALK, TURN, write("a"))
    found = await cut(yard, 2)
    await yard.project(TALK)
    assert await retaining(yard).trim(found) is None
    assert len(await yard.log()) == 4
    assert "partial" not in await yard.row()


async def test_a_trim_in_many_calls_goes_on_beside_live_events(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("todo_projection.retention.ENTRIES_PER_CALL", 500)
    await yard.project(*[TALK] * 1800, TURN, write("a"))
    found = await cut(yard, 2)

    async def append() -> None:
        for _ in range(5):
            await yard.append("s", TALK)
            await yard.work()

    removed, _ = await asyncio.gather(retaining(yard).trim(found), append())
    assert removed == 1800
    assert (await yard.verify()).sound
    assert len(await yard.log()) == 7


async def test_a_worker_that_remembers_the_row_sees_that_it_changed(yard: Yard) -> None:
    by = yard.projector()
    await yard.project(TALK, TURN, write("a"), by=by)
    await retaining(yard).trim(await cut(yard, 2))
    await yard.append("s", write("b"))
    await yard.work(by)
    row = await yard.row()
    assert (row["partial"], row["todos"]) == ("1", '[{"content":"b","status":"pending"}]')


# --- dropping


async def idle(yard: Yard, ms: int) -> list[Idle]:
    return [one async for page in retaining(yard).idle(ms) for one in page]


async def aged(yard: Yard, session: str, ms: int) -> None:
    """Project an event of that long ago."""
    await yard.project(write("a"), session=session)
    await yard.redis.zincrby(yard.keys.recent(0), -ms, session)


async def test_only_sessions_without_an_event_for_so_long_are_idle(yard: Yard) -> None:
    await aged(yard, "old", 100_000)
    await aged(yard, "new", 1_000)
    assert [one.session for one in await idle(yard, 50_000)] == ["old"]


async def test_all_of_them_are_found_also_where_many_fell_silent_at_once(yard: Yard) -> None:
    for number in range(450):
        await yard.append(f"s{number}", TALK)
    await yard.work()
    await yard.redis.zadd(yard.keys.recent(0), {f"s{number}": 5 for number in range(450)})
    assert {one.session for one in await idle(yard, 1000)} == {f"s{number}" for number in range(450)}


async def test_dropped_they_are_gone_and_viewers_are_told(yard: Yard, redis: Redis) -> None:
    await aged(yard, "s", 100_000)
    async with Ear(redis, yard.keys, "s") as ear:
        assert await retaining(yard).drop(await idle(yard, 50_000), "PUBLISH") == [True]
        (frame,) = await ear.heard()
    assert frame["type"] == "session/deleted"
    assert await yard.redis.exists(yard.keys.log("s")) == 0
    assert await yard.indexed("recent") == {}


async def test_a_session_that_woke_up_since_stays(yard: Yard) -> None:
    await aged(yard, "s", 100_000)
    found = await idle(yard, 50_000)
    await yard.append("s", write("b"))
    assert await retaining(yard).drop(found, "PUBLISH") == [False]
    await yard.work()
    await yard.assert_right("s")


async def test_one_whose_last_event_is_not_projected_is_not_idle(yard: Yard) -> None:
    await aged(yard, "s", 100_000)
    await yard.append("s", write("b"))
    (found,) = await idle(yard, 50_000)
    assert "behind" in found.why
