"""The tool as a plugin: what a host must offer, what it gets, and what it must configure."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from todo_write import plugin
from todo_write.schema import description, parameters
from todo_write.tool import Rejected
from todo_write.unit import todos

PLAN: dict[str, Any] = {
    "todos": [{"content": "plan", "status": "in_progress"}, {"content": "build", "status": "in_progress"}]
}


class Registry:
    def __init__(self) -> None:
        self.registered: list[Any] = []

    def register(self, thing: Any, /) -> None:
        self.registered.append(thing)


class Host:
    """A harness with a registry of tools, and of projections only when it is given one."""

    def __init__(self, *, projections: Registry | None = None) -> None:
        self.tools = Registry()
        if projections is not None:
            self.session_projections = projections


class Session:
    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def append(self, type: str, data: Any) -> None:
        self.events.append((type, data))


def test_a_host_finds_name_needs_and_apply_and_no_default_export() -> None:
    assert plugin.name == "todo-write"
    assert plugin.inject == ("tools",)
    assert callable(plugin.apply)
    assert not hasattr(plugin, "default")


@pytest.mark.parametrize("parallel", [True, False])
def test_the_tool_is_registered_in_the_configured_mode(parallel: bool) -> None:
    host = Host()
    plugin.apply(host, {"allowParallelInProgress": parallel})
    (tool,) = host.tools.registered
    assert tool.name == "todo_write"
    assert tool.description == description(allow_parallel_in_progress=parallel)
    assert json.dumps(tool.parameters) == json.dumps(parameters())


async def test_the_registered_tool_writes_to_the_calling_agents_session_and_renders_its_text() -> None:
    host, session = Host(), Session()
    plugin.apply(host, {"allowParallelInProgress": True})
    (tool,) = host.tools.registered
    result = await tool.execute(PLAN, SimpleNamespace(agent=SimpleNamespace(session=session)))
    assert result == {**PLAN, "counts": {"pending": 0, "inProgress": 2, "completed": 0}}
    assert tool.render(result) == "Updated todo list: 0 pending, 2 in progress, 0 completed."
    assert session.events == [("todo/write", PLAN)]


async def test_the_configured_mode_reaches_the_check() -> None:
    host, session = Host(), Session()
    plugin.apply(host, {"allowParallelInProgress": False})
    (tool,) = host.tools.registered
    with pytest.raises(Rejected, match=r"^Error: invalid todos: at most one task may be in_progress \(got 2\)$"):
        await tool.execute(PLAN, SimpleNamespace(agent=SimpleNamespace(session=session)))
    assert session.events == []


def test_the_unit_is_registered_when_the_host_has_projections() -> None:
    projections = Registry()
    plugin.apply(Host(projections=projections), {"allowParallelInProgress": True})
    assert projections.registered == [todos]


@pytest.mark.parametrize("host", [Host(), SimpleNamespace(tools=Registry(), session_projections=None)])
def test_a_host_without_projections_gets_the_tool_alone(host: Any) -> None:
    plugin.apply(host, {"allowParallelInProgress": True})
    assert [tool.name for tool in host.tools.registered] == ["todo_write"]


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        (None, "is missing"),
        ({}, "is missing"),
        ({"allow_parallel_in_progress": True}, "is missing"),
        ({"allowParallelInProgress": "no"}, "is 'no'; it must be true or false"),
        ({"allowParallelInProgress": 1}, "is 1; it must be true or false"),
        ({"allowParallelInProgress": None}, "is None; it must be true or false"),
    ],
)
def test_a_config_without_the_mode_is_refused_and_nothing_registered(config: Any, fault: str) -> None:
    projections = Registry()
    host = Host(projections=projections)
    with pytest.raises(plugin.InvalidConfig, match=fault) as refused:
        plugin.apply(host, config)
    assert "config.allowParallelInProgress" in str(refused.value)
    assert host.tools.registered == projections.registered == []
