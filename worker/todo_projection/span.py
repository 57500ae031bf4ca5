"""What one batch says of one session. Pure."""

from collections.abc import Iterable, Sequence

import msgspec

from todo_write.events import Position

OP_LENGTH_MAX = 32  # ours have 8 characters; of a longer one nothing is kept


class Pointer(msgspec.Struct, frozen=True, gc=False):
    """One entry of a feed: where it stands there, and the event it points at, by session, epoch, seq, op and type.

    There is one for every event, so it is flat and a Struct: made in a third of the time of nested named tuples.
    """

    id: bytes
    session: str
    epoch: int
    seq: int
    op: bytes
    type: str

    @property
    def position(self) -> Position:
        """Where the event stands in its log."""
        return Position(self.epoch, self.seq)

    @property
    def time_ms(self) -> int:
        """Server time at which the event was appended (epoch ms)."""
        return int(self.id.partition(b"-")[0])


class Gap(Exception):
    """The log does not hold, whole and in one epoch, what is to be folded; ``seq`` is the first event missing.

    The text depends on the log at that place alone, so that every later look at it gives the same.
    """

    def __init__(self, seq: int, text: str) -> None:
        super().__init__(text)
        self.seq = seq


class Span:
    """The pointers of one session in one batch, and what they say of its newest log.

    ``pointers`` come in the order of the feed, with any positions, some of them twice. ``types`` maps each seq of the
    newest epoch that is pointed at to its event type; pointers of an older epoch are only there to be acknowledged.
    ``op`` is that of the last event, '' where nothing tells it.
    """

    __slots__ = ("last", "op", "pointers", "session", "types")

    def __init__(self, session: str, pointers: Sequence[Pointer]) -> None:
        self.session = session
        self.pointers = pointers
        if len(pointers) == 1:  # 0.9 µs instead of 2.1
            (pointer,) = pointers
            self.types = {pointer.seq: pointer.type}
            self.last = Position(pointer.epoch, pointer.seq)
            self.op = _text(pointer.op)
            return
        epochs = {pointer.epoch for pointer in pointers}
        epoch = max(epochs)
        newest = pointers if len(epochs) == 1 else [pointer for pointer in pointers if pointer.epoch == epoch]
        self.types = {pointer.seq: pointer.type for pointer in newest}
        self.last = Position(epoch, max(self.types))
        final = pointers[-1]
        self.op = _text(final.op) if final.position == self.last else self.op_at(self.last)

    def op_at(self, position: Position) -> str:
        """The op of the event there, by the newest pointer to it; '' where none tells it."""
        for pointer in reversed(self.pointers):
            if pointer.seq == position.seq and pointer.epoch == position.epoch:
                return _text(pointer.op)
        return ""

    def reaching(self, last: Position) -> "Span":
        """The same pointers, for a row that is to be folded up to ``last`` whatever they point at."""
        span = Span(self.session, self.pointers)
        span.last, span.op = last, self.op_at(last)
        return span

    @property
    def time_ms(self) -> int:
        """Feed time of the newest pointer (epoch ms)."""
        return self.pointers[-1].time_ms

    def whole_after(self, seq: int) -> bool:
        """Whether every event after ``seq`` up to the last is pointed at."""
        missing = self.last.seq - seq - len(self.types)
        return missing <= 0 and self.types.keys() >= set(range(seq + 1, self.last.seq + 1))


def _text(op: bytes) -> str:
    return op.decode() if op.isascii() and len(op) <= OP_LENGTH_MAX else ""


def spans_of(pointers: Iterable[Pointer]) -> dict[str, Span]:
    """Pointers grouped by session, in order of first appearance."""
    found: dict[str, list[Pointer]] = {}
    for pointer in pointers:
        of_one = found.get(pointer.session)
        if of_one is None:
            found[pointer.session] = [pointer]
        else:
            of_one.append(pointer)
    return {session: Span(session, of_one) for session, of_one in found.items()}
