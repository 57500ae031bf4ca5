"""The written language: envelope, positions, key names, codec, and what a sound event is.

The tool writes session logs, so the words of a log are its own; every reader imports them from here. Pure: no
input or output, only msgspec and the standard library. The rules are those of layout version 1.
"""

import builtins
import os
import re
from base64 import b64encode
from binascii import crc_hqx
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

LAYOUT_VERSION = 1
PARTITIONS_DEFAULT = 64
PARTITIONS_MAX = 1024
SLOTS = 16384
GROUP = "projection"
ENTRY_FIELDS = [b"type", b"time", b"op", b"data"]
EVENT_BYTES_MAX = 1024 * 1024
TODO_WRITE_BYTES_MAX = 256 * 1024
SESSION_BYTES_MAX = 256
TYPE_BYTES_MAX = 256

CANARY = ".canary"  # the session by which delivery is watched; no board lists it

TODO_WRITE = "todo/write"
TURN_START = "turn/start"
TURN_END = "turn/end"
SESSION_START = "session/start"
SESSION_TITLE = "session/title"

# The white space of ECMAScript's trim(): its WhiteSpace and LineTerminator. Python's own str.strip() differs in
# U+FEFF (space here, not there) and in U+001C-001F and U+0085 (the other way round).
JS_SPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)

_NAMESPACE = re.compile(r"[a-z0-9_-]{1,32}\Z")
_POSITION = re.compile(rb"(0|[1-9][0-9]{0,15})-(0|-1|[1-9][0-9]{0,15})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

T = TypeVar("T")

Status = Literal["pending", "in_progress", "completed"]


class InvalidSession(ValueError):
    """This session id can't be used; the message says why. Nobody retries."""


class InvalidEvent(ValueError):
    """This event can't be appended; the message says why. Nobody retries."""


class InvalidNamespace(ValueError):
    """This namespace can't be used; the message says what is allowed."""


class Unsound(ValueError):
    """Data of an event that breaks the rules of its type: refused by ``append``, poison in a log."""


class Position(NamedTuple):
    """Place of an event in its log, ``<epoch>-<seq>``: epoch in ms, seq the index from 0; compares as two integers.

    Seq -1 is the watermark of a log of which nothing is folded.
    """

    epoch: int
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.seq}"

    @classmethod
    def parse(cls, text: str | bytes) -> "Position":
        """Read ``<epoch>-<seq>``; raises ValueError naming the text."""
        match = _POSITION.fullmatch(text if isinstance(text, bytes) else text.encode("utf-8", "replace"))
        if match is None:
            plain = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
            raise ValueError(f"not a position: {plain!r}; a position is <epoch>-<seq>, two whole numbers")
        epoch, seq = match.groups()
        return cls(int(epoch), int(seq))


class Todo(msgspec.Struct, frozen=True, gc=False):
    """One item of a plan; keys beyond these two are dropped when it is read.

    Out of the garbage collector's sight, as nothing in it leads back: eight decode in 1.8 instead of 2.3 µs.
    """

    content: str
    status: Status


class TodoWrite(msgspec.Struct, frozen=True, gc=False):
    """Data of a ``todo/write`` event."""

    todos: list[Todo]


