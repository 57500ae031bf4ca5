"""Rolling units forward and back: an older worker steps down, and comes back on an operator's word alone."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from eventually import eventually
from todo_projection.beats import STEPPED_DOWN, WORKING, Beats, read_beats
from todo_projection.mandate import InvalidMandate, parse_mandate, set_mandate
from todo_projection.row import Row
from todo_projection.rows import read_row
from todo_projection.settings import Settings
from todo_projection.unit import Unit, mounted_units
from todo_projection.wire import Wire
from todo_projection.worker import Worker
from todo_write.events import GROUP, Event, Keys, Position
from todo_write.log import Client, SessionLog

OLD = mounted_units()
VERSIONS = {unit.key: unit.state_version for unit in OLD}


class Count:
    """A unit that newer workers have: how many events there were."""

    key = "count"
    state_version = 1
    handles = frozenset({"todo/write"})
    heals_on = frozenset[str]()
    published = True

    def init(self) -> int:
        return 0

    def apply(self, state: int, event: Event) -> int:
        return state + 1

    def view(self, state: int) -> int:
        return state

    def encode(self, state: int) -> bytes:
        return b"%d" % state

    def decode(self, raw: bytes) -> int:
        return int(raw)


@pytest.fixture
async def wire(redis_url: str) -> Any:
    wire = Wire(redis_url)
    yield wire
    await wire.aclose()


@asynccontextmanager
async def worker(redis_url: str, namespace: str, units: Sequence[Unit]) -> AsyncGenerator[Worker]:
    given = {"beat_ms": 100, "claim_idle_ms": 300, "block_ms": 20, "newer_gone_ms": 500}
    one = Worker(Settings.from_env({}, redis_url=redis_url, namespace=namespace, **given), units)
    running = asyncio.create_task(one.run())
    try:
        yield one
    finally:
        one.stop()
        await running


async def write(client: Client, content: str) -> Position:
    return await SessionLog(client, "s1").append("todo/write", {"todos": [{"content": content, "status": "pending"}]})


async def at(wire: Wire, keys: Keys, position: Position) -> Row | None:
    row = await read_row(wire, keys, "s1")
    return row if row.position == position else None


async def state(wire: Wire, keys: Keys, one: Worker) -> str:
    beat = (await read_beats(wire, keys)).get(one.name)
    return beat.state if beat else ""


async def test_an_older_worker_steps_down_reads_nothing_and_comes_back_when_told(
    client: Client, wire: Wire, redis_url: str, namespace: str
) -> None:
    keys = await client.keys()
    async with worker(redis_url, namespace, [*OLD, Count()]):
        first = await write(client, "a")
        row = await eventually(lambda: at(wire, keys, first))
        assert row is not None
        assert row.versions == {**VERSIONS, "count": 1}

    async with worker(redis_url, namespace, OLD) as old:
        second = await write(client, "b")

        async def stepped_down() -> bool:
            return await state(wire, keys, old) == STEPPED_DOWN

        await eventually(stepped_down)
        third = await write(client, "c")
        began = (await read_beats(wire, keys))[old.name].at
        await eventually(lambda: _beat_at(wire, keys, old, began + 500))  # time enough to read it, for who reads
        assert (await read_row(wire, keys, "s1")).position == first
        feed = keys.feed(keys.partition("s1"))
        assert (await wire.command("XPENDING", feed, GROUP))[0] == 1, "what came after was not even read"
        assert second < third

        await set_mandate(wire, keys, VERSIONS)
        row = await eventually(lambda: at(wire, keys, third), within=20)
        assert row is not None
        assert row.versions == VERSIONS
        assert set(row.cells) == set(VERSIONS)
        assert row.cells["todos"].value == b'[{"content":"c","status":"pending"}]'
        assert await wire.command("HEXISTS", keys.row("s1"), "count") == 0

        async def working() -> bool:
            return await state(wire, keys, old) == WORKING

        await eventually(working)


async def test_no_word_brings_it_back_while_a_newer_worker_beats_or_when_it_asks_for_others(
    client: Client, wire: Wire, redis_url: str, namespace: str
) -> None:
    keys = await client.keys()
    async with worker(redis_url, namespace, [*OLD, Count()]):
        first = await write(client, "a")
        await eventually(lambda: at(wire, keys, first))
    await set_mandate(wire, keys, VERSIONS)
    newer = Beats(wire, keys, "newer", {**VERSIONS, "count": 1})

    async with worker(redis_url, namespace, OLD) as old:
        await write(client, "b")

        async def down_while_newer_beats() -> bool:
            await newer.beat()
            return await state(wire, keys, old) == STEPPED_DOWN

        await eventually(down_while_newer_beats)
        began = (await read_beats(wire, keys))[old.name].at
        await eventually(lambda: _beats_until(newer, wire, keys, old, began + 2500))
        assert await state(wire, keys, old) == STEPPED_DOWN
        await set_mandate(wire, keys, {**VERSIONS, "todos": 99})
        began = (await read_beats(wire, keys))[old.name].at
        await newer.withdraw()
        await eventually(lambda: _beat_at(wire, keys, old, began + 2500))
        assert await state(wire, keys, old) == STEPPED_DOWN


async def _beats_until(newer: Beats, wire: Wire, keys: Keys, old: Worker, until: int) -> bool:
    await newer.beat()
    return await _beat_at(wire, keys, old, until)


async def _beat_at(wire: Wire, keys: Keys, old: Worker, until: int) -> bool:
    return (await read_beats(wire, keys))[old.name].at >= until


@pytest.mark.parametrize(
    "text", ["", "todos", "todos:0", "todos:x", "Todos:1", "todos:1,todos:2", "todos:1,", "a:1 b:2"]
)
def test_what_is_no_list_of_units_is_refused(text: str) -> None:
    with pytest.raises(InvalidMandate):
        parse_mandate(text)
