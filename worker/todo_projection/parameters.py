"""Parameters of requests: one struct a route says their names, types and limits; checks and documentation follow it."""

from typing import Annotated, Any, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import FieldInfo, fields

from todo_projection.refusal import bad
from todo_projection.sessions import Sort
from todo_projection.state import State

FIELDS_MAX = 1000
SEQ_MAX = 2**53 - 1  # what JavaScript can count
EVENTS_MAX = 500
SESSIONS_MAX = 500
ROWS_MAX = 10_000
TEXT_LENGTH_MAX = 200

Seq = Annotated[int, Meta(ge=0, le=SEQ_MAX, description="a whole number, 0 or more")]
Text = Annotated[str, Meta(max_length=TEXT_LENGTH_MAX, description=f"text of at most {TEXT_LENGTH_MAX} characters")]
Flag = Annotated[bool, Meta(description="1 or 0")]
OneState = Annotated[
    State, Meta(description="unknown, cleared, empty, done, stuck, quiet or active: only sessions in this state")
]
Order = Annotated[Sort, Meta(description="recent (by last event) or longest (longest in progress first)")]
Parent = Annotated[str, Meta(description="a session id: only its children")]


class PageParameters(msgspec.Struct, frozen=True, rename="camel"):
    """Of a page of a session's history: its end, and how long it is."""

    before_seq: Seq | UnsetType = UNSET
    at_seq: Seq | UnsetType = UNSET
    at_time: Annotated[int, Meta(ge=0, le=SEQ_MAX, description="a time, epoch ms")] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=EVENTS_MAX, description=f"a whole number from 1 to {EVENTS_MAX}")] = 50

    def ends(self) -> dict[str, int | UnsetType]:
        """What may say where the page ends, by name; one of them at most."""
        return {"beforeSeq": self.before_seq, "atSeq": self.at_seq, "atTime": self.at_time}


class ListParameters(msgspec.Struct, frozen=True, rename="camel"):
    """Of a page of the list of sessions."""

    state: OneState | UnsetType = UNSET
    text: Text = ""
    sort: Order = "recent"
    limit: Annotated[int, Meta(ge=1, le=SESSIONS_MAX, description=f"a whole number from 1 to {SESSIONS_MAX}")] = 50
    cursor: Annotated[str, Meta(description="`next` of the page before")] = ""
    parent: Parent = ""


class NoParameters(msgspec.Struct, frozen=True):
    """Of a route that takes none."""


class PlanStreamParameters(msgspec.Struct, frozen=True, rename="camel"):
    """Of a stream of plans."""

    session: Annotated[list[str], Meta(description="a session id; given once for each session")] = []
    events: Flag = False
    after: Annotated[str, Meta(description="the position <epoch>-<seq> of the last event seen")] = ""
    family: Flag = False


class BoardStreamParameters(msgspec.Struct, frozen=True, rename="camel"):
    """Of a stream of a board's window."""

    board: Flag = False
    state: OneState | UnsetType = UNSET
    text: Text = ""
    sort: Order = "recent"
    limit: Annotated[int, Meta(ge=1, le=ROWS_MAX, description=f"a whole number from 1 to {ROWS_MAX}")] = 500
    parent: Parent = ""


T = TypeVar("T", bound=msgspec.Struct)


def read(query: bytes, shape: type[T]) -> T:
    """Parameters of a query string; raises Refusal for one that is unknown, given twice, or not allowed."""
    known = {field.encode_name: field for field in fields(shape)}
    given: dict[str, list[str]] = {}
    for name, text in _pairs(query):
        if name not in known:
            raise bad(f"parameter {name!r} is not known here", text, ", ".join(known))
        given.setdefault(name, []).append(text)
    return shape(**{known[name].name: _value(known[name], texts) for name, texts in given.items()})


def described(field: FieldInfo) -> str:
    """What is allowed, in words."""
    return next((meta.description for meta in _metas(field.type) if meta.description), "")


def is_list(field: FieldInfo) -> bool:
    """Whether the parameter may be given more than once."""
    return get_origin(get_args(field.type)[0]) is list


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except UnicodeDecodeError:
        raise bad("the query can't be read", query.decode("ascii", "replace"), "percent-encoded UTF-8") from None
    except ValueError:
        raise bad("the query has too many parameters", None, f"at most {FIELDS_MAX}") from None


def _value(field: FieldInfo, texts: list[str]) -> Any:
    name = field.encode_name
    if is_list(field):
        return texts
    if len(texts) > 1:
        raise bad(f"parameter {name!r} is given {len(texts)} times", texts[-1], "once")
    try:
        return msgspec.convert(texts[0], field.type, strict=False)
    except msgspec.ValidationError:
        raise bad(f"parameter {name!r} can't be used", texts[0], described(field)) from None


def _metas(annotation: Any) -> list[Meta]:
    """Every Meta in an annotation, those of a union's members too."""
    if get_origin(annotation) is Annotated:
        return [meta for meta in get_args(annotation)[1:] if isinstance(meta, Meta)]
    return [meta for member in get_args(annotation) for meta in _metas(member)]
