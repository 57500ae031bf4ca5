"""A unit: how often a session called each tool."""

import msgspec

from todo_write.events import Event


class ToolCall(msgspec.Struct):
    name: str


class ToolCalls:
    key = "tool_calls"  # its name in rows and frames
    state_version = 1  # one more whenever stored states no longer fit
    handles = frozenset({"tool/call"})  # the events it is shown
    heals_on = frozenset[str]()  # those that replace the state whole
    published = True  # a change is worth a frame

    def init(self) -> dict[str, int]:
        return {}

    def apply(self, state: dict[str, int], event: Event) -> dict[str, int]:
        if event.type not in self.handles:
            return state
        name = event.read(ToolCall).name  # raises for data of another shape: the event is skipped, the value marked
        return {**state, name: state.get(name, 0) + 1}

    def view(self, state: dict[str, int]) -> dict[str, int]:
        return state

    def encode(self, state: dict[str, int]) -> bytes:
        return msgspec.json.encode(state)

    def decode(self, raw: bytes) -> dict[str, int]:
        return msgspec.json.decode(raw, type=dict[str, int])


tool_calls = ToolCalls()
