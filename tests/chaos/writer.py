"""A writer as a process, its arguments URL NAME SEED FILE SESSION…: appends until SIGTERM, with a file of it.

A line of the file is a JSON array. ``["try", call, count]`` goes before the call, its outcome behind it:
``["accepted", call, positions]``, ``["refused", call]``, ``["rewound", call]`` or ``["unknown", call]``, which ends in
``"rewound"`` where that was told too. A call without an outcome is one its writer died with.
"""

import asyncio
import json
import os
import random
import signal
import sys
from typing import Any

from chaos.script import NAMESPACE, PARTITIONS
from todo_write.log import Client, LogRewound, NotSaved, OutcomeUnknown, SessionLog, connect

STATUSES = ("pending", "in_progress", "completed")
HURRIES = 1 / 3
HURRIED_S_MAX, PAUSE_S_MAX = 0.3, 4.0
BUDGET_MS, ATTEMPT_MS = 2000, 500


def events(pick: random.Random, call: str) -> list[tuple[str, Any]]:
    """One to four events, each with its name in it."""
    found: list[tuple[str, Any]] = []
    for n in range(pick.randint(1, 4)):
        items = [{"content": f"{call} {i}", "status": pick.choice(STATUSES)} for i in range(pick.randrange(5))]
        kinds: list[tuple[str, Any]] = [
            ("todo/write", {"todos": items}),
            ("turn/start", {"turn": pick.randrange(100)}),
            ("turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
            ("session/title", {"title": f"title of {call}"}),
            ("assistant/chunk", {"text": "…"}),
        ]
        type, data = pick.choices(kinds, (30, 5, 4, 2, 30))[0]
        found.append((type, {**data, "name": f"{call}/{n}"}))
    return found


class Writer:
    """``name`` is the process's own; ``file`` takes what it knows."""

    def __init__(self, name: str, seed: str, file: str) -> None:
        self.stop = asyncio.Event()
        self._name, self._seed = name, seed
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def write(self, client: Client, session: str) -> None:
        """Append to one session until stopped."""
        log, pick, number = SessionLog(client, session), random.Random(f"{self._seed} {session}"), 0
        while not self.stop.is_set():
            number += 1
            call = f"{self._name}/{session}/{number}"
            given = events(pick, call)
            self._note("try", call, len(given))
            try:
                positions = await log.append_all(given)
            except NotSaved:
                self._note("refused", call)
            except OutcomeUnknown:
                self._note("unknown", call)
            except LogRewound as rewound:
                self._note(*(("unknown", call, "rewound") if rewound.maybe_stored else ("rewound", call)))
            else:
                self._note("accepted", call, [str(position) for position in positions])
            try:
                longest_s = HURRIED_S_MAX if pick.random() < HURRIES else PAUSE_S_MAX
                await asyncio.wait_for(self.stop.wait(), pick.uniform(0.0, longest_s))
            except TimeoutError:
                continue

    def _note(self, *words: Any) -> None:
        os.write(self._file, json.dumps(words).encode() + b"\n")  # one call of the system: whole, or not there


async def main(url: str, name: str, seed: str, file: str, *sessions: str) -> None:
    """Write all sessions side by side."""
    writer = Writer(name, seed, file)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, writer.stop.set)
    settings = {"append_budget_ms": BUDGET_MS, "append_attempt_ms": ATTEMPT_MS}
    async with (
        connect(url, namespace=NAMESPACE, partitions=PARTITIONS, **settings) as client,
        asyncio.TaskGroup() as group,
    ):
        for session in sessions:
            group.create_task(writer.write(client, session))


def play() -> None:
    """The process."""
    asyncio.run(main(*sys.argv[1:]))