class Event(msgspec.Struct, frozen=True, dict=True):
    """The envelope: what readers of a log get. ``time`` in epoch ms, never ordered by; ``data`` is JSON as written."""

    type: str
    seq: int
    time: int
    data: msgspec.Raw

    def read(self, shape: builtins.type[T]) -> T:
        """Data as ``shape``, a type; raises Unsound with the place that does not fit."""
        try:
            return msgspec.json.decode(self.data, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unsound(f"{self.type} at {self.seq}: {error}") from None


class Entry(NamedTuple):
    """One stored entry of a log: where it stands, the append call that wrote it, and the event."""

    position: Position
    op: str
    event: Event


def trim(text: str) -> str:
    """Text without the white space at both ends that ECMAScript's ``trim()`` removes."""
    return text.strip(JS_SPACE)


def sound_todos(event: Event) -> list[Todo]:
    """The list of a ``todo/write`` event; raises Unsound. The number in progress is never looked at.

    Read once, however many units ask: kept beside the event's fields (heavy mix: 2 µs an event).
    """
    kept = vars(event)
    if "todos" not in kept:
        kept["todos"] = _checked_todos(event)
    todos: list[Todo] = kept["todos"]
    return todos


def _checked_todos(event: Event) -> list[Todo]:
    todos = event.read(TodoWrite).todos
    seen: set[str] = set()
    for index, todo in enumerate(todos):
        content = todo.content
        if not content or content != trim(content):
            raise Unsound(f"{event.type} at {event.seq}: todos[{index}].content must be non-empty and trimmed")
        if content in seen:
            raise Unsound(f"{event.type} at {event.seq}: todos[{index}].content repeats an earlier one")
        seen.add(content)
    return todos


def check_sound(event: Event) -> None:
    """Raise Unsound when the type has rules and the data breaks them; any other type passes."""
    if event.type == TODO_WRITE:
        sound_todos(event)


def encode_data(type: str, data: Any, *, bytes_max: int | None = None) -> bytes:
    """Data of an event as stored JSON, of ``bytes_max`` at most, None for what its type may have.

    Raises InvalidEvent: not JSON, too long, no usable type, or unsound.
    """
    if not type or len(type.encode("utf-8", "replace")) > TYPE_BYTES_MAX or _CONTROL.search(type):
        raise InvalidEvent(f"event type {type[:64]!r}: must be 1-{TYPE_BYTES_MAX} bytes without control characters")
    try:
        type.encode()
        raw = msgspec.json.encode(data)
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise InvalidEvent(f"event {type!r}: data is not JSON: {error}") from None
    limit = bytes_max or (TODO_WRITE_BYTES_MAX if type == TODO_WRITE else EVENT_BYTES_MAX)
    if len(raw) > limit:
        raise InvalidEvent(f"event {type!r}: data is {len(raw)} bytes; at most {limit} are allowed")
    try:
        check_sound(Event(type, 0, 0, msgspec.Raw(raw)))
    except Unsound as error:
        raise InvalidEvent(f"unsound event: {error}") from None
    return raw


def decode_entry(id: bytes, fields: Sequence[bytes], position: Position | None = None) -> Entry:
    """An entry as the server returns it (flat field list) as Entry; raises Unsound for one nobody of ours wrote.

    ``position`` is given by whoever knows already what the id says.
    """
    try:
        if fields[::2] != ENTRY_FIELDS:
            raise ValueError(f"its fields are {fields[::2]}, not {ENTRY_FIELDS}")
        _, type, _, time, _, op, _, data = fields
        position = position or Position.parse(id)
        return Entry(position, op.decode(), Event(type.decode(), position.seq, int(time), msgspec.Raw(data)))
    except ValueError as error:
        raise Unsound(f"entry {id.decode('utf-8', 'replace')} is not an event: {error!r}") from None


def token() -> str:
    """8 random letters and digits: the ``op`` of an append call, the etag of a row."""
    return b64encode(os.urandom(6), b"kq").decode()


def check_session(session: str) -> str:
    """The session id itself; raises InvalidSession: 1-256 bytes of UTF-8, no control characters, no ``{`` ``}``."""
    try:
        size = len(session.encode())
    except UnicodeEncodeError:
        raise InvalidSession(f"session id {session!r}: is not well-formed Unicode") from None
    if not 1 <= size <= SESSION_BYTES_MAX:
        raise InvalidSession(f"session id {session[:32]!r}: is {size} bytes long; 1-{SESSION_BYTES_MAX} are allowed")
    if _CONTROL.search(session):
        raise InvalidSession(f"session id {session!r}: has a control character")
    if "{" in session or "}" in session:
        # Braces would let a key pattern of an access rule reach across partitions.
        raise InvalidSession(f"session id {session!r}: has a brace; '{{' and '}}' are not allowed")
    return session


def slot(text: str) -> int:
    """Cluster slot of *all* bytes of the text, CRC16/XMODEM mod 16384; braces in it mean nothing."""
    return crc_hqx(text.encode(), 0) % SLOTS


@cache
def tags(partitions: int) -> tuple[str, ...]:
    """Hash tag of each partition: the smallest decimal number whose own slot lies in it, so that shards fill evenly."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < partitions:
        found.setdefault(slot(str(number)) * partitions // SLOTS, str(number))
        number += 1
    return tuple(found[partition] for partition in range(partitions))


class Keys:
    """Names of everything this product keeps in Redis, for one namespace and number of partitions."""

    def __init__(self, namespace: str = "todo", partitions: int = PARTITIONS_DEFAULT) -> None:
        if not _NAMESPACE.match(namespace):
            raise InvalidNamespace(f"namespace {namespace!r}: 1-32 characters of a-z, 0-9, '_' and '-' are allowed")
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise ValueError(f"partitions {partitions}: 1-{PARTITIONS_MAX} are allowed")
        self.namespace = namespace
        self.partitions = partitions
        self._stems = tuple(f"{namespace}:{{{tag}}}:" for tag in tags(partitions))

    def partition(self, session: str) -> int:
        """Partition of a session, 0 to partitions - 1."""
        return slot(session) * self.partitions // SLOTS

    def log(self, session: str) -> str:
        """The session's log, a stream."""
        return f"{self._stem(session)}log:{session}"

    def row(self, session: str) -> str:
        """The session's projected row, a hash."""
        return f"{self._stem(session)}proj:{session}"

    def channel(self, session: str) -> str:
        """The channel on which the session's frames are published."""
        return f"{self._stem(session)}updates:{session}"

    def feed(self, partition: int) -> str:
        """The partition's stream of pointers, one per event."""
        return f"{self._stems[partition]}feed"

    def recent(self, partition: int) -> str:
        """Sessions by the feed time of their last event, a sorted set."""
        return f"{self._stems[partition]}recent"

    def working(self, partition: int) -> str:
        """Sessions with an item in progress, by since when, a sorted set."""
        return f"{self._stems[partition]}working"

    def stale(self, partition: int) -> str:
        """Sessions with a mark, and why, a hash."""
        return f"{self._stems[partition]}stale"

    @property
    def meta(self) -> str:
        """Layout version and number of partitions, for life, a hash."""
        return f"{self.namespace}:meta"

    @property
    def workers(self) -> str:
        """Beats of the workers, a hash."""
        return f"{self.namespace}:workers"

    def _stem(self, session: str) -> str:
        return self._stems[self.partition(session)]
