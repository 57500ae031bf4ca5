"""Pointers that we took away, and rows the audit had to have pointed at again: the latter only because of the former.

Otherwise the audit would hide a worker that loses pointers. Exact where the audit said it; one that was killed between
a repair and its word said nothing, so a single loss may go unheard, and what is lost again and again is not.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

REPAIRED = re.compile(r"session '(.+)': the row at (\S+) is (.+), its log ends with (\S+), and nobody points at it")

Order = tuple[int, int]
NOTHING: Order = (0, -1)


class Repair(NamedTuple):
    """What the audit said of a session: where its row stood, and what was wrong with that."""

    session: str
    row: str
    trouble: str


class Losses:
    """Per session what a feed that we deleted may have pointed at: all behind the row, up to the log's tail."""

    def __init__(self) -> None:
        self._spans: dict[str, list[tuple[Order, Order]]] = {}

    def note(self, session: str, row: str, tail: str) -> None:
        """Its feed is gone, while row and log stood there; positions, ``""`` for none."""
        self._spans.setdefault(session, []).append((_order(row), _order(tail)))

    def explain(self, repair: Repair) -> bool:
        """Whether the row is short of an event whose pointer we took away."""
        row = _order(repair.row)
        spans = self._spans.get(repair.session, [])
        return repair.trouble == "behind" and any(before <= row < tail for before, tail in spans)

    def unexplained(self, said: Iterable[Path]) -> list[str]:
        """The repairs that these workers told of and that are none of our doing; one line that says so if none is."""
        found = [repair for file in said for repair in _repairs(file)]
        if self._spans and not found:
            return ["feeds were deleted, and no audit had anything pointed at again"]
        mistaken = [repair for repair in found if not self.explain(repair)]
        return [f"{one.session}: a pointer was lost: the row at {one.row} is {one.trouble}" for one in mistaken]


def _repairs(file: Path) -> Iterator[Repair]:
    lines = file.read_text(errors="replace").splitlines() if file.exists() else []
    for line in lines:
        try:
            event = str(json.loads(line).get("event", ""))
        except (ValueError, AttributeError):  # the last word of one that was killed, or no line of the journal
            continue
        if told := REPAIRED.match(event):
            yield Repair(*told.groups()[:3])


def _order(position: str) -> Order:
    epoch, _, seq = position.partition("-")
    return (int(epoch), int(seq)) if seq else NOTHING
