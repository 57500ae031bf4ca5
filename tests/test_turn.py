"""Turns: numbered from what the log says, ended whatever happens."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from proxy import Proxy
from todo_write import turn as turns
from todo_write.log import (
    Client,
    InvalidEvent,
    NotSaved,
    SessionLog,
    connect,
)


@pytest.fixture
def log(client: Client) -> SessionLog:
    return SessionLog(client, "s1")


@pytest.fixture
async def far(proxy: Proxy, namespace: str) -> AsyncIterator[SessionLog]:
    """The same session written through a proxy that can lose and hold what the test names; it gives up after 0.2 s."""
    async with connect(proxy.url, namespace=namespace) as client:
        yield SessionLog(client, "s1", append_budget_ms=200)


async def test_a_turn_begins_and_ends_with_its_number(log: SessionLog) -> None:
    async with log.turn() as number:
        assert number == 1
        await log.append("x", 0)
    async with log.turn() as number:
        assert number == 2
    assert await _turns(log) == [
        ("turn/start", {"turn": 1}),
        ("turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
        ("turn/start", {"turn": 2}),
        ("turn/end", {"turn": 2, "reason": {"kind": "completed"}}),
    ]


async def test_a_turn_whose_body_raises_ends_with_error(log: SessionLog) -> None:
    with pytest.raises(ZeroDivisionError):
        async with log.turn():
            raise ZeroDivisionError
    assert (await _turns(log))[1] == ("turn/end", {"turn": 1, "reason": {"kind": "error"}})


async def test_a_turn_that_is_cancelled_ends_interrupted(log: SessionLog) -> None:
    inside = asyncio.Event()

    async def run() -> None:
        async with log.turn():
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await _turns(log))[1] == ("turn/end", {"turn": 1, "reason": {"kind": "interrupted"}})


async def test_a_host_restarted_in_the_middle_of_a_turn_numbers_on(client: Client, log: SessionLog) -> None:
    await log.start_turn()
    await log.append_all([("x", number) for number in range(200)])
    assert await SessionLog(client, "s1").start_turn() == 2


async def test_a_turn_may_be_ended_by_another_process(client: Client, log: SessionLog) -> None:
    assert await log.start_turn() == 1
    assert await SessionLog(client, "s1").end_turn("max-tokens") == 1
    assert (await _turns(log))[1] == ("turn/end", {"turn": 1, "reason": {"kind": "max-tokens"}})


async def test_a_turn_that_is_not_open_can_not_be_ended(log: SessionLog) -> None:
    with pytest.raises(InvalidEvent, match="no open turn"):
        await log.end_turn("completed")
    async with log.turn():
        pass
    with pytest.raises(InvalidEvent, match="no open turn"):
        await log.end_turn("completed")
    assert len(await _turns(log)) == 2


async def test_the_search_for_the_last_turn_is_bounded(
    client: Client, log: SessionLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(turns, "SEARCH_MAX", 128)
    await log.start_turn()
    await log.append_all([("x", number) for number in range(127)])
    assert await SessionLog(client, "s1").start_turn() == 2
    await log.append_all([("x", number) for number in range(128)])
    assert await SessionLog(client, "s1").start_turn() == 1
    assert "numbering starts anew" in caplog.text


async def test_a_turn_without_a_number_is_passed_over(client: Client, log: SessionLog) -> None:
    await log.append_all([("turn/start", {"turn": 4}), ("turn/start", {"number": "five"})])
    assert await SessionLog(client, "s1").start_turn() == 5


async def test_the_bodys_own_error_goes_on_when_the_end_is_not_stored(proxy: Proxy, far: SessionLog) -> None:
    with pytest.raises(ZeroDivisionError) as raised:  # noqa: PT012  the body of the turn is what raises
        async with far.turn():
            proxy.refuse()
            raise ZeroDivisionError
    assert "turn/end of turn 1 was not appended" in raised.value.__notes__[0]


async def test_a_turn_that_can_not_be_looked_up_is_not_saved(proxy: Proxy, far: SessionLog) -> None:
    proxy.refuse()
    with pytest.raises(NotSaved):
        await far.start_turn()


async def _turns(log: SessionLog) -> list[tuple[str, Any]]:
    entries = await log.read(count_max=1000)
    return [
        (entry.event.type, msgspec.json.decode(entry.event.data))
        for entry in entries
        if entry.event.type.startswith("turn/")
    ]
