"""What every command does at its beginning and its end: settings, a client, and errors as one line and an exit code."""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from todo_write.age import age_ms

if TYPE_CHECKING:
    from todo_write.log import Client
    from todo_write.settings import Settings

T = TypeVar("T")

OK, REFUSED, NOT_SAVED = 0, 1, 2
BAD_SETTING = NOT_SAVED

# A model waits 5 s at most from the start of the process; Python itself needs a part of them at both ends.
WAIT_MS = 4000
BUDGET_MIN_MS = 1000


def read_settings(**flags: object) -> "Settings":
    """Settings of the environment and these flags; raises InvalidSetting. A command waits less than a library."""
    from todo_write.settings import Settings, variable

    if not os.environ.get(variable("append_budget_ms")):
        flags["append_budget_ms"] = max(BUDGET_MIN_MS, WAIT_MS - age_ms())
    return Settings.from_env(os.environ, **flags)


def read_mode(flag: bool | None) -> bool:
    """Whether several todos may be in progress, by flag or environment; raises InvalidSetting when neither says."""
    if flag is not None:
        return flag
    from todo_write.settings import InvalidSetting

    mode = read_settings().allow_parallel_in_progress
    if mode is None:
        raise InvalidSetting(
            "whether several todos may be in progress at once has no default: say --parallel or --single, "
            "or set TODO_ALLOW_PARALLEL_IN_PROGRESS to true or false"
        )
    return mode


def with_client(settings: "Settings", body: Callable[["Client"], Awaitable[T]]) -> T:
    """What the body returns, which gets a client for the time it runs."""
    from todo_write.log import connect

    async def run() -> T:
        async with connect(settings) as client:
            return await body(client)

    return asyncio.run(run())


def read_input() -> bytes:
    """All of standard input; says so when somebody would have to type it."""
    if sys.stdin.isatty():
        typer.echo("reading standard input; Ctrl-D ends it", err=True)
    return sys.stdin.buffer.read()


def print_json(value: Any) -> None:
    """One line of JSON on standard output."""
    import msgspec

    typer.echo(msgspec.json.encode(value).decode())


def fail(text: str, code: int) -> NoReturn:
    """End the command with a line on standard error."""
    typer.echo(f"Error: {text}", err=True)
    raise typer.Exit(code)


def run(app: typer.Typer) -> None:
    """Run the app as a program; errors that a person can do something about end it with one line and their code."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]  # TextIO, as ever
    logging.basicConfig(format="todo-write: %(message)s", level=logging.WARNING)
    for told_in_the_end in ("todo_write.delivery", "todo_write.tool"):
        logging.getLogger(told_in_the_end).setLevel(logging.ERROR)
    try:
        app()
    except Exception as error:
        told = _explain(error)
        if told is None:
            raise
        typer.echo(f"Error: {told[0]}", err=True)
        sys.exit(told[1])


def _explain(error: Exception) -> tuple[str, int] | None:
    """What to say of an error, and the exit code; None for a bug."""
    from redis.exceptions import RedisError

    from todo_write.log import InvalidEvent, InvalidSession, LayoutMismatch, LogRewound, NotSaved, OutcomeUnknown
    from todo_write.settings import InvalidSetting
    from todo_write.transcript import Malformed

    match error:
        case InvalidSetting() | InvalidSession() | LayoutMismatch():
            return str(error), BAD_SETTING
        case InvalidEvent() | Malformed():
            return str(error), REFUSED
        case NotSaved() | LogRewound():
            return f"not saved: {error}", NOT_SAVED
        case OutcomeUnknown():
            return f"may not have been saved: {error}", NOT_SAVED
        case RedisError() | OSError():
            return f"the store does not answer: {error}", NOT_SAVED
        case _:
            return None
