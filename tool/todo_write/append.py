"""The protocol of one append call: what every try of it sends, and what an answer of ``append.lua`` means."""

import time as clock
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from todo_write.events import InvalidEvent, Position, encode_data, token

Given = tuple[str, Any] | tuple[str, Any, int]


class LogRewound(Exception):
    """The log went back: an event this writer knew is gone, by fail-over, restore or deletion. Raised once.

    ``expected`` and ``expected_op`` say what it knew, ``tail`` and ``tail_op`` what the server has now (None and ""
    for no log). The call's own events are not stored, unless ``maybe_stored``: then an earlier try of it got no
    answer. The next append goes on behind the server's tail; who wants the lost events back appends them again.
    """

    def __init__(
        self,
        expected: Position | None,
        expected_op: str,
        tail: Position | None,
        tail_op: str,
        *,
        session: str = "",
        maybe_stored: bool = False,
    ) -> None:
        self.expected = expected
        self.expected_op = expected_op
        self.tail = tail
        self.tail_op = tail_op
        self.session = session
        self.maybe_stored = maybe_stored
        super().__init__(
            f"the log of session {session!r} went back: it ended with {expected or 'nothing'} (op {expected_op!r}), "
            f"now it ends with {tail or 'nothing'} (op {tail_op!r}); events are lost: read it, then append again"
        )


class OutcomeUnknown(Exception):
    """Nobody can tell whether the events were stored; ``__cause__`` is the last error. Read the log before a repeat."""


class NotSaved(Exception):
    """The events are not stored; ``__cause__`` is the refusal. Append again when its reason is gone."""


class TooFast(NotSaved):
    """The session, or this process, appends more events a second than it may; nothing was sent.

    Append again in ``wait_s``.
    """

    def __init__(self, whose: str, per_s: int, wait_s: float) -> None:
        super().__init__(f"{whose} appends more than {per_s} events a second; again in {wait_s:.1f} s")
        self.wait_s = wait_s


class TooFewReplicas(NotSaved):
    """The primary lacks the replicas without which it takes no write (min-replicas-to-write): NOREPLICAS."""


class Overtaken(Exception):
    """Another writer appended behind the expected tail; nothing of this call is stored. Read on, then decide anew."""


class Moved(Exception):
    """Other writers appended meanwhile; the same call goes on behind the new tail."""


class Tail(NamedTuple):
    """The last event a writer believes in, by position *and* op; position None is "no log"."""

    position: Position | None
    op: str


NO_LOG = Tail(None, "")


class AppendCall:
    """One append call: all its tries carry the same ``op``, so that whichever lands, lands once. No input or output.

    ``fields`` are type, time in ms and data of each event, flat.
    """

    def __init__(self, session: str, tail: Tail, fields: Sequence[bytes]) -> None:
        self.session = session
        self.tail = tail
        self.op = token()
        self.landed_earlier = False
        self._fields = fields

    def arguments(self) -> list[str | bytes]:
        """ARGV of the next try."""
        expected = "new" if self.tail.position is None else str(self.tail.position)
        return [self.session, expected, self.tail.op, self.op, *self._fields]

    def read(self, answer: Sequence[bytes], *, maybe_stored: bool = False) -> list[Position]:
        """Positions of the appended events; ``tail`` is then the last of them.

        ``maybe_stored`` says whether an earlier try got no answer. Raises Moved (``tail`` has moved: try again),
        LogRewound and OutcomeUnknown (``tail`` is the server's: the call is over).
        """
        word = answer[0]
        if word in (b"ok", b"landed"):
            self.landed_earlier = word == b"landed"
            first, last = Position.parse(answer[1]), Position.parse(answer[2])
            self.tail = Tail(last, self.op)
            return [Position(first.epoch, seq) for seq in range(first.seq, last.seq + 1)]
        expected, self.tail = self.tail, _tail_from(answer[1], answer[2])
        if word == b"moved":
            raise Moved("other writers were faster")
        if word == b"rewound":
            raise LogRewound(*expected, *self.tail, session=self.session, maybe_stored=maybe_stored)
        if word == b"unknown":
            raise OutcomeUnknown(
                f"the log of session {self.session!r} was trimmed behind {expected.position or 'its start'}: "
                "whether an earlier try was stored can't be told; read it, then append again"
            )
        raise ValueError(f"append.lua answered {word!r}, which this version does not know")


def _tail_from(position: bytes, op: bytes) -> Tail:
    """A tail as an answer names it; raises ValueError for a position that none of ours has."""
    return Tail(Position.parse(position), op.decode("utf-8", "replace")) if position else NO_LOG


def event_fields(event: Given, *, bytes_max: int) -> list[bytes]:
    """Type, time in ms and data of an event as they go out; raises InvalidEvent."""
    type, data = event[0], event[1]
    time: Any = event[2] if len(event) == 3 else int(clock.time() * 1000)  # noqa: PLR2004  the third is the time
    if isinstance(time, bool) or not isinstance(time, int) or time < 0:
        raise InvalidEvent(f"event {type!r}: time is {time!r}; whole milliseconds since 1970 are allowed")
    if isinstance(data, msgspec.Raw):
        try:
            msgspec.json.decode(data)  # it is stored as it stands: nobody else would look
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidEvent(f"event {type!r}: data is not JSON: {error}") from None
    return [type.encode(), str(time).encode(), encode_data(type, data, bytes_max=bytes_max)]
