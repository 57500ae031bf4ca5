"""The settings for Claude Code: every hook they name is one that ``todo-write hook`` takes, in silence."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from command import Command

SETTINGS = json.loads((Path(__file__).parent.parent / "examples" / "claude_code_settings.json").read_text())
HOOKS = [(event, hooks) for event, all_hooks in SETTINGS["hooks"].items() for hooks in all_hooks]
CALLED: dict[str, tuple[Any, Any]] = {
    "TodoWrite": ({"todos": [{"content": "a", "status": "pending", "activeForm": "doing a"}]}, {}),
    "TaskCreate": ({"subject": "a", "description": "do a"}, {"task": {"id": "1", "subject": "a"}}),
    "TaskUpdate": ({"taskId": "1", "status": "completed"}, {"success": True, "taskId": "1"}),
}


def told(event: str, tools: list[str], folder: Path) -> list[dict[str, Any]]:
    """What Claude Code tells a hook of this event, once for each tool."""
    transcript = folder / "transcript.jsonl"
    transcript.touch()
    told = {"session_id": "s1", "transcript_path": str(transcript), "cwd": str(folder), "hook_event_name": event}
    match event:
        case "UserPromptSubmit":
            return [told | {"prompt": "go"}]
        case "SubagentStop":
            return [told | {"agent_id": "a1", "agent_transcript_path": str(transcript), "stop_hook_active": False}]
        case "PostToolUse":
            calls = [(tool, *CALLED[tool]) for tool in tools]
            return [told | {"tool_name": tool, "tool_input": given, "tool_response": got} for tool, given, got in calls]
        case _:
            return [told]


def test_the_settings_name_each_event_that_a_plan_needs() -> None:
    turns = {"UserPromptSubmit", "Stop", "StopFailure", "SubagentStop", "SessionEnd"}
    assert set(SETTINGS["hooks"]) == {"PostToolUse", *turns}
    assert [hooks["matcher"].split("|") for event, hooks in HOOKS if event == "PostToolUse"] == [list(CALLED)]
    assert set(SETTINGS["env"]) == {"TODO_REDIS_URL"}


@pytest.mark.parametrize(("event", "hooks"), HOOKS, ids=[event for event, _ in HOOKS])
async def test_each_command_of_the_settings_takes_its_event_in_silence(
    event: str, hooks: dict[str, Any], redis_url: str, namespace: str, tmp_path: Path
) -> None:
    for hook in hooks["hooks"]:
        program, *arguments = shlex.split(hook["command"])
        run = Command(program, TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)
        for given in told(event, hooks.get("matcher", "").split("|"), tmp_path):
            assert tuple(await run(*arguments, input=json.dumps(given))) == (0, "", ""), given
