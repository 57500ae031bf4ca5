"""A transcript: lines of JSON, read one at a time with bounded memory, and what its reader makes of them."""

from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, TypeVar

import msgspec

LINE_BYTES_MAX = 32 * 1024 * 1024

T = TypeVar("T")

_BOM = b"\xef\xbb\xbf"


class Malformed(ValueError):
    """A line that can't be read as what it should be; the message says why. Reported and skipped."""


class Refused(ValueError):
    """A file, or a session of it, that can't be imported; the message says why and what to do."""


class Line(NamedTuple):
    """One line: its number from 1, its text (None when it is too long to be held), where the next one starts.

    ``ended`` is False for a last line without a line end: it may be cut off.
    """

    number: int
    text: bytes | None
    end: int
    ended: bool


class Draft(NamedTuple):
    """An event to be appended, and the line it comes from.

    ``time`` is in epoch ms, None when nothing tells it; ``dated`` says that the line itself does.
    """

    session: str
    type: str
    data: msgspec.Raw
    line: int
    time: int | None
    dated: bool


class Skipped(msgspec.Struct, frozen=True):
    """A line that gave no event although it should have, and why."""

    line: int
    reason: str


def read_lines(file: BinaryIO) -> Iterator[Line]:
    """Every line that is not blank; a byte order mark is dropped."""
    number = end = 0
    while text := file.readline(LINE_BYTES_MAX):
        number += 1
        end += len(text)
        whole = len(text) < LINE_BYTES_MAX or text.endswith(b"\n")
        while not whole and (rest := file.readline(LINE_BYTES_MAX)):
            end += len(rest)
            text = rest[-1:]
            if rest.endswith(b"\n"):
                break
        if number == 1:
            text = text.removeprefix(_BOM)
        if not whole or text.strip():
            yield Line(number, text if whole else None, end, text.endswith(b"\n"))


def parse(line: Line, shape: type[T]) -> T:
    """The line as ``shape``; raises Malformed."""
    if line.text is None:
        raise Malformed(f"longer than {LINE_BYTES_MAX} bytes")
    try:
        return msgspec.json.decode(line.text, type=shape)
    except msgspec.ValidationError as error:
        raise Malformed(f"not as expected: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if not line.ended:
            raise Malformed("cut off in the middle: the file is truncated here, or still being written") from None
        raise Malformed(f"not JSON: {error}") from None


def compact(text: bytes | msgspec.Raw) -> msgspec.Raw:
    """JSON without the white space between its parts, everything else as written; raises Malformed."""
    try:
        short = msgspec.json.format(bytes(text), indent=-1)
        msgspec.json.decode(short)  # format() does not look into strings and numbers
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from None
    return msgspec.Raw(short)


def encode(value: Any) -> msgspec.Raw:
    """A value of our own making as JSON."""
    return msgspec.Raw(msgspec.json.encode(value))


def epoch_ms(time: float | None) -> int | None:
    """A time in ms as a whole number; None stays None. Raises Malformed for one before 1970 or beyond year 10000."""
    if time is None:
        return None
    if not 0 <= time < 253_402_300_800_000:  # noqa: PLR2004  the year 10000
        raise Malformed(f"time is {time}; milliseconds since 1970 are expected")
    return int(time)
