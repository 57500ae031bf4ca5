"""The projector on a real server: rows are the fold of their logs, and readers hear exactly what they must."""

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from stepping import END, POISON, TALK, TURN, settle, write
from todo_projection.history import PAGE_BYTES, PAGE_EVENTS_FIRST, History
from todo_projection.projector import Projector
from todo_projection.rows import Rows
from todo_projection.span import Gap, spans_of
from todo_projection.unit import mounted_units
from todo_projection.wire import Wire
from todo_write.events import Position
from todo_write.log import SessionLog
from workshop import Ear, Workshop


@pytest.fixture
def shop(redis: Redis, namespace: str, wire: Wire) -> Workshop:
    return Workshop(redis, namespace, wire)


@pytest.fixture
async def ear(redis: Redis, shop: Workshop) -> AsyncIterator[Ear]:
    """Frames of session s."""
    async with Ear(redis, shop.keys, "s") as ear:
        yield ear


# --- the row is the fold of the log


@pytest.mark.parametrize("cached", [True, False], ids=["one worker", "a worker for each batch"])
async def test_every_split_of_a_log_into_batches_gives_the_same_row(shop: Workshop, cached: bool) -> None:
    events = [write("a", "b", status="in_progress"), TALK, POISON, TURN, write("c"), write("c"), TALK, END]
    sessions = [f"s{cuts}" for cuts in range(1 << (len(events) - 1))]
    for session in sessions:
        await shop.append(session, *events)
    pointers = {session: list(span.pointers) for session, span in spans_of(await shop.deliver()).items()}
    projector = shop.projector()
    for last in range(len(events)):  # each session whose split has a cut here gets its piece, all in one batch
        due = [s for s in sessions if last == len(events) - 1 or int(s[1:]) >> last & 1]
        batch = [pointers[session].pop(0) for session in due for _ in range(last + 1 - (8 - len(pointers[session])))]
        outcome = await (projector if cached else shop.projector()).project({0: batch})
        assert (outcome.committed, outcome.conflicts, outcome.rewound) == (len(batch), {}, [])
    await shop.assert_right(*sessions)


async def test_a_pointer_seen_again_changes_nothing(shop: Workshop, ear: Ear) -> None:
    await shop.pin()
    await shop.append("s", write("a"), write("b"))
    batch = await shop.deliver()
    projector = shop.projector()
    await projector.project({0: batch})
    before = await shop.row()
    assert len(await ear.heard()) == 1
    for by in (projector, shop.projector()):
        outcome = await by.project({0: [*batch, *batch]})
        assert (outcome.published, outcome.conflicts) == (0, {})
    assert await shop.row() == before
    assert await ear.heard() == []


async def test_pointers_that_come_late_are_acknowledged_and_the_row_stays_ahead(shop: Workshop) -> None:
    await shop.append("s", TURN, write("a"), write("b"))
    first, *rest = await shop.deliver()
    await shop.projector().project({0: rest})  # the gap before them is filled from the log
    await shop.assert_right("s")
    before = await shop.row()
    await shop.projector().project({0: [first]})
    assert await shop.row() == before
    assert await shop.pending() == 0


async def test_a_gap_between_row_and_pointer_is_filled_from_the_log_page_by_page(shop: Workshop) -> None:
    await shop.pin()
    for count in (1, PAGE_EVENTS_FIRST + 2, 1500):
        await shop.append("s", *(write(f"{count}/{n}") for n in range(count)), TALK)
        await shop.projector().project({0: (await shop.deliver())[-1:]})
        await shop.assert_right("s")


async def test_a_long_log_is_read_in_pages_of_bounded_size(shop: Workshop, wire: Wire) -> None:
    big = ("assistant/chunk", {"text": "x" * 100_000})
    for _ in range(4):
        await shop.append("s", *[big] * 50)
    (span,) = spans_of(await shop.deliver()).values()
    pages = [page async for page in History(wire, shop.keys).pages(span, -1)]
    assert [event.seq for page in pages for event in page] == list(range(200))
    assert all(sum(len(bytes(event.data)) for event in page) <= PAGE_BYTES for page in pages[1:])
    assert len(pages) > 3


