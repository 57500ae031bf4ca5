"""The append protocol against a pure model: delayed and lost requests, fail-overs, trims, deletions, two writers.

The network, the server's loss of its newest writes and other writers are played by rules; the script and the writer's
side of the protocol are the real ones. Whatever happens: an accepted event stands in the log once, in order and without
a gap, or its writer has been told; and the script's answers are those of the model.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import todo_write
from servers import Server
from todo_write.append import NO_LOG, AppendCall, LogRewound, Moved, OutcomeUnknown, Tail
from todo_write.events import Keys, Position

SCRIPT = (Path(todo_write.__file__).parent / "append.lua").read_text()
DELETE = (Path(todo_write.__file__).parent / "delete.lua").read_text()
SESSION = "s1"
FUTURE = 4_000_000_000_000  # a row's epoch above every clock: then epochs repeat exactly after a fail-over
FIRST_EVENTS, BEGUN_MAX = 8, 32  # how much a tombstone knows of the calls that began deleted logs
WRITERS = st.integers(0, 1)
COUNTS = st.sampled_from([1, 1, 1, 2, 3])


@dataclass(frozen=True)
class Line:
    """An entry of the model's log."""

    position: Position
    op: str
    part: int


@dataclass(frozen=True)
class Model:
    """What a server holds: the log from its first kept entry on, and the highest epoch its row remembers.

    ``deleted`` are the last logs that were deleted, the newest first.
    """

    log: tuple[Line, ...] = ()
    floor: int = 0
    deleted: tuple[tuple[Line, ...], ...] = ()

    @property
    def begun(self) -> list[str]:
        """Ops of calls that must not begin another log, as far as a tombstone knows them."""
        first = (line.op for log in self.deleted for line in log[:FIRST_EVENTS])
        return list(dict.fromkeys(first))[:BEGUN_MAX]

    def at(self, position: Position) -> Line | None:
        return next((line for line in self.log if line.position == position), None)

    def append(self, call: "Request", epoch: int) -> "tuple[Model, str]":
        """The state after one request and the word it is answered with; ``epoch`` is what a new log would get."""
        if not self.log:
            begins = call.expected is None and call.op not in self.begun
            return (self._grown(call, epoch, 0), "ok") if begins else (self, "rewound")
        tail = self.log[-1]
        expected = call.expected or Position(tail.position.epoch, -1)
        if tail.position == expected and tail.op == call.expected_op:
            return self._grown(call, expected.epoch, expected.seq + 1), "ok"
        if tail.position <= expected or tail.position.epoch != expected.epoch:
            return self, "rewound"
        return self, self._of_a_place_that_is_taken(call, expected)

    def _of_a_place_that_is_taken(self, call: "Request", expected: Position) -> str:
        wanted = [self.at(Position(expected.epoch, expected.seq + 1 + part)) for part in range(call.count)]
        if wanted[0] is None:
            return "unknown"
        if wanted[0].op == call.op:
            return "landed" if all(line and line.op == call.op for line in wanted) else "rewound"
        if call.expected is None and call.op in self.begun:
            return "rewound"
        before = self.at(expected)
        if call.expected is None or (before and before.op == call.expected_op):
            return "moved"
        return "unknown" if before is None else "rewound"

    def _grown(self, call: "Request", epoch: int, seq: int) -> "Model":
        new = (Line(Position(epoch, seq + part), call.op, part) for part in range(call.count))
        return replace(self, log=(*self.log, *new))


@dataclass(frozen=True)
class Request:
    """One try on its way."""

    arguments: list[str | bytes]
    expected: Position | None
    expected_op: str
    op: str
    count: int


@dataclass
class Writer:
    """One writer: what it believes in, the call it is at, and what it was told is stored."""

    tail: Tail | None = None
    call: AppendCall | None = None
    count: int = 0
    accepted: dict[Position, str] = field(default_factory=dict[Position, str])


