"""A worker with a unit that kills the process at an event of type ``boom``: ``deadly_worker.py URL NAMESPACE``."""

import asyncio
import os
import sys
from typing import Any

from todo_projection.settings import Settings
from todo_projection.unit import mounted_units
from todo_projection.worker import Worker
from todo_write.events import Event


class Deadly:
    """Dies of one event, and holds nothing."""

    key = "deadly"
    state_version = 1
    handles = frozenset({"boom"})
    heals_on = frozenset[str]()
    published = False

    def init(self) -> Any:
        return None

    def apply(self, state: Any, event: Event) -> Any:
        os._exit(13)

    def view(self, state: Any) -> Any:
        return state

    def encode(self, state: Any) -> bytes:
        return b"null"

    def decode(self, raw: bytes) -> Any:
        return None


def main() -> None:
    given = {"redis_url": sys.argv[1], "namespace": sys.argv[2], "beat_ms": 100, "claim_idle_ms": 300, "block_ms": 50}
    asyncio.run(Worker(Settings.from_env({}, **given), [*mounted_units(), Deadly()]).run())


if __name__ == "__main__":
    main()
