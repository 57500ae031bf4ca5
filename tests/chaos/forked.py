"""Processes forked from one that has imported everything: a start takes milliseconds, that of a program a second."""

import asyncio
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import cast

from servers import die_with_parent

PRELOADED = (
    "__main__",
    "chaos.run",
    "chaos.viewer",
    "chaos.writer",
    "todo_projection.cli",
    "todo_projection.scraping",
    "uvloop",
)

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(PRELOADED))


class Forked:
    """One of them, started by ``start``; it has a session of its own, and dies with this process."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        self._ended = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(process.sentinel, self._end)

    @classmethod
    def start(cls, main: Callable[[], object], *arguments: str, environment: Mapping[str, str], said: Path) -> "Forked":
        """The program whose entry is ``main``, with these arguments; what it prints goes into the file ``said``."""
        process = _context.Process(target=_play, args=(main, arguments, dict(environment), said))
        process.start()  # at once: nobody may be cancelled between this and the name of what began
        return cls(process)

    @property
    def pid(self) -> int:
        """Its process id."""
        return cast("int", self._process.pid)

    @property
    def returncode(self) -> int | None:
        """How it ended, the signal negative; none while it runs."""
        return self._process.exitcode

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        if self.returncode is None:
            os.kill(self.pid, number)

    async def wait(self) -> int:
        """Its return code, once it has ended."""
        await asyncio.shield(self._ended)
        return cast("int", self.returncode)

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        if not self._ended.done():
            self._ended.set_result(None)


def _play(main: Callable[[], object], arguments: Sequence[str], environment: dict[str, str], said: Path) -> None:
    die_with_parent()
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # one of them keeps who forks alive, and whoever waits for that
    out = os.open(said, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for standard, opened in {0: os.open(os.devnull, os.O_RDONLY), 1: out, 2: out}.items():
        os.dup2(opened, standard)
    sys.argv = [main.__module__, *arguments]
    main()
