"""What the writers knew of their calls, read back from their files."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OUTCOMES = ("accepted", "refused", "rewound", "unknown")


@dataclass
class Call:
    """One append: ``writer`` and ``number`` say whose and which, ``positions`` where it stood when it was accepted."""

    session: str
    writer: str
    number: int
    count: int
    outcome: str = "unknown"
    positions: list[str] = field(default_factory=list[str])
    told: bool = False  # that the log had gone back

    @property
    def names(self) -> list[str]:
        """The names its events carry."""
        return [f"{self.writer}/{self.session}/{self.number}/{n}" for n in range(self.count)]


class Ledger:
    """All calls of a run, by session."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._calls: dict[str, Call] = {}
        for file in files:
            lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
            for line in lines:
                if line.endswith(b"\n"):
                    self._note(*json.loads(line))

    def _note(self, word: str, name: str, *rest: Any) -> None:
        if word == "try":
            writer, session, number = name.split("/")
            self._calls[name] = Call(session, writer, int(number), count=rest[0])
            return
        assert word in OUTCOMES, word
        self._calls[name].outcome = word
        self._calls[name].told = word == "rewound" or "rewound" in rest
        if word == "accepted":
            (self._calls[name].positions,) = rest

    def of(self, session: str) -> list[Call]:
        """The calls to one session."""
        return [call for call in self._calls.values() if call.session == session]

    def count(self, outcome: str) -> int:
        """How many calls ended so."""
        return sum(call.outcome == outcome for call in self._calls.values())