async def test_of_types_nobody_handles_pages_bring_the_last_event_only_and_every_hole_is_seen(
    shop: Workshop, wire: Wire
) -> None:
    count = 2 * PAGE_EVENTS_FIRST
    await shop.append("s", write("a"), *[TALK] * (count - 2), write("b"), TALK)
    (span,) = spans_of(await shop.deliver()).values()

    async def seqs(after: int = -1) -> list[list[int]]:
        pages = History(wire, shop.keys).pages(span, after, {"todo/write"})
        return [[event.seq for event in page] async for page in pages]

    assert await seqs() == [[0, PAGE_EVENTS_FIRST - 1], [count - 1, count]]
    assert await seqs(after=3) == [[PAGE_EVENTS_FIRST + 3], [count - 1, count]]
    await shop.redis.xdel(shop.keys.log("s"), f"{span.last.epoch}-{PAGE_EVENTS_FIRST + 5}")
    with pytest.raises(Gap, match=f"event {PAGE_EVENTS_FIRST + 5} is missing"):
        await seqs()


async def test_two_workers_interleaved_on_one_session_end_right(shop: Workshop) -> None:
    await shop.pin()
    one, two = shop.projector(), shop.projector()
    await shop.project(write("a"), by=one)
    await shop.project(write("b"), by=two)
    await shop.append("s", write("c"))
    batch = {0: await shop.deliver()}
    outcome = await one.project(batch)  # remembers the row as it was after a
    assert (outcome.committed, outcome.conflicts) == (0, batch)
    assert (await one.project(outcome.conflicts)).committed == 1
    await shop.assert_right("s")


async def test_a_conflict_leaves_the_other_sessions_of_the_batch_alone(shop: Workshop) -> None:
    await shop.pin()
    one = shop.projector()
    await shop.project(write("a"), by=one)
    await shop.project(write("b"))
    await shop.append("s", write("c"))
    await shop.append("t", write("d"))
    batch = await shop.deliver()
    outcome = await one.project({0: batch})
    assert (outcome.committed, outcome.conflicts) == (1, {0: batch[:1]})
    await shop.assert_right("t")


async def test_a_row_deleted_under_a_worker_that_remembers_it_is_made_again(shop: Workshop) -> None:
    projector = shop.projector()
    await shop.project(write("a"), by=projector)
    await shop.redis.delete(shop.keys.row("s"))
    await settle(projector, (await shop.project(TALK, by=projector)).conflicts)
    await shop.assert_right("s")


async def test_events_no_unit_handles_are_never_read(shop: Workshop) -> None:
    projector = shop.projector()
    await shop.project(write("a"), by=projector)
    positions = await shop.append("s", *[TALK] * 50)
    await shop.redis.xdel(shop.keys.log("s"), *positions)
    outcome = await projector.project({0: await shop.deliver()})
    assert outcome.committed == 50
    assert (await shop.row())["pos"] == positions[-1]
    assert await shop.marks() == {}


# --- other histories


async def test_a_session_deleted_and_begun_again_starts_from_nothing(
    shop: Workshop, namespace: str, redis_url: str, ear: Ear
) -> None:
    projector = shop.projector()
    await shop.project(("session/title", {"title": "old"}), write("a", status="in_progress"), by=projector)
    (old,) = await ear.heard()
    await _delete(redis_url, namespace)
    (gone,) = await ear.heard()
    await settle(projector, (await shop.project(write("b"), by=projector)).conflicts)
    await shop.assert_right("s")
    assert json.loads((await shop.row())["board"])["title"] is None
    (new,) = await ear.heard()
    assert new["epoch"] > old["epoch"]
    assert [int(frame["rev"].partition("-")[0]) for frame in (old, gone, new)] == [1, 2, 3]
    assert await shop.redis.ttl(shop.keys.row("s")) == -1
    assert await shop.indexed("working") == {}


