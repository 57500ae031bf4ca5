"""The published language: frames on a channel, the baseline of a session, a page of its history. Pure.

Layout version 1. A frame always carries the whole value, never a difference.
"""

from typing import Any, Literal, NamedTuple

import msgspec

from todo_write.events import Event

Schema = dict[str, Any]


class Rev(NamedTuple):
    """The commit that last changed a published value or mark, ``<n>-<etag>``.

    n rises by one; the etag tells twins apart, since after a fail-over two different commits can carry the same n.
    Frames are ordered by ``(epoch, n)`` and compared as a whole.
    """

    n: int
    etag: str

    def __str__(self) -> str:
        return f"{self.n}-{self.etag}"

    @classmethod
    def parse(cls, text: str | bytes) -> "Rev":
        """Read ``<n>-<etag>``; raises ValueError naming the text."""
        plain = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        n, dash, etag = plain.partition("-")
        if not (dash and etag and n.isascii() and n.isdigit()):
            raise ValueError(f"not a rev: {plain!r}; a rev is <n>-<etag>")
        return cls(int(n), etag)


class Mark(msgspec.Struct, frozen=True):
    """Why a value may be wrong: the event that was skipped, and its time (epoch ms)."""

    seq: int
    reason: str
    since: int


class Frame(msgspec.Struct, frozen=True, tag_field="type", tag="session/projection", rename="camel"):
    """A published value after a commit changed it: ``seq`` is the event that caused it, ``time`` that event's (ms)."""

    session_id: str
    key: str
    value: msgspec.Raw
    seq: int
    epoch: int
    rev: str
    state_version: int
    time: int
    stale: Mark | msgspec.UnsetType = msgspec.UNSET


class Deleted(msgspec.Struct, frozen=True, tag_field="type", tag="session/deleted", rename="camel"):
    """The session is gone: its log, values, index entries and marks."""

    session_id: str
    epoch: int
    rev: str


class EventFrame(msgspec.Struct, frozen=True, tag_field="type", tag="session/event", rename="camel"):
    """One event, read from the log; never published on a channel."""

    session_id: str
    event: Event


class Baseline(msgspec.Struct, frozen=True, rename="camel"):
    """All values of a session, cut at one position.

    ``values`` lacks the key of a unit that is not mounted; null is "no plan", an empty list "explicitly empty". A
    session nobody wrote to, or a deleted one: ``asOfSeq`` -1, ``epoch`` and ``rev`` null, ``values`` empty.
    """

    session_id: str
    as_of_seq: int
    epoch: int | None
    rev: str | None
    values: dict[str, msgspec.Raw]
    at: dict[str, int]
    stale: dict[str, Mark]

    @classmethod
    def unknown(cls, session: str) -> "Baseline":
        """The baseline of a session without a row."""
        return cls(session, -1, None, None, {}, {}, {})


class Page(msgspec.Struct, frozen=True, rename="camel"):
    """A page of a session's history, oldest event first; ``projections`` stands on the tail page only."""

    events: list[Event]
    has_more: bool
    projections: Baseline | msgspec.UnsetType = msgspec.UNSET


Published = Frame | Deleted
ShapeName = Literal["frame", "baseline", "page"]
SHAPES: dict[ShapeName, Any] = {"frame": Frame | Deleted | EventFrame, "baseline": Baseline, "page": Page}

_published = msgspec.json.Decoder(Published)


def encode(shape: Frame | Deleted | EventFrame | Baseline | Page) -> bytes:
    """Any of the published shapes as JSON."""
    return msgspec.json.encode(shape)


def decode_published(raw: bytes) -> Published:
    """A message of a channel; raises msgspec.DecodeError or ValidationError for anything that is not one."""
    return _published.decode(raw)


def schema(name: ShapeName) -> Schema:
    """JSON Schema (2020-12) of a published shape."""
    (found,), definitions = msgspec.json.schema_components([SHAPES[name]], ref_template="#/$defs/{name}")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found, "$defs": definitions}
