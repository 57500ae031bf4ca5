"""What one batch says of one session. Pure."""

from collections.abc import Iterable, Sequence

import msgspec

from todo_write.events import Position


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
    """

    __slots__ = ("last", "pointers", "session", "types")

    def __init__(self, session: str, pointers: Sequence[Pointer]) -> None:
        self.session = session
        self.pointers = pointers
        if len(pointers) == 1:  # 0.9 µs instead of 2.1
            (pointer,) = pointers
            self.types = {pointer.seq: pointer.type}
            self.last = Position(pointer.epoch, pointer.seq)
            return
        epochs = {pointer.epoch for pointer in pointers}
        epoch = max(epochs)
        newest = pointers if len(epochs) == 1 else [pointer for pointer in pointers if pointer.epoch == epoch]
        self.types = {pointer.seq: pointer.type for pointer in newest}
        self.last = Position(epoch, max(self.types))

    def reaching(self, last: Position) -> "Span":
        """The same pointers, for a row that is to be folded up to ``last`` whatever they point at."""
        span = Span(self.session, self.pointers)
        span.last = last
        return span

    @property
    def time_ms(self) -> int:
        """Feed time of the newest pointer (epoch ms)."""
        return self.pointers[-1].time_ms

    def whole_after(self, seq: int) -> bool:
        """Whether every event after ``seq`` up to the last is pointed at."""
        missing = self.last.seq - seq - len(self.types)
        return missing <= 0 and self.types.keys() >= set(range(seq + 1, self.last.seq + 1))


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
