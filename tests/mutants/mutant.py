"""A mutant: one line of the product broken on purpose, and the tests that must notice."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class OutOfDate(ValueError):
    """A mutant's text is not in its file exactly once: the code has moved on, and the mutant must follow."""


class Mutant(NamedTuple):
    """``edits`` are pairs of old and new text in ``file``; ``tests`` are node ids below tests/, the quickest first.

    ``invariant`` is the number in ARCHITECTURE.md of what it breaks.
    """

    name: str
    invariant: int
    file: str
    edits: Sequence[tuple[str, str]]
    tests: Sequence[str]

    def applied(self, root: Path = ROOT) -> str:
        """The text of the file with the edits in it; raises OutOfDate."""
        text = (root / self.file).read_text()
        for old, new in self.edits:
            if (count := text.count(old)) != 1:
                raise OutOfDate(f"{self.name}: {self.file} holds {count} times, not once: {old!r}")
            text = text.replace(old, new)
        return text


def mutant(name: str, invariant: int, file: str, old: str, new: str, *tests: str) -> Mutant:
    """A mutant of one edit."""
    return Mutant(name, invariant, file, [(old, new)], tests)