async def test_pointers_of_a_deleted_log_bring_nothing_back(shop: Workshop, namespace: str, redis_url: str) -> None:
    await shop.append("s", write("a"))
    batch = {0: await shop.deliver()}
    await _delete(redis_url, namespace)
    tombstone = await shop.row()
    projector = shop.projector()
    assert (await projector.project(batch)).committed == 1
    assert await shop.row() == tombstone
    assert await shop.redis.ttl(shop.keys.row("s")) > 0
    assert (await shop.pending(), await shop.indexed("recent")) == (0, {})


async def test_a_log_of_a_greater_epoch_starts_every_unit_anew(shop: Workshop, ear: Ear) -> None:
    projector = shop.projector()
    await shop.project(write("a", status="in_progress"), POISON, by=projector)
    await shop.redis.delete(shop.keys.log("s"))  # by hand: no tombstone
    await ear.heard()
    await shop.project(TALK, by=projector)
    await shop.assert_right("s")
    (frame,) = await ear.heard()
    assert (frame["value"], frame["seq"], "stale" in frame) == (None, 0, False)
    assert frame["time"] > 1_700_000_000_000  # no event caused it, so it is the feed's
    assert (await shop.indexed("working"), await shop.marks()) == ({}, {})


async def test_a_pointer_older_than_the_rows_epoch_is_only_acknowledged(shop: Workshop) -> None:
    await shop.append("s", write("a"))
    batch = {0: await shop.deliver()}
    await shop.redis.delete(shop.keys.log("s"))
    await shop.redis.hset(shop.keys.row("s"), "pos", "4000000000000-0")  # read by append only
    await shop.append("s", write("b"))
    await shop.redis.delete(shop.keys.row("s"))
    await shop.projector().project({0: await shop.deliver()})
    before = await shop.row()
    await shop.projector().project(batch)
    assert await shop.row() == before
    assert await shop.pending() == 0


async def test_a_batch_whose_highest_pointer_was_lost_is_rewound_whole(shop: Workshop) -> None:
    await shop.append("s", write("a"))
    await shop.append("t", write("b"))
    batch = await shop.deliver()
    projector = shop.projector()
    await shop.redis.xdel(shop.keys.feed(0), batch[1].id)
    outcome = await projector.project({0: batch})
    assert (outcome.committed, outcome.rewound, outcome.conflicts) == (0, [0], {})
    assert (await shop.row("s"), await shop.row("t")) == ({}, {})
    assert (await projector.project({0: batch[:1]})).committed == 1
    await shop.assert_right("s")


# --- what readers hear


async def test_the_first_frame_of_a_session_field_by_field(shop: Workshop, ear: Ear) -> None:
    await shop.project(TURN, write("build", status="in_progress"))
    position = Position.parse((await shop.log())[1][0])
    row, (frame,) = await shop.row(), await ear.heard()
    assert frame == {
        "type": "session/projection",
        "sessionId": "s",
        "key": "todos",
        "value": [{"content": "build", "status": "in_progress"}],
        "seq": 1,
        "epoch": position.epoch,
        "rev": row["rev"],
        "stateVersion": 2,
        "time": int((await shop.log())[1][1]["time"]),
    }
    assert list(frame) == ["type", "sessionId", "key", "value", "seq", "epoch", "rev", "stateVersion", "time"]
    assert row["rev"] == f"1-{row['etag'][:8]}"


async def test_a_row_made_without_a_plan_is_told_to_nobody(shop: Workshop, ear: Ear) -> None:
    await shop.project(TURN, TALK)
    assert await ear.heard() == []
    row = await shop.row()
    assert (row["todos"], row["units"], row["rev"]) == ("null", "board:1,todos:2", f"1-{row['etag'][:8]}")
    await shop.project(TURN)  # null to null
    assert await ear.heard() == []
    assert (await shop.row())["rev"] == row["rev"]


