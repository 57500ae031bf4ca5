"""Everything at once, for a first look: a server when there is none, a worker, agents at work on plans, a screen."""

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import AsyncGenerator, Awaitable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from todo_projection.child import Child, child
from todo_projection.embedded import free_port, launched_server
from todo_projection.plain import plain
from todo_projection.screen import Screen
from todo_projection.settings import Settings, mask, variable
from todo_projection.signals import Stop, stopping
from todo_projection.store import Store, open_store

WORKER, DEMO = "todo-projection", "todo-write"
MODULES = {WORKER: "todo_projection.cli", DEMO: "todo_write.cli"}


class ServerGone(RuntimeError):
    """The embedded server ended, and with it everything it held; the message says how. Start again."""


async def up(settings: Settings, console: Console) -> None:
    """Start everything and show it until SIGTERM or SIGINT; whatever ends it, nothing of it is left behind.

    Raises NoServer, NotStarted, LayoutMismatch, ServerGone.
    """
    with stopping() as stop:
        async with AsyncExitStack() as stack:
            ends: set[asyncio.Task[Any]] = {asyncio.create_task(stop.asked.wait())}
            if "redis_url" not in settings.model_fields_set:
                server = await stack.enter_async_context(launched_server())
                settings = settings.model_copy(update={"redis_url": server.url})
                ends.add(asyncio.create_task(_gone(server.url, server.ended())))
            stack.push_async_callback(_cancel, ends)
            store = await stack.enter_async_context(open_store(settings, stop.asked, create=True))
            if store is not None:
                await _run(settings, console, store, stack, ends, stop)


async def _run(
    settings: Settings,
    console: Console,
    store: Store,
    stack: AsyncExitStack,
    ends: set[asyncio.Task[Any]],
    stop: Stop,
) -> None:
    environment = dict(_environment(settings))
    worker = await stack.enter_async_context(child(*_command(WORKER), "worker", env=environment))
    demo = await stack.enter_async_context(child(*_command(DEMO), "demo", env=environment))
    gateway = await stack.enter_async_context(_gateway(environment))
    console.print(_guide(settings, store, worker, demo, gateway))
    told = {
        asyncio.create_task(_tell(console, f"the worker (process {worker.pid})", worker, _mourn_worker())),
        asyncio.create_task(_tell(console, f"the demo (process {demo.pid})", demo, "no agent writes any more")),
    }
    stack.push_async_callback(_cancel, told)
    ends.add(asyncio.create_task(Screen(console, store, settings, stop.asked).show()))
    done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


@asynccontextmanager
async def _gateway(environment: dict[str, str]) -> AsyncGenerator[str]:
    """The gateway, if its extra is installed, on a free port; gives what to say of it."""
    if find_spec("uvicorn") is None or find_spec("starlette") is None:
        yield "no gateway: pip install 'todo-projection[gateway]'"
        return
    port = free_port()
    async with child(*_command(WORKER), "gateway", "--port", str(port), env=environment) as gateway:
        yield f"http://127.0.0.1:{port}/ (process {gateway.pid})"


async def _tell(console: Console, who: str, program: Child, so: str) -> None:
    """Say that a program has ended and what that means; the others go on."""
    ending = await program.ended()
    console.print(f"{who} {plain(str(ending))}: {so}", style="bold red")


def _mourn_worker() -> str:
    return f"the plans stop; a new worker goes on where they were: {_shown(WORKER)} worker"


async def _gone(url: str, ended: Awaitable[str]) -> NoReturn:
    raise ServerGone(f"the embedded server at {url} has ended, with all it held: {plain(await ended)}; start again")


async def _cancel(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _guide(settings: Settings, store: Store, worker: Child, demo: Child, gateway: str) -> str:
    """How to look further, and what to try."""
    exports = [
        f"  export {name}={shlex.quote(mask(value))}"
        for name, value in _environment(settings)
        if os.environ.get(name) != value
    ]
    program = _shown(WORKER)
    return "\n".join(
        [
            f"redis at {store.address}; worker: process {worker.pid}; demo: process {demo.pid}",
            f"in a browser: {gateway}",
            "To look further, in another terminal:",
            *exports,
            f"  {program} sessions      all plans",
            f"  {program} show <id>     one of them as JSON",
            f"  {program} watch <id>    its changes as they are published",
            f"  {program} status        what waits, and who works",
            "To see what a worker is for: killing it stops the plans, a new one goes on where they were:",
            f"  kill {worker.pid}",
            f"  {program} worker",
            f"The worker's log is {worker.log}. Ctrl-C ends all of it and leaves nothing behind.",
        ]
    )


def _environment(settings: Settings) -> Iterator[tuple[str, str]]:
    """Where the store is, as environment variables."""
    for name in ("redis_url", "namespace", "partitions"):
        value = getattr(settings, name)
        if value is not None and (name in settings.model_fields_set or name == "redis_url"):
            yield variable(name), str(value)


def _command(program: str) -> list[str]:
    """Command line of a program of this distribution: its script beside this Python, else its module."""
    script = Path(sys.executable).with_name(program)
    return [str(script)] if os.access(script, os.X_OK) else [sys.executable, "-m", MODULES[program]]


def _shown(program: str) -> str:
    """The same for a person to type: by name when that finds it, by a path from here if it is below."""
    command = _command(program)
    found = shutil.which(program)
    if found is not None and Path(found).resolve() == Path(command[0]).resolve():
        return program
    here = Path.cwd()
    return shlex.join(
        str(Path(word).relative_to(here)) if Path(word).is_relative_to(here) else word for word in command
    )
