"""What tests of the projector share: events to write, units to mount, and settling what was in conflict."""

from typing import Any

import msgspec

from todo_projection.projector import Batches, Projector
from todo_write.events import Event
from todo_write.unit import TodosUnit


def write(*items: str, status: str = "pending") -> tuple[str, Any]:
    return "todo/write", {"todos": [{"content": item, "status": status} for item in items]}


async def settle(projector: Projector, batches: Batches) -> None:
    """Project until nothing is in conflict."""
    for _ in range(3):
        batches = (await projector.project(batches)).conflicts
    assert not batches


TURN = ("turn/start", {"turn": 1})
END = ("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
TALK = ("assistant/chunk", {"text": "…"})
POISON = ("todo/write", {"todos": [{"content": "", "status": "pending"}]})


class TodosAt(TodosUnit):
    """The todos unit in another version, which may see things otherwise."""

    def __init__(self, state_version: int, *, upper: bool = False) -> None:
        self.state_version = state_version
        self._upper = upper

    def apply(self, state: Any, event: Event) -> Any:
        after = super().apply(state, event)
        if not self._upper or after is state or after is None:
            return after
        return [msgspec.structs.replace(todo, content=todo.content.upper()) for todo in after]


class Tally:
    """A unit that counts writes; no event heals it."""

    key = "tally"
    state_version = 1
    handles = frozenset({"todo/write"})
    heals_on = frozenset[str]()
    published = True
    broken = False

    def init(self) -> int:
        return 0

    def apply(self, state: int, event: Event) -> int:
        return state + 1

    def view(self, state: int) -> Any:
        return object() if self.broken and state else state  # nothing JSON can say

    def encode(self, state: int) -> bytes:
        return b"%d" % state

    def decode(self, raw: bytes) -> int:
        return int(raw)
