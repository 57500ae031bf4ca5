"""What a run has come to: every log against what its writers knew, every row against an independent fold of its log."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from chaos.ledger import Call, Ledger
from chaos.script import MORTAL, SESSIONS
from chaos.stage import Stage
from oracle import Entries, expected_row, shown
from todo_projection.cluster import open_wire
from todo_projection.unit import mounted_units
from todo_projection.verify import Verifier


@dataclass
class Verdict:
    """``wrong`` says what does not hold, in words; the counts are of events.

    Where a replica may take over, ``may_go_back``, it may lack the end of a log. Then its writers must be told by their
    next call: ``told`` counts such events, ``gone`` those whose writer ended before that, ``lost`` the rest.
    """

    may_go_back: bool = False
    lost: int = 0
    told: int = 0
    gone: int = 0
    doubled: int = 0
    reordered: int = 0
    events: int = 0
    wrong: list[str] = field(default_factory=list[str])

    def log(self, session: str, entries: Entries, calls: list[Call], deleted: set[int]) -> None:
        """A log has no gap and one epoch, holds what was accepted once and in order, and nothing that was refused."""
        self.events += len(entries)
        epochs = {_epoch(position) for position, _ in entries}
        seqs = [int(position.partition("-")[2]) for position, _ in entries]
        if len(epochs) > 1 or seqs != list(range(len(entries))):
            self.wrong.append(f"{session}: the log has gaps or several epochs: {epochs}, {len(seqs)} of {seqs[-1:]}")
        names = [str(json.loads(fields["data"])["name"]) for _, fields in entries]
        there = {position: name for name, (position, _) in zip(names, entries, strict=True)}
        self._count("doubled", session, [name for name, count in Counter(names).items() if count > 1])
        known = {name for call in calls for name in call.names}
        strangers = [name for name in names if name not in known and not name.startswith("poison/")]
        self.wrong += [f"{session}: nobody wrote {name}" for name in strangers]
        present = set(names)
        for call in calls:
            if missing := _missing(call, there, deleted):
                self._missed(session, call, missing, [one for one in calls if one.writer == call.writer], present)
        for call in calls:
            if call.outcome in ("refused", "rewound") and not present.isdisjoint(call.names):
                self.wrong.append(f"{session}: {call.names[0]} was {call.outcome}, and is there")
            if call.told and session not in MORTAL and not self.may_go_back:
                self.wrong.append(f"{session}: {call.names[0]} was told that the log went back")
            if 0 < len(present.intersection(call.names)) < call.count:
                self.wrong.append(f"{session}: {call.names[0]} stands there in part")
        self._count("reordered", session, _out_of_order(names))

    def row(self, session: str, entries: Entries, row: dict[str, str]) -> None:
        """A row equals the fold of its log."""
        if not entries:
            if "units" in row:
                self.wrong.append(f"{session}: a row, and no log")
            return
        expected, found = expected_row(entries), shown(row)
        if found != expected:
            differ = [name for name in {*found, *expected} if found.get(name) != expected.get(name)]
            told = {name: (found.get(name), expected.get(name)) for name in differ}
            self.wrong.append(f"{session}: the row differs from the fold (found, expected): {told}")

    def marks(self, rows: dict[str, dict[str, str]], indexed: set[str]) -> None:
        """The indexes know the rows with a mark, and no other."""
        marked = {session for session, row in rows.items() if any(name.endswith(".stale") for name in row)}
        if marked != indexed:
            self.wrong.append(f"marks: rows {sorted(marked)}, indexes {sorted(indexed)}")

    def _missed(self, session: str, call: Call, missing: list[str], calls: list[Call], present: set[str]) -> None:
        """Accepted events are not there: say whether their writer knows by now."""
        later = sorted((one for one in calls if one.number > call.number), key=lambda one: one.number)
        answer = next((one for one in later if one.told or not present.isdisjoint(one.names)), None)
        if not self.may_go_back or (answer is not None and not answer.told):
            self._count("lost", session, missing)
        elif answer is None:
            self.gone += len(missing)
        else:
            self.told += len(missing)

    def _count(self, what: str, session: str, names: list[str]) -> None:
        setattr(self, what, getattr(self, what) + len(names))
        self.wrong += [f"{session}: {what}: {', '.join(names[:5])}"] if names else []


async def judge(stage: Stage, ledger: Ledger, deleted: dict[str, set[int]]) -> Verdict:
    """Look at everything once all is still."""
    verdict = Verdict(may_go_back=stage.ground.whole is not None)
    rows = {session: await stage.row(session) for session in SESSIONS}
    for session in SESSIONS:
        entries = stage.cut.get(session, []) + await stage.log(session)
        verdict.log(session, entries, ledger.of(session), deleted.get(session, set()))
        verdict.row(session, entries, rows[session])
    verdict.marks(rows, await stage.marked())
    wire = open_wire(stage.ground.url)
    try:
        verifier = Verifier(wire, stage.keys, mounted_units())
        found = [finding async for finding in verifier.verify(SESSIONS)] + await verifier.lost()
    finally:
        await wire.aclose()
    for finding in found:
        trimmed = bool(stage.cut.get(finding.session)) and "what stood before is gone" in finding.why
        if not finding.sound and not trimmed:
            verdict.wrong.append(f"verify: {finding.session}: {finding.why} {finding.differences}")
    return verdict


def _missing(call: Call, there: dict[str, str], deleted: set[int]) -> list[str]:
    """Accepted events that are not where they were told to be, though nobody deleted them."""
    pairs: list[tuple[str, Any]] = list(zip(call.names, call.positions, strict=True)) if call.positions else []
    return [name for name, position in pairs if there.get(position) != name and _epoch(position) not in deleted]


def _epoch(position: str) -> int:
    return int(position.partition("-")[0])


def _out_of_order(names: list[str]) -> list[str]:
    """Events that stand behind a later one of the same writer."""
    last: dict[str, tuple[int, int]] = {}
    found: list[str] = []
    for name in names:
        if name.startswith("poison/"):
            continue
        writer, _, number, n = name.split("/")
        order = (int(number), int(n))
        if order <= last.get(writer, (0, -1)):
            found.append(name)
        last[writer] = max(order, last.get(writer, order))
    return found
