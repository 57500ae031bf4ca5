"""The processes of a run: started, stopped in their tracks, killed, and none of them left behind."""

import asyncio
import itertools
import os
import random
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Self

from chaos.script import NAMESPACE, SESSIONS, VIEWERS, WORKER_SETTINGS, WORKERS, WRITERS, sessions_of
from servers import die_with_parent

TESTS = Path(__file__).parent.parent
ENDS_S = 30.0
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
        self.process: asyncio.subprocess.Process
        self.killed = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    async def start(self, *command: str, environment: dict[str, str]) -> None:
        """Start it, out of reach of the terminal's signals; it dies with this process."""
        with self.said.open("ab") as out:
            self.process = await asyncio.create_subprocess_exec(
                *command,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        if self.process.returncode is None:
            self.process.send_signal(number)

    async def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        self.killed = True
        self.send(signal.SIGKILL)
        await self.process.wait()


class Cast:
    """Everybody on stage, ``async with`` it; ``ended`` are those that are gone, ``actors`` those that are there."""

    def __init__(self, url: str, folder: Path, seed: int) -> None:
        self.actors: list[Actor] = []
        self.ended: list[Actor] = []
        self._url, self._folder, self._seed = url, folder, seed
        self._numbers = itertools.count()

    async def __aenter__(self) -> Self:
        places = {Role.WORKER: WORKERS, Role.WRITER: WRITERS, Role.VIEWER: VIEWERS}
        try:
            for role, count in places.items():
                for place in range(count):
                    await self.start(role, place)
        except BaseException:
            await self.end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    async def end(self) -> None:
        """Kill everybody."""
        for actor in list(self.actors):
            await self.kill(actor)

    async def start(self, role: Role, place: int) -> Actor:
        """Somebody new in a place."""
        actor = Actor(role, place, f"{role}-{place}-{next(self._numbers)}", self._folder)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TODO_")}
        environment["PYTHONPATH"] = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        self.actors.append(actor)
        if role is Role.WORKER:
            environment |= {"TODO_REDIS_URL": self._url, "TODO_NAMESPACE": NAMESPACE, **WORKER_SETTINGS}
            await actor.start(str(Path(sys.executable).with_name("todo-projection")), "worker", environment=environment)
        elif role is Role.WRITER:
            options = (self._url, actor.name, f"{self._seed} {actor.name}", str(actor.file), *sessions_of(place))
            await actor.start(sys.executable, "-m", "chaos.writer", *options, environment=environment)
        else:
            options = (self._url, str(actor.file), *SESSIONS)
            await actor.start(sys.executable, "-m", "chaos.viewer", *options, environment=environment)
        return actor

    async def kill(self, actor: Actor) -> None:
        """SIGKILL somebody; nobody takes the place."""
        await actor.kill()
        self.actors.remove(actor)
        self.ended.append(actor)

    async def dismiss(self, role: Role) -> list[str]:
        """SIGTERM to all of a role, which end by themselves; what is to be said against those that did not end well."""
        actors, found = self.of(role), list[str]()
        for actor in actors:
            actor.send(signal.SIGTERM)
        for actor in actors:
            code = await asyncio.wait_for(actor.process.wait(), ENDS_S)
            if code:
                found.append(f"{actor.name} ended with {code}:\n{actor.said.read_text()[-SAID_CHARS_MAX:]}")
            self.actors.remove(actor)
            self.ended.append(actor)
        return found

    def of(self, role: Role) -> list[Actor]:
        """Those on stage in a role."""
        return [actor for actor in self.actors if actor.role is role]

    def pick(self, pick: random.Random, role: Role) -> Actor:
        """The one in a place that the seed picks."""
        return pick.choice(sorted(self.of(role), key=lambda actor: actor.place))

    @property
    def fallen(self) -> list[str]:
        """Who ended otherwise than by our hand, or said what only a mistake of ours would, with the end of it."""
        found: list[str] = []
        for actor in (*self.actors, *self.ended):
            said, code = actor.said.read_text(errors="replace"), actor.process.returncode
            if actor in self.actors and code is not None:
                found.append(f"{actor.name} ended by itself, with {code}:\n{said[-SAID_CHARS_MAX:]}")
            elif "Traceback" in said:
                found.append(f"{actor.name} met a mistake of ours:\n{said[-SAID_CHARS_MAX:]}")
        return found
