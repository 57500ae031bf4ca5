"""What a session's log holds, and what it holds of a turn."""

import json
from typing import Any

from todo_write.log import Client, LogReader

Logged = list[tuple[str, Any]]


async def log_of(client: Client, session: str) -> Logged:
    """Type and data of each event."""
    entries = [entry async for entry in LogReader(client, session).events()]
    return [(entry.event.type, json.loads(bytes(entry.event.data))) for entry in entries]


def turn(number: int, *plans: Any, reason: str = "completed") -> Logged:
    """A turn in which these lists were written."""
    ended = ("turn/end", {"turn": number, "reason": {"kind": reason}})
    return [("turn/start", {"turn": number}), *(("todo/write", plan) for plan in plans), ended]
