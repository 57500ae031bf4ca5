"""Session files of the upstream harness: a header line with the session's id, then its events, one a line."""

from collections.abc import Iterator

import msgspec

from todo_write.events import SESSION_START, InvalidEvent, encode_data
from todo_write.transcript import Draft, Line, Malformed, Refused, Skipped, compact, encode, epoch_ms, parse

HEADER = "session"


class _Header(msgspec.Struct):
    id: str
    parentSession: str | None = None  # noqa: N815  the file's own word
    cwd: str | None = None
    label: str | None = None
    createdAt: float | None = None  # noqa: N815  the file's own word


class _Event(msgspec.Struct):
    type: str
    data: msgspec.Raw
    time: float | None = None


class _Typed(msgspec.Struct):
    type: str


def read_upstream(lines: Iterator[Line], session: str | None) -> Iterator[Draft | Skipped]:
    """Drafts of all events, ``session`` instead of the header's id when given; the header becomes ``session/start``.

    A time is the event's own, else the header's. Raises Refused for events whose session nobody names.
    """
    reader = _Reader(session)
    for line in lines:
        try:
            yield reader.draft(line)
        except (Malformed, InvalidEvent) as error:
            yield Skipped(line.number, str(error))


class _Reader:
    def __init__(self, session: str | None) -> None:
        self._session = session
        self._began = False  # a header, or an event without one, has been read
        self._created: int | None = None

    def draft(self, line: Line) -> Draft:
        if parse(line, _Typed).type == HEADER:
            return self._start(line)
        event = parse(line, _Event)
        time = epoch_ms(event.time)
        data = compact(event.data)
        encode_data(event.type, data)
        if self._session is None:
            raise Refused(f"line {line.number} is an event, but no header names its session: give it with --session")
        self._began = True
        return Draft(
            self._session, event.type, data, line.number, self._created if time is None else time, time is not None
        )

    def _start(self, line: Line) -> Draft:
        if self._began:
            raise Malformed("a second header: one file holds one session, and its header comes first")
        header = parse(line, _Header)
        self._created = epoch_ms(header.createdAt)
        self._session = self._session or header.id
        self._began = True
        named = {"parentSession": header.parentSession, "cwd": header.cwd, "label": header.label}
        data = encode({name: value for name, value in named.items() if value is not None})
        return Draft(self._session, SESSION_START, data, line.number, self._created, dated=self._created is not None)
