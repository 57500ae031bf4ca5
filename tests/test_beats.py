"""Beats: who counts as there, and that a server that stood still is nobody's death."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from eventually import eventually
from servers import Server
from todo_projection.beats import Beats, read_beats
from todo_projection.wire import Wire
from todo_write.events import Keys

MISSING_MS = 400


@pytest.fixture
async def wire(own_server: Server) -> AsyncIterator[Wire]:
    wire = Wire(own_server.url)
    yield wire
    await wire.aclose()


def beats(wire: Wire, name: str) -> Beats:
    return Beats(wire, Keys("beats", 1), name, {"todos": 2}, missing_ms=MISSING_MS)


async def test_who_misses_its_beats_counts_as_dead(wire: Wire) -> None:
    one, two = beats(wire, "one"), beats(wire, "two")
    await two.beat()
    await one.beat()
    assert await one.alive() == {"one", "two"}

    async def alone() -> bool:
        await one.beat()
        return await one.alive() == {"one"}

    await eventually(alone)


@pytest.mark.parametrize(
    "raw", ["no JSON", "{}", '{"at":1,"started":1,"host":"h","pid":1,"units":"no versions"}', b"\xff"]
)
async def test_what_is_no_beat_is_left_out(wire: Wire, raw: str | bytes) -> None:
    one = beats(wire, "one")
    await one.beat()
    await wire.command("HSET", Keys("beats", 1).workers, "other", raw)
    assert list(await read_beats(wire, Keys("beats", 1))) == ["one"]


async def test_a_server_that_stood_still_is_not_the_death_of_those_who_waited_with_it(
    own_server: Server, wire: Wire
) -> None:
    one, two = beats(wire, "one"), beats(wire, "two")
    await two.beat()
    await one.beat()
    own_server.freeze()
    await asyncio.sleep(2 * MISSING_MS / 1000)  # so much later it is there, all at once
    own_server.thaw()
    assert await one.alive() == {"one", "two"}, "before its own beat"
    await one.beat()
    assert await one.alive() == {"one", "two"}, "after it"

    async def alone() -> bool:
        await one.beat()
        return await one.alive() == {"one"}

    await eventually(alone)  # dead all the same, when it does not come back
