"""One process of a run."""

import signal
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from chaos.forked import Forked

SAID_CHARS_MAX = 4000


class Role(StrEnum):
    """What a process is there for."""

    WORKER = "worker"
    WRITER = "writer"
    VIEWER = "viewer"


class Actor:
    """One process in one of the places of its role. ``said`` is what it printed, ``file`` what it knows."""

    def __init__(self, role: Role, place: int, name: str, folder: Path) -> None:
        self.role, self.place, self.name = role, place, name
        self.file = folder / f"{name}.json"
        self.said = folder / f"{name}.log"
        self.process: Forked
        self._began_s = time.monotonic()
        self._ended_s = 0.0

    @property
    def end(self) -> str:
        """What it printed last."""
        return self.said.read_text(errors="replace")[-SAID_CHARS_MAX:]

    @property
    def has_begun(self) -> bool:
        """Whether it has done anything yet: before that a signal ends it as it ends any program."""
        return self.file.exists() or self.said.stat().st_size > 0

    @property
    def lived_s(self) -> float:
        """For how long it has been there."""
        return (self._ended_s or time.monotonic()) - self._began_s

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def start(self, main: Callable[[], object], *arguments: str, environment: dict[str, str]) -> None:
        """Start it, out of reach of the terminal's signals; it dies with this process."""
        self.said.touch()
        self.process = Forked.start(main, *arguments, environment=environment, said=self.said)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        self.process.send(number)

    async def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        self.send(signal.SIGKILL)
        await self.process.wait()
        self._ended_s = time.monotonic()
