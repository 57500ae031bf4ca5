"""The processes of a run: started, stopped in their tracks, killed, and none of them left behind."""

import asyncio
import itertools
import os
import random
import signal
from pathlib import Path
from typing import Self

from chaos import viewer, writer
from chaos.actor import Actor, Role
from chaos.script import NAMESPACE, SESSIONS, VIEWERS, WORKER_SETTINGS, WORKERS, WRITERS, sessions_of
from todo_projection import start

ENDS_S = 30.0
LINES_PER_S_MAX = 100.0


class Cast:
    """Everybody on stage, ``async with`` it; ``ended`` are those that are gone, ``actors`` those that are there."""

    def __init__(self, url: str, folder: Path, seed: int) -> None:
        self.actors: list[Actor] = []
        self.ended: list[Actor] = []
        self._badly: list[str] = []
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
        if role is Role.WORKER:
            environment |= {"TODO_REDIS_URL": self._url, "TODO_NAMESPACE": NAMESPACE, **WORKER_SETTINGS}
            actor.start(start.main, "worker", environment=environment)
        elif role is Role.WRITER:
            options = (self._url, actor.name, f"{self._seed} {actor.name}", str(actor.file), *sessions_of(place))
            actor.start(writer.play, *options, environment=environment)
        else:
            options = (self._url, str(actor.file), *SESSIONS)
            actor.start(viewer.play, *options, environment=environment)
        self.actors.append(actor)
        return actor

    async def kill(self, actor: Actor) -> None:
        """SIGKILL somebody; nobody takes the place."""
        await actor.kill()
        self.actors.remove(actor)
        self.ended.append(actor)

    async def dismiss(self, *actors: Actor) -> None:
        """SIGTERM, after which they end by themselves, with exit code 0; ``fallen`` tells of those that do not."""
        for actor in actors:
            actor.send(signal.SIGCONT)
            actor.send(signal.SIGTERM)
        for actor in actors:
            try:
                code = await asyncio.wait_for(actor.process.wait(), ENDS_S)
            except TimeoutError:
                await actor.kill()
                code = -signal.SIGKILL
            if code and (code != -signal.SIGTERM or actor.has_begun):
                self._badly.append(f"{actor.name} was asked to end, and did with {code}:\n{actor.end}")
            self.actors.remove(actor)
            self.ended.append(actor)

    def of(self, role: Role) -> list[Actor]:
        """Those on stage in a role."""
        return [actor for actor in self.actors if actor.role is role]

    def pick(self, pick: random.Random, role: Role) -> Actor:
        """The one in a place that the seed picks."""
        return pick.choice(sorted(self.of(role), key=lambda actor: actor.place))

    @property
    def fallen(self) -> list[str]:
        """Who ended otherwise than by our hand, or said what only a mistake of ours would, with the end of it."""
        found = list(self._badly)
        for actor in (*self.actors, *self.ended):
            said, code = actor.said.read_text(errors="replace"), actor.process.returncode
            lines, lived_s = said.count("\n"), max(1.0, actor.lived_s)
            if actor in self.actors and code is not None:
                found.append(f"{actor.name} ended by itself, with {code}:\n{actor.end}")
            elif "Traceback" in said:
                found.append(f"{actor.name} met a mistake of ours:\n{actor.end}")
            elif lines / lived_s > LINES_PER_S_MAX:
                found.append(f"{actor.name} spins: {lines} lines in {lived_s:.1f} s:\n{actor.end}")
        return found
