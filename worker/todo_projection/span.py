"""What one batch says of one session. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from todo_write.events import Position


class Pointer(NamedTuple):
    """One entry of a feed: where it stands there, and the event it points at."""

    id: bytes
    session: str
    position: Position
    op: bytes
    type: str

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

    ``types`` maps each seq of the newest epoch that is pointed at to its event type; pointers of an older epoch are
    only there to be acknowledged.
    """

    __slots__ = ("last", "pointers", "session", "types")

    def __init__(self, session: str) -> None:
        self.session = session
        self.pointers: list[Pointer] = []
        self.last = Position(0, -1)
        self.types: dict[int, str] = {}

    def add(self, pointer: Pointer) -> None:
        """Count a pointer in; any order, duplicates welcome."""
        self.pointers.append(pointer)
        epoch, seq = pointer.position
        if epoch > self.last.epoch:
            self.types.clear()
            self.last = pointer.position
        elif epoch < self.last.epoch:
            return
        elif seq > self.last.seq:
            self.last = pointer.position
        self.types[seq] = pointer.type

    @property
    def time_ms(self) -> int:
        """Feed time of the newest pointer (epoch ms)."""
        return max(pointer.time_ms for pointer in self.pointers)

    def whole_after(self, seq: int) -> bool:
        """Whether every event after ``seq`` up to the last is pointed at."""
        return sum(pointed > seq for pointed in self.types) == self.last.seq - seq


def spans_of(pointers: Iterable[Pointer]) -> dict[str, Span]:
    """Pointers grouped by session, in order of first appearance."""
    spans: dict[str, Span] = {}
    for pointer in pointers:
        span = spans.get(pointer.session)
        if span is None:
            span = spans[pointer.session] = Span(pointer.session)
        span.add(pointer)
    return spans
