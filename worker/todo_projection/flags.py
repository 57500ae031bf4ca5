"""Settings as flags of a command: each is an environment variable too, and all are read once, at the entry."""

import inspect
import os
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Concatenate

import typer
from pydantic_core import PydanticUndefined

from todo_projection.settings import Settings, variable

Command = Callable[Concatenate[Settings, ...], None]

STORE = ("redis_url", "redis_ca_file", "redis_cert_file", "redis_key_file", "namespace", "partitions")


def with_settings(*names: str) -> Callable[[Command], Callable[..., None]]:
    """A command whose first parameter is Settings gets a flag for each of these, besides those of the store.

    The other settings come from the environment alone. The command raises InvalidSetting before it begins.
    """
    shown = (*STORE, *names)

    def decorate(command: Command) -> Callable[..., None]:
        @wraps(command)
        def wrapped(**given: Any) -> None:
            flags = {name: given.pop(name) for name in shown}
            command(Settings.from_env(os.environ, **flags), **given)

        _, *own = inspect.signature(command).parameters.values()
        parameters = [*own, *(_flag(name) for name in shown)]
        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads this one
        wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return wrapped

    return decorate


def _flag(name: str) -> inspect.Parameter:
    field = Settings.model_fields[name]
    default = "" if field.default in (None, "", PydanticUndefined) else f"; default {field.default}"
    option = typer.Option(
        f"--{name.removeprefix('gateway_').replace('_', '-')}",
        help=f"{f'{field.title}: ' if field.title else ''}{field.description} [{variable(name)}{default}]",
        metavar=name.rpartition("_")[2].upper(),
        show_default=False,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, option]
    )
