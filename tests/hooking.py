"""What Claude Code tells its hooks, hooks to be told, and what they left in the log."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from command import Command, Done
from stored import Stored
from todo_write.hooks import bring
from todo_write.log import Client
from todo_write.notice import Notice, read_notice

TRANSCRIPTS = Path(__file__).parent / "transcripts"
TASKS = TRANSCRIPTS / "claude_tasks.jsonl"
TODOS = TRANSCRIPTS / "claude_todos.jsonl"
SUBAGENT = TRANSCRIPTS / "claude_subagent.jsonl"

QUIET = Done(0, "", "")

Told = dict[str, Any]


def told(event: str, session: str = "s1", **more: Any) -> Told:
    return {"hook_event_name": event, "session_id": session, "cwd": "/srv/shop", **more}


def created(number: int, subject: str, **more: Any) -> Told:
    answer = {"task": {"id": str(number), "subject": subject}}
    return called("TaskCreate", f"c{number}", {"subject": subject, "description": "d"}, answer, **more)


def updated(number: int, status: str, **more: Any) -> Told:
    answer = {"success": True, "taskId": str(number)}
    return called("TaskUpdate", f"u{number}{status}", {"taskId": str(number), "status": status}, answer, **more)


def called(tool: str, id: str, input: Any, answer: Any = None, **more: Any) -> Told:
    return told("PostToolUse", tool_name=tool, tool_use_id=id, tool_input=input, tool_response=answer, **more)


def todos(**statuses: str) -> Told:
    return {"todos": [{"content": content, "status": status} for content, status in statuses.items()]}


def from_transcript(path: Path, only: Sequence[str] | None = None) -> list[Told]:
    """What the hooks of a transcript's calls were told, those with these ids."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    calls: dict[str, Any] = {}
    found: list[Told] = []
    for line in lines:
        content: Any = line["message"]["content"]
        blocks: list[Any] = [] if isinstance(content, str) else content
        for block in blocks:
            if block["type"] == "tool_use":
                calls[block["id"]] = block
            elif not block.get("is_error") and (only is None or block["tool_use_id"] in only):
                call = calls[block["tool_use_id"]]
                answer = line.get("toolUseResult", block["content"])
                found.append(called(call["name"], call["id"], call["input"], answer, session_id=line["sessionId"]))
    return found


class Log:
    """A session's log without what only hooks need."""

    def __init__(self, redis: Redis, namespace: str) -> None:
        self._redis, self._namespace = redis, namespace

    async def __call__(self, session: str = "s1") -> list[tuple[str, Any]]:
        stored = Stored(self._redis, self._namespace, session)
        data = await stored.contents()
        types = [fields["type"] for _, fields in await stored.entries()]
        return [(type, each) for type, each in zip(types, data, strict=True) if type != "claude/task"]

    async def plan(self, session: str = "s1") -> list[tuple[str, str]] | None:
        """The list as a reader sees it."""
        written = [data["todos"] for type, data in await self(session) if type == "todo/write"]
        return [(item["content"], item["status"]) for item in written[-1]] if written else None

    async def types(self, session: str = "s1") -> list[str]:
        return [type for type, _ in await self(session)]


class Hook:
    """``await hook(told(…))``: one process."""

    def __init__(self, url: str, namespace: str) -> None:
        self.command = Command("todo-write", TODO_REDIS_URL=url, TODO_NAMESPACE=namespace)

    async def __call__(self, input: Told | bytes) -> Done:
        text = input if isinstance(input, bytes) else json.dumps(input).encode()
        return await self.command("hook", "claude-code", input=text)


class Bring:
    """``await bring(told(…))``: the same without a process, its lines for standard error."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, *given: Told) -> list[str]:
        lines: list[str] = []
        for each in given:
            lines += await bring(self._client, notice(each), until=time.monotonic() + 5)
        return lines


def notice(given: Told) -> Notice:
    return read_notice(json.dumps(given).encode())
