"""The recipes of examples/, run as they are written, with the real packages and a scripted model."""

import asyncio
import json
from typing import Any

import pytest

from hosts import Host, Told, langgraph, openai_agents, pydantic_ai
from logged import log_of, turn
from todo_projection.testing.kit import Kit
from todo_write.log import Client, LogReader, SessionLog
from todo_write.schema import definition

HOSTS = pytest.mark.parametrize("host", [langgraph, openai_agents, pydantic_ai], ids=lambda host: host.__name__)
DONE: list[Any] = []  # a model that calls nothing any more

PLAN = {"todos": [{"content": "build", "status": "in_progress"}, {"content": "test", "status": "pending"}]}
NEXT = {"todos": [{"content": "build", "status": "completed"}, {"content": "test", "status": "in_progress"}]}
TWICE = {"todos": [{"content": "build", "status": "pending"}, {"content": "build", "status": "pending"}]}


@HOSTS
async def test_a_run_is_a_turn_of_its_session_and_its_plan_is_projected(host: Host, todo_kit: Kit) -> None:
    seen = await host(todo_kit.client, "s1", [[PLAN], [NEXT], DONE])
    assert await log_of(todo_kit.client, "s1") == turn(1, PLAN, NEXT)
    assert [told.text for told in seen.told] == [
        "Updated todo list: 1 pending, 1 in progress, 0 completed.",
        "Updated todo list: 0 pending, 1 in progress, 1 completed.",
    ]
    tail = await LogReader(todo_kit.client, "s1").tail()
    assert tail is not None
    shown = await todo_kit.wait_for("s1", tail)
    assert shown["values"]["todos"] == NEXT["todos"]
    assert (shown["values"]["board"]["turn"], shown["values"]["board"]["reason"]) == (1, "completed")


@HOSTS
async def test_the_model_is_told_of_the_tool_as_it_is(host: Host, client: Client) -> None:
    seen = await host(client, "s1", [DONE])
    expected = definition("openai", allow_parallel_in_progress=True)["function"]
    assert json.dumps(seen.tool) == json.dumps(expected)  # in the same order, byte for byte


@HOSTS
async def test_rejections_reach_the_model_the_way_its_host_tells_errors_and_append_nothing(
    host: Host, client: Client
) -> None:
    seen = await host(client, "s1", [[TWICE], [{"todos": 1}], [{}], [PLAN], DONE])
    is_error = None if host is openai_agents else True
    assert seen.told[:3] == [
        Told('Error: invalid todos: duplicate content "build"', is_error),
        Told('Error: invalid arguments: "todos" must be an array', is_error),
        Told('Error: invalid arguments: missing required property "todos"', is_error),
    ]
    assert seen.told[3].is_error in (None, False)
    assert await log_of(client, "s1") == turn(1, PLAN)


@pytest.mark.parametrize("host", [openai_agents, pydantic_ai], ids=lambda host: host.__name__)
@pytest.mark.parametrize("arguments", ["not json", "[1]"])
async def test_arguments_that_are_no_object_reach_the_model_as_an_error(
    host: Host, arguments: str, client: Client
) -> None:
    seen = await host(client, "s1", [[arguments], [PLAN], DONE])
    assert seen.told[0].is_error in (None, True)
    assert await log_of(client, "s1") == turn(1, PLAN)


@HOSTS
async def test_calls_made_at_once_are_appended_in_their_order(host: Host, client: Client) -> None:
    plans = [{"todos": [{"content": str(n), "status": "pending"}]} for n in range(5)]
    seen = await host(client, "s1", [plans, DONE])
    assert len(seen.told) == len(plans)
    assert await log_of(client, "s1") == turn(1, *plans)


@HOSTS
async def test_a_run_that_fails_ends_its_turn_with_error(host: Host, client: Client) -> None:
    with pytest.raises(ZeroDivisionError):
        await host(client, "s1", [[PLAN], ZeroDivisionError()])
    assert await log_of(client, "s1") == turn(1, PLAN, reason="error")


@HOSTS
async def test_a_host_that_was_restarted_within_a_turn_numbers_on(host: Host, client: Client) -> None:
    await SessionLog(client, "s1").start_turn()
    await host(client, "s1", [[PLAN], DONE])
    assert await log_of(client, "s1") == [("turn/start", {"turn": 1}), *turn(2, PLAN)]


@HOSTS
async def test_runs_of_two_sessions_at_once_do_not_meet(host: Host, client: Client) -> None:
    await asyncio.gather(host(client, "s1", [[PLAN], [NEXT], DONE]), host(client, "s2", [[NEXT], DONE]))
    assert await log_of(client, "s1") == turn(1, PLAN, NEXT)
    assert await log_of(client, "s2") == turn(1, NEXT)
