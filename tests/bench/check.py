"""Whether a contender did its work: nothing left, and the right value for each session that is looked at."""

import random
from collections.abc import Iterable
from typing import Any

import msgspec
import redis

from bench.backlog import STREAM
from bench.mix import SEED, Written
from todo_write.events import GROUP, TODO_WRITE, TURN_START, Keys

SAMPLE = 300


class Undone(Exception):
    """A contender left work undone, or did it wrong; its figure is worth nothing."""


class Truth:
    """What a plain fold says of a sample of the sessions: the last plan, and how many events there were."""

    def __init__(self, events: Iterable[Written]) -> None:
        plans: dict[str, bytes] = {}
        counts: dict[str, int] = {}
        for event in events:
            counts[event.session] = counts.get(event.session, 0) + 1
            if event.type == TODO_WRITE:
                plans[event.session] = event.data
            elif event.type == TURN_START:
                plans[event.session] = b"null"
        self.sessions = len(counts)
        sample = random.Random(SEED).sample(sorted(counts), min(SAMPLE, len(counts)))
        self.plans = {session: plans.get(session) for session in sample}
        self.counts = {session: counts[session] for session in sample}


def check_rows(client: redis.Redis, keys: Keys, truth: Truth) -> None:
    """Raise Undone unless every feed is drained and the sampled rows are the fold of their events."""
    for partition in range(keys.partitions):
        feed = keys.feed(partition)
        left: Any = client.xlen(feed)
        pending: Any = client.xpending(feed, GROUP)
        if left or pending["pending"]:
            raise Undone(f"{feed} still holds {left} pointers, {pending['pending']} of them pending")
    for session, data in truth.plans.items():
        row: Any = client.hgetall(keys.row(session))
        plan = None if data in (None, b"null") else msgspec.json.decode(data)["todos"]
        if msgspec.json.decode(row[b"todos"]) != plan:
            raise Undone(f"session {session}: the row holds {row[b'todos']!r}, its events say {plan!r}")
        if int(row[b"pos"].partition(b"-")[2]) != truth.counts[session] - 1:
            raise Undone(f"session {session}: the row is at {row[b'pos']!r} after {truth.counts[session]} events")


def check_plans(client: redis.Redis, truth: Truth) -> None:
    """Raise Undone unless the stream is read and acknowledged to its end and the sampled values are the last ones."""
    groups: Any = client.xinfo_groups(STREAM)
    stream: Any = client.xinfo_stream(STREAM)
    (group,) = groups
    if group["pending"] or group["last-delivered-id"] != stream["last-generated-id"]:
        raise Undone(f"{group['pending']} events pending, read up to {group['last-delivered-id']!r}")
    for session, data in truth.plans.items():
        stored = client.hget(f"plan:{session}", "todos")
        if stored not in (data, b"null" if data is None else data):
            raise Undone(f"session {session}: {stored!r} is stored, its events say {data!r}")
