"""One line that ``todo-write serve`` reads: what it asks for."""

import json
from typing import Any

import msgspec

EMPTY = msgspec.Raw(b"{}")

Id = str | int


class Call(msgspec.Struct):
    """A call of the tool; ``arguments`` is any JSON value."""

    id: Id
    session: str | None
    arguments: Any


class Append(msgspec.Struct):
    """An event to be appended, its data as it stands."""

    id: Id
    session: str
    type: str
    data: msgspec.Raw


class BadLine(ValueError):
    """The line asks for nothing that can be done; ``id`` is its id, None when it has none. Nobody retries."""

    def __init__(self, id: Id | None, reason: str) -> None:
        self.id = id
        super().__init__(reason)


class _CallLine(msgspec.Struct):
    id: Id
    call: Any
    session: str | None = None


class _Line(msgspec.Struct):
    id: Id
    session: str | None = None
    call: Any = msgspec.UNSET
    type: str | msgspec.UnsetType = msgspec.UNSET
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Identified(msgspec.Struct):
    id: Id


_lines = msgspec.json.Decoder(_Line)
_identified = msgspec.json.Decoder(_Identified)


def read_request(line: bytes, session: str | None = None) -> Call | Append:
    """The request of a line; ``session`` stands in where it names none. Raises BadLine."""
    asked = _read_line(line)
    session = session if asked.session is None else asked.session
    if asked.call is not msgspec.UNSET and asked.type is msgspec.UNSET and asked.data is msgspec.UNSET:
        return Call(asked.id, session, asked.call)
    if asked.call is not msgspec.UNSET or not isinstance(asked.type, str):
        raise BadLine(asked.id, "a request has either `call`, or `type` and `data`")
    if session is None:
        raise BadLine(asked.id, "`session` is missing")
    return Append(asked.id, session, asked.type, asked.data if isinstance(asked.data, msgspec.Raw) else EMPTY)


def _read_line(line: bytes) -> _Line:
    try:
        return _lines.decode(line.decode())  # data is passed on as it stands, so it is looked at here or nowhere
    except (ValueError, RecursionError) as error:
        found = error
    try:
        # msgspec reads neither a lone surrogate nor a number beyond a float; the tool has a text for a call with one.
        asked = msgspec.convert(json.loads(line), _CallLine)
    except (ValueError, RecursionError):
        raise BadLine(_id_of(line), str(found)) from None
    return _Line(asked.id, asked.session, asked.call)


def _id_of(line: bytes) -> Id | None:
    try:
        return _identified.decode(line).id
    except (ValueError, RecursionError):
        return None
