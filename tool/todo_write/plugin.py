"""The tool as a plugin of a harness that composes plugins: ``name``, ``inject`` and ``apply(ctx, config)``."""

from collections.abc import Mapping
from typing import Any, Protocol

from todo_write.schema import NAME, description, parameters
from todo_write.tool import Result, execute, render
from todo_write.unit import TodosUnit, todos

name = "todo-write"
inject = ("tools",)

_MODE = "allowParallelInProgress"


class InvalidConfig(ValueError):
    """The plugin's config lacks what it needs; the message says what to set. Whoever writes the config retries."""


class Tools(Protocol):
    """The host's registry of tools."""

    def register(self, tool: "HostTool", /) -> object:
        """Make the tool known to the host's agents."""
        ...


class SessionProjections(Protocol):
    """The host's registry of projection units."""

    def register(self, unit: TodosUnit, /) -> object:
        """Make the unit one of those the host folds."""
        ...


class Context(Protocol):
    """What a host hands to ``apply``; ``session_projections`` (SessionProjections) is there only in some hosts."""

    @property
    def tools(self) -> Tools:
        """The registry ``inject`` asks for."""
        ...


class HostTool:
    """What is registered: how the tool is listed, called and shown."""

    name = NAME

    def __init__(self, *, allow_parallel_in_progress: bool) -> None:
        self._allow_parallel_in_progress = allow_parallel_in_progress
        self.description = description(allow_parallel_in_progress=allow_parallel_in_progress)
        self.parameters = parameters()

    async def execute(self, arguments: Any, exec: Any) -> Result:
        """As ``todo_write.tool.execute``; raises Rejected, whose ``str()`` goes to the model as it stands."""
        return await execute(arguments, exec, allow_parallel_in_progress=self._allow_parallel_in_progress)

    def render(self, result: Result) -> str:
        """The model's text for a result."""
        return render(result)


def apply(ctx: Context, config: Mapping[str, Any] | None) -> None:
    """Register the tool, and the ``todos`` unit when the host has session projections.

    ``config`` is ``{"allowParallelInProgress": bool}``, which has no default. Raises InvalidConfig; then nothing
    has been registered.
    """
    tool = HostTool(allow_parallel_in_progress=_mode(config))
    projections: SessionProjections | None = getattr(ctx, "session_projections", None)
    if projections is not None:
        projections.register(todos)
    ctx.tools.register(tool)


def _mode(config: Mapping[str, Any] | None) -> bool:
    what = "true lets several todos be in_progress at once, false at most one; there is no default"
    if config is None or _MODE not in config:
        raise InvalidConfig(f"{name}: config.{_MODE} is missing; set it to true or false: {what}")
    value = config[_MODE]
    if not isinstance(value, bool):
        raise InvalidConfig(f"{name}: config.{_MODE} is {value!r}; it must be true or false: {what}")
    return value
