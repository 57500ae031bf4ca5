"""Sessions whose first event is new: their rows are made without a look at row or log, and come out the same."""

from collections.abc import Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from overheard import Overheard
from stepping import TALK, TURN, Tally, write
from todo_projection.projector import Outcome, Projector
from todo_projection.rows import Rows
from todo_projection.unit import Unit, mounted_units
from workshop import Ear, Workshop

pytestmark = pytest.mark.every_server


@pytest.fixture
def shop(redis: Redis, namespace: str, overheard: Overheard) -> Workshop:
    return Workshop(redis, namespace, overheard)


async def project(shop: Workshop, *, units: Sequence[Unit] = (), unseen: bool = True) -> Outcome:
    projector = Projector(shop.wire, shop.keys, units or mounted_units(), Rows(shop.wire, shop.keys))
    return await projector.project({0: await shop.deliver()}, unseen=unseen)


async def test_neither_row_nor_log_is_read_of_a_session_that_only_talks(shop: Workshop, overheard: Overheard) -> None:
    await shop.append("s", TALK, TALK)
    batch = await shop.deliver()
    overheard.sent.clear()
    await shop.projector().project({0: batch}, unseen=True)
    assert set(overheard.names) <= {"EVALSHA", "EVAL"}
    await shop.assert_right("s")


@pytest.mark.parametrize("events", [[TALK], [TALK, write("a", status="in_progress")], [write("a"), TURN, TALK]])
async def test_the_row_and_its_indexes_are_those_of_a_session_that_was_looked_at(
    shop: Workshop, events: list[Any]
) -> None:
    for session in ("seen", "unseen"):
        await shop.redis.zadd(shop.keys.working(0), {session: 5})  # left over from a row that was lost
        await shop.redis.hset(shop.keys.stale(0), session, "{}")
        await shop.append(session, *events)
        assert (await project(shop, unseen=session == "unseen")).conflicts == {}
    seen, unseen = await shop.row("seen"), await shop.row("unseen")
    own = ("etag", "rev", "pos", "todos.at", "board.at", "board", "todos")
    assert seen.keys() == unseen.keys()
    assert {name: raw for name, raw in seen.items() if name not in own} == {
        name: raw for name, raw in unseen.items() if name not in own
    }
    assert (seen["rev"][:2], unseen["rev"][:2]) == ("1-", "1-")
    await shop.assert_right("seen", "unseen")
    assert (await shop.indexed("recent")).keys() == {"seen", "unseen"}
    assert len(await shop.indexed("working")) in (0, 2)
    assert 5 not in (await shop.indexed("working")).values()
    assert await shop.marks() == {}


async def test_a_session_that_was_deleted_is_looked_at_after_all(shop: Workshop) -> None:
    await shop.project(write("a"))
    (place,) = [position for position, _ in await shop.log()]
    await shop.redis.delete(shop.keys.log("s"), shop.keys.row("s"))
    tombstone = {"etag": "grave", "pos": place, "rev": "7-grave"}
    await shop.redis.hset(shop.keys.row("s"), mapping=tombstone)
    await shop.append("s", TALK)
    batch = {0: await shop.deliver()}
    projector = shop.projector()
    assert (await projector.project(batch, unseen=True)).conflicts == batch
    assert await shop.row() == tombstone
    assert (await projector.project(batch)).committed == 1
    await shop.assert_right("s")
    assert (await shop.row())["rev"].startswith("8-")


async def test_a_row_without_an_etag_is_not_taken_for_a_missing_one(shop: Workshop) -> None:
    await shop.redis.hset(shop.keys.row("s"), "what", "ever")
    await shop.append("s", TALK)
    batch = {0: await shop.deliver()}
    assert (await shop.projector().project(batch, unseen=True)).conflicts == batch


async def test_a_first_value_that_is_no_null_is_told(shop: Workshop, redis: Redis) -> None:
    async with Ear(redis, shop.keys, "s") as ear:
        await shop.append("s", TALK)
        await project(shop, units=[Tally()])
        (frame,) = await ear.heard()
    assert (frame["key"], frame["value"], frame["seq"]) == ("tally", 0, 0)
    assert (await shop.row())["rev"] == frame["rev"]