async def test_each_change_is_told_once_with_a_rev_that_rises_by_one(shop: Workshop, ear: Ear) -> None:
    projector = shop.projector()
    steps: list[tuple[list[tuple[str, Any]], list[Any]]] = [
        ([write("a")], [write("a")[1]["todos"]]),
        ([TALK], []),
        ([write("a")], [write("a")[1]["todos"]]),  # an identical rewrite
        ([write("b"), TALK, write("c"), END], [write("c")[1]["todos"]]),  # the newest of a batch
        ([("todo/write", {"todos": []})], [[]]),
        ([("todo/write", {"todos": []})], [[]]),
        ([TURN], [None]),
        ([TURN], []),
        ([write("d"), TURN], []),  # null to null, whatever was between
    ]
    seen: list[dict[str, Any]] = []
    for events, values in steps:
        await shop.project(*events, by=projector)
        frames: list[dict[str, Any]] = await ear.heard()
        assert [frame["value"] for frame in frames] == values
        seen += frames
    revs: list[str] = [frame["rev"].partition("-")[0] for frame in seen]
    assert revs == [str(n + 1) for n in range(len(seen))]
    times = {int(position.partition("-")[2]): int(fields["time"]) for position, fields in await shop.log()}
    assert all(times[frame["seq"]] == frame["time"] for frame in seen)


async def test_a_frame_that_is_refused_is_told_and_the_row_stands(
    shop: Workshop, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    rows = Rows(wire, shop.keys)
    projector = Projector(wire, shop.keys, mounted_units(), rows, publish="NOPUBLISH")  # as refused as one can be
    outcome = await shop.project(write("a"), by=projector)
    assert (outcome.committed, outcome.published) == (1, 0)
    await shop.assert_right("s")
    assert "frame was refused" in caplog.text


async def test_no_text_of_a_plan_gets_into_the_log(shop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await shop.project(write("secret"), ("todo/write", {"todos": [{"content": "secret", "status": "secret"}]}))
    _, position, _ = await shop.append("s", TALK, write("secret"), write("secret"))
    await shop.redis.xdel(shop.keys.log("s"), position)
    await shop.projector().project({0: await shop.deliver()})
    assert "not folded" in caplog.text
    await shop.project(write("a"), session="t")
    stored = '[{"content":"a","status":"secret"}]'
    await shop.redis.hset(shop.keys.row("t"), "board.state", stored)
    await shop.redis.hset(shop.keys.row("t"), "todos", stored)
    await shop.project(("session/title", {"title": "t"}), POISON, session="t")
    assert "folded again" in caplog.text
    assert "secret" not in caplog.text


# --- the indexes


async def test_the_indexes_follow_the_session(shop: Workshop) -> None:
    await shop.append("s", write("a", status="in_progress"))
    (pointer,) = await shop.deliver()
    await shop.projector().project({0: [pointer]})
    assert await shop.indexed("recent") == {"s": pointer.time_ms}
    assert await shop.indexed("working") == {"s": 1_000_000}
    await shop.append("s", TALK)
    (later,) = await shop.deliver()
    await shop.projector().project({0: [later]})
    assert await shop.indexed("recent") == {"s": later.time_ms}
    assert await shop.indexed("working") == {"s": 1_000_000}
    await shop.project(write("a", status="completed"))
    assert await shop.indexed("working") == {}


async def test_a_new_row_wipes_what_the_indexes_say_of_a_vanished_one(shop: Workshop) -> None:
    await shop.redis.zadd(shop.keys.working(0), {"s": 5})
    await shop.redis.hset(shop.keys.stale(0), "s", "WRONGTYPE")
    await shop.project(TALK)
    assert (await shop.indexed("working"), await shop.marks()) == ({}, {})


async def _delete(redis_url: str, namespace: str) -> None:
    from todo_write.log import connect  # noqa: PLC0415  tests of the projector alone run without it

    async with connect(redis_url, namespace=namespace, partitions=1) as client:
        assert await SessionLog(client, "s").delete()
