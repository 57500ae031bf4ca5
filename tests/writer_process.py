"""A writer as a process, ``writer_process.py URL NAMESPACE FIRST SESSIONS EVENTS``: so many events to each session."""

import asyncio
import random
import sys
from typing import Any

from todo_write.log import SessionLog, connect

STATUSES = ("pending", "in_progress", "completed")


def events(session: str, count: int) -> list[tuple[str, Any]]:
    """A mix of what sessions hold: a third of it handled, some of that poison."""
    pick = random.Random(session)
    found: list[tuple[str, Any]] = []
    for n in range(count):
        items = [{"content": f"step {i}", "status": pick.choice(STATUSES)} for i in range(pick.randrange(5))]
        kinds: list[tuple[str, Any]] = [
            ("todo/write", {"todos": items}),
            ("turn/start", {"turn": n}),
            ("turn/end", {"turn": n, "reason": {"kind": "completed"}}),
            ("session/title", {"title": f"title {n}"}),
            ("assistant/chunk", {"text": "…"}),
        ]
        found.append(pick.choices(kinds, (20, 5, 4, 1, 70))[0])
    return found


async def write(url: str, namespace: str, first: int, sessions: int, count: int) -> None:
    """Write all sessions at once, each in calls of one to four events."""
    async with connect(url, namespace=namespace, append_budget_ms=60_000) as client:  # no model waits here

        async def one(session: str) -> None:
            log, pick = SessionLog(client, session), random.Random(session)
            left = events(session, count)
            while left:
                size = pick.randint(1, 4)
                await log.append_all(left[:size])
                left = left[size:]

        await asyncio.gather(*(one(f"s{first + n}") for n in range(sessions)))


if __name__ == "__main__":
    url, namespace, *numbers = sys.argv[1:]
    asyncio.run(write(url, namespace, *map(int, numbers)))
