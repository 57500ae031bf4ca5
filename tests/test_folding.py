"""What a step reads of a log: the last events where they tell all, the rest where they do not."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from overheard import Overheard
from stepping import POISON, TALK, TURN, Tally, write
from todo_projection.history import HELD_MAX
from todo_projection.unit import Unit, mounted_units
from todo_write.events import Event
from todo_write.unit import TodosUnit
from workshop import Workshop

WRITES = 40


@pytest.fixture
def shop(redis: Redis, namespace: str, overheard: Overheard) -> Workshop:
    return Workshop(redis, namespace, overheard)


def going(*items: str) -> tuple[str, Any]:
    return write(*items, status="in_progress")


async def ranges(shop: Workshop, overheard: Overheard, *events: tuple[str, Any], units: tuple[Unit, ...] = ()) -> int:
    """How many ranges of its log are read for these events in one step, each of them apart from the others."""
    await shop.append("s", TURN)
    by = shop.projector(units or None)
    await by.project({0: await shop.deliver()})
    await shop.append("s", *(one for event in events for one in (TALK, event)))
    batch = await shop.deliver()
    overheard.sent.clear()
    outcome = await by.project({0: batch})
    assert outcome.committed == len(batch)
    return overheard.names.count("XRANGE")


async def test_of_many_writes_the_last_two_are_read(shop: Workshop, overheard: Overheard) -> None:
    assert await ranges(shop, overheard, *(going(f"item {n}") for n in range(WRITES))) == 2
    await shop.assert_right("s")


async def test_all_are_read_where_the_last_do_not_tell_since_when_an_item_is_in_progress(
    shop: Workshop, overheard: Overheard
) -> None:
    assert (
        await ranges(shop, overheard, write("a"), *[going("a", f"b {n}") for n in range(WRITES)][::-1])
        == 2 + WRITES + 1
    )
    await shop.assert_right("s")
    first = (await shop.log())[4]  # the second write
    assert json.loads((await shop.row())["board"])["since"] == int(first[1]["time"])


async def test_all_are_read_where_the_last_are_poison(shop: Workshop, overheard: Overheard) -> None:
    assert await ranges(shop, overheard, *[going("a"), going("b"), POISON, POISON]) == 2 + 4
    await shop.assert_right("s")
    assert json.loads((await shop.row())["todos.stale"])["seq"] == 8


async def test_poison_before_a_sound_write_leaves_no_mark(shop: Workshop, overheard: Overheard) -> None:
    assert await ranges(shop, overheard, POISON, *(going(f"item {n}") for n in range(WRITES))) == 2
    await shop.assert_right("s")
    assert "todos.stale" not in await shop.row()


async def test_what_a_unit_does_not_spare_is_read_whole(shop: Workshop, overheard: Overheard) -> None:
    writes = [going(f"item {n}") for n in range(WRITES)]
    assert await ranges(shop, overheard, *writes, units=(*mounted_units(), Tally())) == WRITES
    assert (await shop.row())["tally"] == str(WRITES)


class Confused(TodosUnit):
    key = "confused"

    def needed(self, events: Sequence[Event]) -> Sequence[Event] | None:
        raise LookupError("secret")


async def test_a_unit_that_fails_to_tell_is_shown_all(
    shop: Workshop, overheard: Overheard, caplog: pytest.LogCaptureFixture
) -> None:
    writes = [going(f"item {n}") for n in range(WRITES)]
    assert await ranges(shop, overheard, *writes, units=(*mounted_units(), Confused())) == 2 + WRITES
    row = await shop.row()
    assert row["confused"] == row["todos"]
    assert "unit confused can't tell which events it needs (LookupError)" in caplog.text
    assert "secret" not in caplog.text


async def test_more_than_can_be_held_are_read_page_by_page(shop: Workshop, overheard: Overheard) -> None:
    count = HELD_MAX + 1
    reads = await ranges(shop, overheard, *[going("a", f"b {n}") for n in range(count)])
    assert reads < 10
    await shop.assert_right("s")


async def test_each_of_many_sessions_gets_its_own(shop: Workshop, overheard: Overheard) -> None:
    logs = {
        "short": [going("a")],
        "spared": [going(f"item {n}") for n in range(5)],
        "whole": [going("a", f"b {n}") for n in range(5)],
        "long": [going("a", f"b {n}") for n in range(HELD_MAX)],
        "turned": [going("a"), going("a"), TURN, going("a"), going("a"), going("a")],
        "poisoned": [going("a"), POISON, POISON, TALK],
    }
    for session, events in logs.items():
        await shop.append(session, *events)
    await shop.projector().project({0: await shop.deliver()})
    await shop.assert_right(*logs)
