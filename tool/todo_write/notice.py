"""What Claude Code tells a hook: one JSON object, of which these fields matter."""

import msgspec

from todo_write.calls import TOOLS, Call, answered, asked
from todo_write.claude import child_session

# The turn's end that each event means; a session that ends in the middle of a turn has been interrupted.
ENDS = {"Stop": "completed", "SubagentStop": "completed", "StopFailure": "error", "SessionEnd": "interrupted"}
EVENTS = ("SessionStart", "UserPromptSubmit", "PostToolUse", *ENDS)


class Unread(ValueError):
    """The input is none of Claude Code's; the message says why. Told, and nothing else is done."""


class Notice(msgspec.Struct):
    """One event; ``agent_id`` is there inside a subagent."""

    hook_event_name: str
    session_id: str
    transcript_path: str | None = None
    cwd: str | None = None
    agent_id: str | None = None
    agent_type: str | None = None
    agent_transcript_path: str | None = None
    is_sidechain: bool | None = msgspec.field(default=None, name="isSidechain")
    tool_name: str | None = None
    tool_use_id: str | None = None
    tool_input: msgspec.Raw = msgspec.Raw(b"null")
    tool_response: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def agent(self) -> str | None:
        """The subagent's id, "" for one without; None for the main agent."""
        if self.agent_id:
            return self.agent_id
        return "" if self.is_sidechain or self.hook_event_name == "SubagentStop" else None

    @property
    def session(self) -> str:
        """The session whose plan it is about: a subagent has one of its own."""
        return self.session_id if self.agent is None else child_session(self.session_id, self.agent)

    @property
    def transcript(self) -> str | None:
        """Where the calls of that session stand."""
        if self.agent is None:
            return self.transcript_path
        # Before subagents had a file of their own their lines stood in the parent's.
        return self.agent_transcript_path or (None if self.agent else self.transcript_path)

    @property
    def concerns_plans(self) -> bool:
        """Whether anything can follow from it; raises Unread for an event that is not used here."""
        if self.hook_event_name not in EVENTS:
            raise Unread(f"event {self.hook_event_name[:64]!r} is not used; used are {', '.join(EVENTS)}")
        return self.hook_event_name != "PostToolUse" or self.tool_name in TOOLS

    def call(self) -> Call:
        """The call of a PostToolUse; raises Unfit."""
        change = answered(asked(self.tool_name or "", self.tool_input), self.tool_response)
        return Call(self.tool_use_id or "", change)


def read_notice(text: bytes) -> Notice:
    """The notice in a hook's input; raises Unread."""
    try:
        return msgspec.json.decode(text, type=Notice)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unread(f"the input is not what Claude Code sends to hooks: {error}") from None
