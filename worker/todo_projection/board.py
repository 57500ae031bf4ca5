"""The ``board`` unit: what a list of sessions shows of each. Pure; not published, read with the row."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar, cast

import msgspec

from todo_write.events import (
    SESSION_START,
    SESSION_TITLE,
    TODO_WRITE,
    TURN_END,
    TURN_START,
    Event,
    Unsound,
    sound_todos,
)


class Board(msgspec.Struct, frozen=True):
    """A session at a glance.

    ``total`` is null without a plan; ``current`` is the item longest in progress and ``since`` (epoch ms, the time of
    the event that started it) its start; ``reason`` says how the last turn ended, null while one is open.
    """

    title: str | None = None
    label: str | None = None
    parent: str | None = None
    turn: int | None = None
    open: bool = False
    reason: str | None = None
    done: int = 0
    total: int | None = None
    current: str | None = None
    since: int | None = None


class BoardState(Board, frozen=True, omit_defaults=False):
    """The board, and the start of each item in progress where there is more than one."""

    started: dict[str, int] | msgspec.UnsetType = msgspec.UNSET


T = TypeVar("T")

_decoder = msgspec.json.Decoder(BoardState)
_FIELDS = Board.__struct_fields__


class BoardUnit:
    """Progress, turn and names of a session."""

    key = "board"
    state_version = 1
    handles = frozenset({TODO_WRITE, TURN_START, TURN_END, SESSION_TITLE, SESSION_START})
    heals_on = frozenset({TODO_WRITE, TURN_START})  # only a write can be poison here, and both replace what it sets
    spares = frozenset({TODO_WRITE})
    published = False

    def init(self) -> BoardState:
        """A session nobody said anything about."""
        return BoardState()

    def needed(self, events: Sequence[Event]) -> Sequence[Event] | None:
        """All but the writes before the one since which no item has been in progress all the time.

        The start of an item is the first of the writes in a row that have it in progress, and a turn start ends every
        row; all else that writes set is the last one's alone.
        """
        first = next((n for n, event in enumerate(events) if event.type == TODO_WRITE), len(events))
        lasting: frozenset[str] | None = None
        for n in range(len(events) - 1, first - 1, -1):
            event = events[n]
            if event.type == TODO_WRITE:
                with suppress(Unsound):
                    going = frozenset([todo.content for todo in sound_todos(event) if todo.status == "in_progress"])
                    lasting = going if lasting is None else lasting & going
            if event.type == TURN_START or lasting == frozenset():
                return [event for event in events[:n] if event.type != TODO_WRITE] + list(events[n:])
        return None

    def apply(self, state: BoardState, event: Event) -> BoardState:
        """The board after the event; raises Unsound for a broken write, takes any other as far as it goes."""
        match event.type:
            case "todo/write":
                return _written(state, event)
            case "turn/start":
                turn = _field(event, "turn", int)
                cleared = BoardState(title=state.title, label=state.label, parent=state.parent)
                return msgspec.structs.replace(cleared, turn=turn, open=True)
            case "turn/end":
                return msgspec.structs.replace(state, open=False, reason=_reason(event))
            case "session/title":
                return _named(state, title=_field(event, "title", str) or state.title)
            case "session/start":
                label, parent = _field(event, "label", str), _field(event, "parentSession", str)
                return _named(state, label=label or state.label, parent=parent or state.parent)
            case _:
                return state

    def view(self, state: BoardState) -> Board:
        """The board without what only the fold needs."""
        if state.started is msgspec.UNSET:
            return state  # itself, so that it is written down once and not twice
        return Board(*(getattr(state, field) for field in _FIELDS))

    def encode(self, state: BoardState) -> bytes:
        """The state as JSON, equal to the view's while at most one item is in progress."""
        return msgspec.json.encode(state)

    def decode(self, raw: bytes) -> BoardState:
        """The state from JSON."""
        return _decoder.decode(raw)


def _written(state: BoardState, event: Event) -> BoardState:
    todos = sound_todos(event)
    before, started, done = _started(state), dict[str, int](), 0
    for todo in todos:  # one pass, and no `replace`: 2.5 instead of 2.9 µs a write
        status = todo.status
        if status == "completed":
            done += 1
        elif status == "in_progress":
            started[todo.content] = before.get(todo.content, event.time)
    current = min(started, key=started.__getitem__, default=None)  # the first of the list among equals
    return BoardState(
        state.title,
        state.label,
        state.parent,
        state.turn,
        state.open,
        state.reason,
        done,
        len(todos),
        current,
        None if current is None else started[current],
        started if len(started) > 1 else msgspec.UNSET,
    )


def _started(state: BoardState) -> dict[str, int]:
    if state.started is not msgspec.UNSET:
        return state.started
    return {} if state.current is None or state.since is None else {state.current: state.since}


def _named(state: BoardState, **names: str | None) -> BoardState:
    if all(getattr(state, field) == name for field, name in names.items()):
        return state
    return msgspec.structs.replace(state, **names)


def _reason(event: Event) -> str | None:
    """The reason of a turn's end, plain or as ``{"kind": …}``."""
    reason = _data(event).get("reason")
    kind = cast("dict[str, object]", reason).get("kind") if isinstance(reason, dict) else reason
    return kind if isinstance(kind, str) else None


def _field(event: Event, name: str, kind: type[T]) -> T | None:
    value = _data(event).get(name)
    return value if isinstance(value, kind) and not isinstance(value, bool) else None


def _data(event: Event) -> dict[str, object]:
    """The event's data as a mapping, empty for anything else: titles and turns are never worth a mark."""
    try:
        return event.read(dict[str, object])
    except Unsound:
        return {}


board = BoardUnit()