class AppendMachine(RuleBasedStateMachine):
    """Two writers and one session; ``wire`` holds the tries that are still under way."""

    def __init__(self, client: Any, keys: Keys) -> None:
        super().__init__()
        partition = keys.partition(SESSION)
        self._client = client
        self._keys = [keys.log(SESSION), keys.feed(partition), keys.row(SESSION)]
        self._deletes = [keys.log(SESSION), keys.row(SESSION)]
        self._deletes += [keys.recent(partition), keys.working(partition), keys.stale(partition)]
        self._channel = keys.channel(SESSION)
        self.writers = [Writer(), Writer()]
        self.wire: list[Request] = []
        self.model = Model()
        self.copies: list[tuple[Model, list[bytes | None]]] = []
        self._client.delete(*self._keys, *self._deletes)

    @initialize(repeating_epochs=st.booleans())
    def begin(self, repeating_epochs: bool) -> None:
        if repeating_epochs:
            self._set_floor(FUTURE)
        self._copy()

    # What writers do and hear.

    @rule(number=WRITERS, count=COUNTS)
    def try_and_hear(self, number: int, count: int) -> None:
        writer = self.writers[number]
        request = self._next_try(writer, count)
        answer = self._deliver(request)
        assert writer.call
        expected = Tail(request.expected, request.expected_op)
        try:
            positions = writer.call.read(answer)
        except Moved:
            assert self._stands(expected)
            return
        except LogRewound as told:
            self._check_a_loss_is_real(told, request)
            writer.accepted.clear()
        except OutcomeUnknown:
            assert self.model.log[0].position.seq > 0
            writer.accepted.clear()
        else:
            writer.accepted |= dict.fromkeys(positions, request.op)
            assert len(positions) == request.count
            self._check_nothing_was_lost_untold(writer)
        self._end(writer)

    @rule(number=WRITERS, count=COUNTS)
    def try_and_hear_nothing(self, number: int, count: int) -> None:
        self._deliver(self._next_try(self.writers[number], count))

    @rule(number=WRITERS, count=COUNTS)
    def try_and_be_slow(self, number: int, count: int) -> None:
        self.wire.append(self._next_try(self.writers[number], count))

    @rule(number=WRITERS)
    def give_up(self, number: int) -> None:
        writer = self.writers[number]
        if writer.call:
            self._end(writer)

    # What happens meanwhile.

    @precondition(lambda self: self.wire)
    @rule(data=st.data())
    def a_slow_try_arrives(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.wire) - 1), label="which")
        self._deliver(self.wire.pop(index))

    @precondition(lambda self: len(self.copies) > 1)
    @rule(data=st.data())
    def fail_over(self, data: st.DataObject) -> None:
        lost = data.draw(st.integers(1, min(len(self.copies) - 1, 4)), label="newest writes that are lost")
        del self.copies[-lost:]
        self.model, dumps = self.copies[-1]
        with self._client.pipeline(transaction=False) as pipe:
            pipe.delete(*self._keys)
            for key, dump in zip(self._keys, dumps, strict=True):
                if dump is not None:
                    pipe.restore(key, 0, dump)
            pipe.execute()

    @precondition(lambda self: len(self.model.log) > 1)
    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        gone = data.draw(st.integers(1, len(self.model.log) - 1), label="oldest entries that go")
        self._client.xtrim(self._keys[0], minid=str(self.model.log[gone].position), approximate=False)
        self.model = replace(self.model, log=self.model.log[gone:])
        self._copy()

    @precondition(lambda self: self.model.log)
    @rule()
    def delete(self) -> None:
        epoch = self.model.log[-1].position.epoch
        arguments = [SESSION, "etag", "PUBLISH", self._channel, "600000", str(epoch)]
        assert self._client.eval(DELETE, 5, *self._deletes, *arguments) == b"deleted"
        deleted = (self.model.log, *self.model.deleted)
        self.model = Model((), max(self.model.floor, epoch), deleted)
        self._copy()

    @precondition(lambda self: self.model.log)
    @rule()
    def a_worker_folds(self) -> None:
        self._set_floor(max(self.model.floor, self.model.log[-1].position.epoch))
        self._copy()

    # What always holds.

    @invariant()
    def the_log_is_the_models_and_each_event_stands_once_with_one_pointer(self) -> None:
        with self._client.pipeline(transaction=False) as pipe:
            pipe.xrange(self._keys[0]).xrange(self._keys[1])
            entries, pointers = pipe.execute()
        found = [Line(Position.parse(id), fields[b"op"].decode(), int(fields[b"data"])) for id, fields in entries]
        assert tuple(found) == self.model.log
        if found:
            first = found[0].position
            assert [line.position for line in found] == [
                Position(first.epoch, first.seq + n) for n in range(len(found))
            ]
        assert max(Counter((line.op, line.part) for line in found).values(), default=1) == 1
        again = set(self.model.begun) & {line.op for line in found}
        assert not again, "an event that was deleted with its log stands in another one"
        pointed = Counter((fields[b"i"].decode(), fields[b"o"].decode()) for _, fields in pointers)
        assert all(pointed[str(line.position), line.op] == 1 for line in found)

    def _check_nothing_was_lost_untold(self, writer: Writer) -> None:
        kept = self.model.log[0].position
        for position, op in writer.accepted.items():
            assert position.epoch == kept.epoch
            line = self.model.at(position)
            assert position < kept or (line and line.op == op)

    def _check_a_loss_is_real(self, told: LogRewound, request: Request) -> None:
        expected = Tail(told.expected, told.expected_op)
        assert expected == (request.expected, request.expected_op)
        in_part = 0 < sum(line.op == request.op for line in self.model.log) < request.count
        deleted = request.expected is None and request.op in self.model.begun
        assert in_part or deleted or not self._stands(expected)

    def _stands(self, expected: Tail) -> bool:
        if expected.position is None:
            return bool(self.model.log)
        line = self.model.at(expected.position)
        return line is not None and line.op == expected.op

    def _next_try(self, writer: Writer, count: int) -> Request:
        """A try of the call the writer is at, else of a new call with this number of events."""
        if writer.call is None:
            if writer.tail is None:
                writer.tail = Tail(self.model.log[-1].position, self.model.log[-1].op) if self.model.log else NO_LOG
            fields = [field for part in range(count) for field in (b"x", b"0", str(part).encode())]
            writer.call, writer.count = AppendCall(SESSION, writer.tail, fields), count
        call = writer.call
        return Request(call.arguments(), call.tail.position, call.tail.op, call.op, writer.count)

    def _end(self, writer: Writer) -> None:
        assert writer.call
        writer.tail, writer.call = writer.call.tail, None

    def _deliver(self, request: Request) -> list[bytes]:
        answer: list[bytes] = self._client.eval(SCRIPT, 3, *self._keys, *request.arguments)
        word, first, second = (part.decode() for part in answer)
        epoch = Position.parse(first).epoch if word == "ok" else 0
        after, expected_word = self.model.append(request, epoch)
        assert word == expected_word
        if word == "ok":
            assert self.model.log or epoch > self.model.floor
            assert [line.position for line in after.log][-1] == Position.parse(second)
        elif word != "landed":
            tail = self.model.log[-1] if self.model.log else None
            assert (first, second) == ((str(tail.position), tail.op) if tail else ("", ""))
        if after != self.model:
            self.model = after
            self._copy()
        return answer

    def _copy(self) -> None:
        with self._client.pipeline(transaction=False) as pipe:
            for key in self._keys:
                pipe.dump(key)
            self.copies.append((self.model, pipe.execute()))

    def _set_floor(self, epoch: int) -> None:
        self._client.hset(self._keys[2], mapping={"pos": f"{epoch}-0", "units": "todos:2"})
        self.model = replace(self.model, floor=epoch)


def test_an_accepted_event_stands_once_in_order_or_its_loss_is_told(server: Server, namespace: str) -> None:
    with server.connect() as client:

        class Machine(AppendMachine):
            def __init__(self) -> None:
                super().__init__(client, Keys(namespace))

        run_state_machine_as_test(Machine, settings=settings(max_examples=200, stateful_step_count=50, deadline=None))
