"""The ``todos`` unit: the plan of a session, folded from its log. Pure; the worker finds it by entry point."""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from todo_write.events import TODO_WRITE, TURN_START, Event, Todo, Unsound, sound_todos

Todos = list[Todo] | None

_decoder = msgspec.json.Decoder(list[Todo] | None)


class TodosUnit:
    """The current list: null before the first write and after each turn start, the last list written otherwise."""

    key = "todos"
    state_version = 2
    handles = frozenset({TODO_WRITE, TURN_START})
    heals_on = handles  # both replace the state whole, so nothing of a skipped event can be left in it
    spares = frozenset({TODO_WRITE})
    published = True

    def init(self) -> Todos:
        """No plan yet."""
        return None

    def needed(self, events: Sequence[Event]) -> Sequence[Event] | None:
        """The last sound write and what comes after it; without one it depends on what was before."""
        for n in range(len(events) - 1, -1, -1):
            if events[n].type == TODO_WRITE:
                with suppress(Unsound):
                    sound_todos(events[n])
                    return events[n:]
        return None

    def apply(self, state: Todos, event: Event) -> Todos:
        """The list after the event, the same reference when it changes nothing; raises Unsound for a broken write."""
        if event.type == TODO_WRITE:
            return sound_todos(event)
        if event.type == TURN_START:
            return None
        return state

    def view(self, state: Todos) -> Todos:
        """The published value: null (no plan), an empty list (explicitly empty) or the items."""
        return state

    def encode(self, state: Todos) -> bytes:
        """The state as JSON."""
        return msgspec.json.encode(state)

    def decode(self, raw: bytes) -> Todos:
        """The state from JSON; raises msgspec.ValidationError for anything else."""
        return _decoder.decode(raw)


todos = TodosUnit()
