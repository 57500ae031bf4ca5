"""A session that kills its workers: told by the deaths of those that had it in hand, set apart, skipped, marked."""

import asyncio
import sys
from pathlib import Path

from eventually import eventually
from todo_projection.killers import DEATHS_ALONE, DEATHS_SKIPPED, Killer, set_apart
from todo_projection.row import Row
from todo_projection.rows import read_row
from todo_projection.span import Pointer
from todo_projection.wire import Wire
from todo_write.events import Position
from todo_write.log import Client, SessionLog

PROGRAM = Path(__file__).parent / "deadly_worker.py"


def pointer(session: str, seq: int) -> Pointer:
    return Pointer(b"1-%d" % seq, session, 1764517000000, seq, b"op", "x")


def test_without_deaths_batches_stay_as_they_are() -> None:
    batches = {0: [pointer("a", 0)], 1: [pointer("b", 1)]}
    assert set_apart(batches, {(0, b"1-0"): DEATHS_ALONE - 1}) == (batches, [])


def test_a_session_is_set_apart_whole_and_its_neighbours_stay() -> None:
    batch = [pointer("a", 0), pointer("b", 1), pointer("a", 2)]
    rest, killers = set_apart({7: batch}, {(7, b"1-2"): DEATHS_ALONE})
    assert rest == {7: [batch[1]]}
    assert killers == [Killer(7, "a", [batch[0], batch[2]], DEATHS_ALONE)]
    assert not killers[0].skipped


def test_the_same_id_in_another_feed_is_another_pointer() -> None:
    batches = {0: [pointer("a", 0)], 1: [pointer("b", 0)]}
    rest, killers = set_apart(batches, {(1, b"1-0"): DEATHS_ALONE})
    assert (list(rest), [killer.session for killer in killers]) == ([0], ["b"])


def test_the_least_likely_is_tried_first_and_the_surest_not_at_all() -> None:
    batch = [pointer("a", 0), pointer("b", 1)]
    _, killers = set_apart({0: batch}, {(0, b"1-0"): DEATHS_SKIPPED, (0, b"1-1"): DEATHS_ALONE})
    assert [(killer.session, killer.skipped) for killer in killers] == [("b", False), ("a", True)]


async def test_its_workers_die_until_it_is_skipped_and_the_others_are_projected(
    client: Client, redis_url: str, namespace: str
) -> None:
    keys = await client.keys()
    names = [name for name in (f"s{n}" for n in range(500)) if keys.partition(name) == keys.partition("killer")][:3]
    await SessionLog(client, names[0]).append("todo/write", {"todos": [{"content": "a", "status": "pending"}]})
    killer = SessionLog(client, "killer")
    await killer.append("todo/write", {"todos": [{"content": "b", "status": "pending"}]})
    await killer.append("boom", {})
    last = await SessionLog(client, names[1]).append("todo/write", {"todos": []})

    wire, deaths = Wire(redis_url), 0
    worker: asyncio.subprocess.Process | None = None
    try:
        while True:
            worker = await asyncio.create_subprocess_exec(sys.executable, str(PROGRAM), redis_url, namespace)
            skipped = asyncio.ensure_future(eventually(lambda: _marked(wire, client), within=20))
            died = asyncio.ensure_future(worker.wait())
            done, _ = await asyncio.wait({skipped, died}, return_when=asyncio.FIRST_COMPLETED)
            if skipped in done:
                break
            skipped.cancel()
            assert died.result() == 13
            deaths += 1
            assert deaths <= DEATHS_SKIPPED
        assert deaths == DEATHS_SKIPPED
        assert not died.done()

        async def projected() -> bool:
            rows = [await read_row(wire, keys, name) for name in names[:2]]
            return all(row.exists and row.cells["todos"].mark is None for row in rows)

        await eventually(projected)
        healed = await killer.append("todo/write", {"todos": []})
        await eventually(lambda: _at(wire, client, healed))
        row = await read_row(wire, keys, "killer")
        assert row.cells["todos"].mark is None
        assert row.cells["deadly"].mark is not None
        assert last.seq == 0
    finally:
        if worker is not None and worker.returncode is None:
            worker.kill()
            await worker.wait()
        await wire.aclose()


async def _row(wire: Wire, client: Client) -> Row:
    return await read_row(wire, await client.keys(), "killer")


async def _marked(wire: Wire, client: Client) -> bool:
    cell = (await _row(wire, client)).cells.get("todos")
    return cell is not None and cell.mark is not None and "workers died" in cell.mark.reason


async def _at(wire: Wire, client: Client, position: Position) -> bool:
    return (await _row(wire, client)).position == position
