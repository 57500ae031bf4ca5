"""Sessions that are stored and idle: written by the product's own script, projected by its own worker."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.resources import files
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import redis

from bench.backlog import OP, PIPELINE
from bench.check import Undone
from bench.measure import Job, Measurement
from bench.mix import ITEMS, SEED
from todo_write.events import LAYOUT_VERSION, TODO_WRITE, TURN_END, TURN_START, Keys

EVENTS_EACH = 3
TIME_MS = b"1764517000000"
DRAIN_S_MAX = 1800.0


def names(count: int) -> list[str]:
    """Session ids as hosts give them: 36 characters."""
    dice = Random(SEED)
    return [str(UUID(int=dice.getrandbits(128))) for _ in range(count)]


def fill(client: redis.Redis, keys: Keys, sessions: Sequence[str], *, done: bool) -> Iterator[int]:
    """Three events a session: a turn with a plan of eight items, all of them ``done`` or one in progress.

    Yields how many are written, now and then.
    """
    client.hset(keys.meta, mapping={"layout": LAYOUT_VERSION, "partitions": keys.partitions})
    sha = client.script_load(files("todo_write").joinpath("append.lua").read_text())
    begin = (TURN_START, TIME_MS, b'{"turn":1}')
    plan = (TODO_WRITE, TIME_MS, _plan(done=done))
    end = (TURN_END, TIME_MS, b'{"turn":1,"reason":{"kind":"completed"}}')
    events = (*begin, *plan, *end)
    for at in range(0, len(sessions), PIPELINE):
        with client.pipeline(transaction=False) as pipe:
            for name in sessions[at : at + PIPELINE]:
                where = (keys.log(name), keys.feed(keys.partition(name)), keys.row(name))
                pipe.evalsha(sha, 3, *where, name, "new", "", OP, *events)
            replies: list[Any] = pipe.execute()
        if any(word != b"ok" for word, *_ in replies):
            raise RuntimeError("append.lua refused a fresh log")
        yield min(at + PIPELINE, len(sessions))


def drain(url: str, events: int) -> Measurement:
    """A worker in a process of its own projects so many events; raises Undone."""
    job = msgspec.json.encode(Job("worker", url, events)).decode()
    command = [sys.executable, "-m", "bench.contender", job]
    done = subprocess.run(command, capture_output=True, check=False, timeout=DRAIN_S_MAX)
    if done.returncode:
        raise Undone(done.stderr.decode())
    return msgspec.json.decode(done.stdout, type=Measurement)


def used_bytes(client: redis.Redis) -> int:
    """Memory of the server, once nothing is left to be freed in the background."""
    while True:
        info: dict[str, int] = client.info("memory")
        if not info.get("lazyfree_pending_objects"):
            return info["used_memory"]


def _plan(*, done: bool) -> bytes:
    statuses = ["completed"] * ITEMS if done else ["completed"] * 3 + ["in_progress"] + ["pending"] * 4
    todos = [{"content": f"Plan 12, step {n + 1}: look, mend, test", "status": of} for n, of in enumerate(statuses)]
    return msgspec.json.encode({"todos": todos})
