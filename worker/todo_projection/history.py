"""Events of session logs, read for the fold: single ones of many sessions at once, or all of one in pages."""

from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import groupby
from typing import Any

from redis.exceptions import ResponseError

from todo_projection.span import Span
from todo_projection.wire import Command, Wire
from todo_write.events import Entry, Event, Keys, Position, Unsound, decode_entry

PAGE_EVENTS = 500


class Gap(Exception):
    """The log does not hold, without a hole and in one epoch what is to be folded; ``seq`` is the first one missing."""

    def __init__(self, seq: int, text: str) -> None:
        super().__init__(text)
        self.seq = seq


class History:
    """Reads logs; raises redis errors, retried by the worker."""

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire = wire
        self._keys = keys

    async def fetch(self, wanted: Iterable[tuple[Span, Sequence[int]]]) -> dict[str, list[Event]]:
        """The events at these seqs of each span's epoch, by session, in one round trip; missing ones are left out."""
        reads: list[Command] = []
        found: dict[str, list[Event]] = {}
        owners: list[str] = []
        for span, seqs in wanted:
            found[span.session] = []
            for first, last in _runs(seqs):
                epoch = span.last.epoch
                reads.append(("XRANGE", self._keys.log(span.session), f"{epoch}-{first}", f"{epoch}-{last}"))
                owners.append(span.session)
        for session, reply in zip(owners, await self._wire.pipeline(reads), strict=True):
            found[session] += (entry.event for entry in _entries(reply))
        return found

    async def events(self, span: Span, after: int) -> AsyncIterator[Event]:
        """Every event of the span's epoch after seq ``after`` up to its last, page by page; raises Gap."""
        key, epoch, expected = self._keys.log(span.session), span.last.epoch, after + 1
        while expected <= span.last.seq:
            start, end = f"{epoch}-{expected}", str(span.last)
            (reply,) = await self._wire.pipeline([("XRANGE", key, start, end, "COUNT", PAGE_EVENTS)])
            first = expected
            for position, _, event in _entries(reply):
                if position != Position(epoch, expected):
                    raise Gap(expected, f"event {expected} is missing from the log; {position} comes next")
                expected += 1
                yield event
            if expected == first:
                raise Gap(expected, f"event {expected} is missing from the log or is not one")

    def check(self, span: Span, events: Sequence[Event], wanted: Sequence[int]) -> None:
        """Raise Gap when an event that was asked for is not there."""
        if len(events) != len(wanted):
            seq = min(set(wanted) - {event.seq for event in events})
            raise Gap(seq, f"event {seq} of epoch {span.last.epoch} is missing from the log")


def _runs(seqs: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Ascending seqs as (first, last) of each unbroken run."""
    for _, run in groupby(enumerate(seqs), key=lambda pair: pair[1] - pair[0]):
        members = [seq for _, seq in run]
        yield members[0], members[-1]


def _entries(reply: Any) -> Iterable[Entry]:
    """Entries of a reply; an unreadable one, or a key that is no stream, ends them, which the caller sees as a gap."""
    if isinstance(reply, ResponseError) and str(reply).startswith("WRONGTYPE"):
        return
    if isinstance(reply, Exception):
        raise reply
    for id, fields in reply:
        try:
            entry = decode_entry(id, fields)
        except Unsound:
            return
        yield entry
