"""Commands that run for a while: what they say, how they take a signal, and what a terminal of theirs shows."""

import asyncio
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

import pytest

from command import Command
from eventually import eventually

ENDS_S = 30.0


def operator(redis_url: str, namespace: str, **variables: str) -> Command:
    """``todo-projection`` for this store."""
    return Command("todo-projection", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace, **variables)


def call(
    main: Callable[[], None], *arguments: str, settings: Mapping[str, str], patch: pytest.MonkeyPatch
) -> int | str | None:
    """Run an entry point in this process, for a command that ends before it connects; its exit code."""
    for name in list(os.environ):
        if name.startswith("TODO_"):
            patch.delenv(name)
    for name, value in settings.items():
        patch.setenv(f"TODO_{name.upper()}", value)
    patch.setattr(sys, "argv", ["program", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


class Running:
    """A command that runs; ``out`` and ``err`` are what it has printed so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.pid = process.pid
        self.out = ""
        self.err = ""

    async def says(self, text: str, within: float = ENDS_S) -> str:
        """The line of standard output or error that holds the text, once it is there."""

        def found() -> str:
            lines = [*self.out.splitlines(), *self.err.splitlines()]
            line = next((line for line in lines if text in line), None)
            assert line is not None, f"nothing said {text!r}; out: {self.out!r} err: {self.err!r}"
            return line

        return await eventually(found, within)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    async def ended(self, within: float = ENDS_S) -> int:
        """Its exit code, once it has ended."""
        try:
            return await asyncio.wait_for(self.process.wait(), within)
        except TimeoutError:
            raise AssertionError(f"it runs on; out: {self.out!r} err: {self.err!r}") from None

    async def read(self, stream: asyncio.StreamReader | None, name: str) -> None:
        """Keep what a stream brings."""
        while stream is not None and (piece := await stream.read(65536)):
            setattr(self, name, getattr(self, name) + piece.decode(errors="replace"))


@asynccontextmanager
async def running(command: Command, *arguments: str) -> AsyncGenerator[Running]:
    """The command while it runs, killed at the end of the block if it still does; then all it printed is read."""
    async with command.started(*arguments, stdin=asyncio.subprocess.DEVNULL) as process:
        talking = Running(process)
        readers = [
            asyncio.create_task(talking.read(process.stdout, "out")),
            asyncio.create_task(talking.read(process.stderr, "err")),
        ]
        try:
            yield talking
        finally:
            if process.returncode is None:
                process.kill()
            await asyncio.gather(*readers)


class Terminal:
    """A terminal with a command on it: ``shown`` is every character that was sent to it."""

    def __init__(self, width: int, height: int) -> None:
        self._ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.shown = ""
        os.set_blocking(self._ours, False)
        asyncio.get_running_loop().add_reader(self._ours, self._read)

    def _read(self) -> None:
        try:
            self.shown += os.read(self._ours, 65536).decode(errors="replace")
        except OSError:  # the command has closed its end
            asyncio.get_running_loop().remove_reader(self._ours)

    async def says(self, text: str, within: float = ENDS_S) -> None:
        """Return once the text was shown."""

        def found() -> bool:
            assert text in self.shown, f"nothing showed {text!r}: {self.shown!r}"
            return True

        await eventually(found, within)

    def close(self) -> None:
        """Give the terminal back."""
        asyncio.get_running_loop().remove_reader(self._ours)
        os.close(self._ours)


@asynccontextmanager
async def on_terminal(
    command: Command, *arguments: str, width: int = 100, height: int = 40
) -> AsyncGenerator[tuple[Running, Terminal]]:
    """A command that runs on a terminal of its own."""
    terminal = Terminal(width, height)
    theirs = terminal.theirs
    try:
        colourful = command.having(TERM="xterm-256color")
        for name in ("COLUMNS", "LINES"):  # a run of files side by side sets them; the size is the terminal's own
            colourful.environment.pop(name, None)
        async with colourful.started(*arguments, stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            yield Running(process), terminal
    finally:
        terminal.close()
