"""A carrier as a process, its arguments URL FILE SESSION…: a file shows what it holds, whenever that changes."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from chaos.script import NAMESPACE
from todo_projection.subscriber import Deleted, Frame, Snapshot, Status, Subscriber, Subscription, Update
from todo_write.log import connect

POLL_MS = 500


class Screen:
    """What a carrier that takes every update shows: of each session its list, its mark, and whose they are."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._state = ""
        self._shown: dict[str, dict[str, Any]] = {}

    async def follow(self, subscription: Subscription) -> None:
        """Show what comes."""
        while True:
            for update in await subscription.take():
                self._take(update)
            part = self._file.with_suffix(".part")
            part.write_text(json.dumps({"state": self._state, "shown": self._shown}))
            part.rename(self._file)

    def _take(self, update: Update) -> None:
        match update:
            case Snapshot(session, baseline):
                self._shown[session] = {
                    "value": json.loads(bytes(baseline.values.get("todos", b"null"))),
                    "stale": msgspec.to_builtins(baseline.stale.get("todos")),
                    "epoch": baseline.epoch,
                }
            case Frame():
                stale = None if update.stale is msgspec.UNSET else msgspec.to_builtins(update.stale)
                value = json.loads(bytes(update.value))
                self._shown[update.session_id] = {"value": value, "stale": stale, "epoch": update.epoch}
            case Deleted():
                self._shown[update.session_id] = {"value": None, "stale": None, "epoch": None}
            case Status():
                self._state = str(update.state)


async def main(url: str, file: str, *sessions: str) -> None:
    """Follow until killed."""
    async with connect(url, namespace=NAMESPACE) as client, Subscriber(client, poll_ms=POLL_MS) as subscriber:
        await Screen(Path(file)).follow(subscriber.subscription(*sessions))


def play() -> None:
    """The process."""
    asyncio.run(main(*sys.argv[1:]))
