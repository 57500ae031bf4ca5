"""The conformance vectors of append.lua, in a test's own namespace: what stands there before, a call, what follows."""

import json
from pathlib import Path
from typing import Any

import msgspec
from redis.asyncio import Redis
from redis.exceptions import ResponseError

import todo_write
from stored import Stored

SCRIPT = (Path(todo_write.__file__).parent / "append.lua").read_text(encoding="utf-8")
FOLDER = Path(__file__).parent / "conformance"

Keys3 = tuple[str, str, str]


class Step(msgspec.Struct):
    """Something done before the call: another call of the script, or a plain command."""

    argv: list[str] | None = None
    command: list[str] | None = None


class Vector(msgspec.Struct):
    """One line of ``append.jsonl``. ``feed`` has the pointers without their own ids, which are server time."""

    name: str
    prior: list[Step]
    keys: Keys3
    argv: list[str]
    log: list[tuple[str, dict[str, str]]]
    feed: list[dict[str, str]]
    reply: list[str] | None = None
    error: str | None = None

    def within(self, namespace: str) -> "Vector":
        """The same vector under another namespace than ``todo``."""
        moved = json.dumps(msgspec.to_builtins(self)).replace("todo:{", f"{namespace}:{{")
        return msgspec.json.decode(moved, type=Vector)

    async def ask(self, redis: Redis) -> list[str] | str:
        """The server's answer: the words of the reply, or the text of the error."""
        server: Any = redis  # typed for str and bytes alike
        try:
            return [word.decode() for word in await server.eval(SCRIPT, 3, *self.keys, *self.argv)]
        except ResponseError as error:
            return str(error)

    def check_answer(self, answer: list[str] | str) -> None:
        """Compare an answer with the one the vector says. Clients cut ERR off, and servers say more behind an error."""
        if self.error is None:
            assert answer == self.reply
        else:
            assert isinstance(answer, str)
            assert self.error.removeprefix("ERR ") in answer

    async def prepare(self, redis: Redis) -> None:
        """Bring about what stands there before the call."""
        server: Any = redis  # typed for str and bytes alike
        for step in self.prior:
            if step.command is not None:
                await server.execute_command(*step.command)
            else:
                await server.eval(SCRIPT, 3, *self.keys, *(step.argv or []))

    async def check_what_stands(self, redis: Redis, namespace: str) -> None:
        """Compare log and feed with what the vector says; a key that is no stream holds no entries."""
        stored = Stored(redis, namespace, self.argv[0])
        assert (stored.log, stored.feed, stored.row) == self.keys
        found = [await redis.type(key) == b"stream" for key in self.keys[:2]]
        assert (await stored.entries() if found[0] else []) == self.log
        assert (await stored.pointers() if found[1] else []) == self.feed


LINES = (FOLDER / "append.jsonl").read_text(encoding="utf-8").splitlines()
VECTORS = [msgspec.json.decode(line, type=Vector) for line in LINES]
