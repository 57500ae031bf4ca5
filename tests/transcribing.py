"""Transcripts as tests write them, and what an import made of them."""

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from stored import Stored
from todo_write.report import FileReport
from todo_write.transcript import Draft, Skipped, read_lines

TRANSCRIPTS = Path(__file__).parent / "transcripts"
HARNESS = TRANSCRIPTS / "harness.jsonl"
CLAUDE = TRANSCRIPTS / "claude.jsonl"
SAMPLES = Path(__file__).parents[2] / "shared" / "samples"

NOON = 1764504000000

Lines = list[str]


def todos(**statuses: str) -> dict[str, Any]:
    return {"todos": [{"content": content, "status": status} for content, status in statuses.items()]}


def header(**more: Any) -> str:
    return json.dumps({"type": "session", "id": "s1", **more})


def event(type: str, data: Any, **more: Any) -> str:
    return json.dumps({"type": type, "data": data, **more})


def said(kind: str, content: Any, **more: Any) -> str:
    return json.dumps({"type": kind, "sessionId": "s1", "message": {"role": kind, "content": content}, **more})


def called(id: str, list: Any, **more: Any) -> str:
    return said("assistant", [{"type": "tool_use", "id": id, "name": "TodoWrite", "input": {"todos": list}}], **more)


def answered(id: str, **more: Any) -> str:
    return said("user", [{"type": "tool_result", "tool_use_id": id, "content": "ok"}], **more)


def write(path: Path, *lines: str, end: str = "\n") -> Path:
    path.write_text("\n".join(lines) + end)
    return path


async def logged(redis: Redis, namespace: str, session: str) -> list[tuple[str, int, Any]]:
    entries = await Stored(redis, namespace, session).entries()
    return [(fields["type"], int(fields["time"]), json.loads(fields["data"])) for _, fields in entries]


def drafts(found: Iterator[Draft | Skipped]) -> list[tuple[str, str, Any]]:
    return [(each.session, each.type, json.loads(bytes(each.data))) for each in found if isinstance(each, Draft)]


def lines_of(*lines: str) -> Any:
    return read_lines(BytesIO("\n".join(lines).encode()))


def counts(report: FileReport) -> list[tuple[str, int, int]]:
    return [(session.session, session.appended, session.already_there) for session in report.sessions]


def reasons(report: FileReport) -> dict[int, str]:
    return {skipped.line: skipped.reason for skipped in report.skipped}
