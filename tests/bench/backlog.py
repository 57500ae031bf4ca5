"""A backlog to be drained: every event already written, nothing of it read."""

from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import islice
from typing import Any, TypeVar

import redis

from bench.mix import Written
from todo_write.events import LAYOUT_VERSION, Keys

PIPELINE = 500
STREAM = "events"
OP = "benchmrk"

T = TypeVar("T")


class Logs:
    """Session logs and feeds, one append call an event, by the product's own script."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._epochs: dict[str, str] = {}
        self._seqs: dict[str, int] = {}
        client.hset(keys.meta, mapping={"layout": LAYOUT_VERSION, "partitions": keys.partitions})
        self._sha = client.script_load(files("todo_write").joinpath("append.lua").read_text())

    def load(self, events: Iterable[Written]) -> None:
        """Append them behind what is there."""
        seqs = self._seqs
        for batch in _batches(events, PIPELINE):
            # A log's epoch is known once its first event is in; the positions after it can be foretold in a pipeline.
            born = {event.session: event for event in reversed(batch) if event.session not in seqs}
            first = {id(event) for event in born.values()}
            self._append([(event, "new", "") for event in born.values()])
            seqs.update(dict.fromkeys(born, 0))
            calls: list[tuple[Written, str, str]] = []
            for event in batch:
                if id(event) in first:
                    continue
                calls.append((event, f"{self._epochs[event.session]}-{seqs[event.session]}", OP))
                seqs[event.session] += 1
            self._append(calls)

    def _append(self, calls: Sequence[tuple[Written, str, str]]) -> None:
        keys = self._keys
        with self._client.pipeline(transaction=False) as pipe:
            for event, expected, expected_op in calls:
                session = event.session
                names = (keys.log(session), keys.feed(keys.partition(session)), keys.row(session))
                told = (session, expected, expected_op, OP, event.type, "1764517000000", event.data)
                pipe.evalsha(self._sha, 3, *names, *told)
            replies: list[Any] = pipe.execute()
        for (event, *_), (word, first, *_) in zip(calls, replies, strict=True):
            if word != b"ok":
                raise RuntimeError(f"append.lua answered {word!r} for session {event.session}")
            self._epochs.setdefault(event.session, first.decode().partition("-")[0])


def load_logs(client: redis.Redis, keys: Keys, events: Iterable[Written]) -> None:
    """Fresh logs, and the pointers to them."""
    Logs(client, keys).load(events)


def load_stream(client: redis.Redis, events: Iterable[Written]) -> None:
    """One stream that holds the events whole."""
    for batch in _batches(events, PIPELINE):
        with client.pipeline(transaction=False) as pipe:
            for event in batch:
                pipe.xadd(STREAM, {"session": event.session, "type": event.type, "data": event.data})
            pipe.execute()


def _batches(events: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(events)
    while batch := list(islice(rest, size)):
        yield batch
