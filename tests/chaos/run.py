"""One seeded run: everybody on stage, blow upon blow, then calm, and the verdict."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from chaos.actor import Role
from chaos.blows import Blows
from chaos.cast import Cast
from chaos.ear import Ear
from chaos.ground import Ground
from chaos.ledger import Ledger
from chaos.script import SESSIONS, Plan, deck
from chaos.shifts import Shifts
from chaos.stage import Stage
from chaos.verdict import Verdict, judge
from eventually import eventually

PAUSE_S = (0.0, 0.4)
BEGINS_S, SETTLES_S = 60.0, 120.0

Tell = Callable[[str], None]


@dataclass
class Totals:
    """What one run, or all of them, came to."""

    blows: Counter[str] = field(default_factory=Counter[str])
    calls: Counter[str] = field(default_factory=Counter[str])
    verdict: Verdict = field(default_factory=Verdict)
    poisoned: int = 0
    frames: int = 0

    def add(self, other: "Totals") -> None:
        """Count another run in."""
        self.blows += other.blows
        self.calls += other.calls
        self.poisoned += other.poisoned
        self.frames += other.frames
        for what in ("lost", "told", "gone", "doubled", "reordered", "events"):
            setattr(self.verdict, what, getattr(self.verdict, what) + getattr(other.verdict, what))
        self.verdict.wrong += other.verdict.wrong

    @property
    def told(self) -> str:
        """In a few lines."""
        kills = sum(count for name, count in self.blows.items() if name.startswith("kill"))
        calls = ", ".join(
            f"{self.calls[outcome]} {outcome}" for outcome in ("accepted", "unknown", "refused", "rewound")
        )
        found = self.verdict
        blows = ", ".join(f"{name} {count}" for name, count in sorted(self.blows.items()))
        return (
            f"{self.blows.total()} steps, {kills} kills ({blows})\n"
            f"appends: {calls}; {found.events} events, {self.poisoned} of poison; {self.frames} frames\n"
            f"gone with a fail-over: {found.told} told to their writers, {found.gone} whose writer was gone as well\n"
            f"lost {found.lost}, doubled {found.doubled}, reordered {found.reordered}, wrong {len(found.wrong)}"
        )


async def run(plan: Plan, ground: Ground, folder: Path, tell: Tell) -> Totals:
    """The totals of one run; what does not hold is in their verdict. Ends within the plan's bound."""
    pick = random.Random(plan.seed)
    tell(f"seed {plan.seed}, {plan.steps} steps on {plan.server}; again: {plan.again}")
    async with (
        asyncio.timeout(plan.bound_s),
        Stage(ground) as stage,
        Ear(ground) as ear,
        Cast(ground.url, folder, plan.seed) as cast,
    ):
        shifts = None if ground.whole is None else Shifts(ground.whole, pick, ear)
        blows, totals = Blows(stage, cast, pick, shifts), Totals()
        try:
            await eventually(lambda: _has_begun(stage, cast), within=BEGINS_S)
            await _strike(plan, blows, pick, totals, tell)
            await blows.calm()
            tell(f"last, pointers lost for good: {await blows.lose_pointers()}")
        finally:
            blows.end()
        await _settle(stage, cast, totals)
        ledger = Ledger(actor.file for actor in (*cast.ended, *cast.actors) if actor.role is Role.WRITER)
        verdict = await judge(stage, ledger, blows.deleted)
        await cast.dismiss(*cast.of(Role.WORKER))
        workers = [actor.said for actor in (*cast.ended, *cast.actors) if actor.role is Role.WORKER]
        mistakes = [*ear.fallen, *cast.fallen, *stage.losses.unexplained(workers)]
        verdict.wrong = [*totals.verdict.wrong, *verdict.wrong, *mistakes]
        totals.verdict, totals.poisoned, totals.frames = verdict, stage.poisoned, ear.frames
        totals.calls.update(
            {outcome: ledger.count(outcome) for outcome in ("accepted", "unknown", "refused", "rewound")}
        )
        return totals


async def _strike(plan: Plan, blows: Blows, pick: random.Random, totals: Totals, tell: Tell) -> None:
    cards: list[str] = []
    for step in range(1, plan.steps + 1):
        cards = cards or deck(pick, blows.weights)
        name = cards.pop()
        await asyncio.sleep(pick.uniform(*PAUSE_S))  # not a wait for anything: the pace of a run
        tell(f"{step:4} {name}: {await blows.strike(name)}")
        totals.blows[name] += 1


async def _has_begun(stage: Stage, cast: Cast) -> bool:
    lacking = [session for session in SESSIONS if not await stage.row(session)]
    assert not lacking, f"no row came up of {lacking}\n" + "\n".join(cast.fallen)
    return True


async def _settle(stage: Stage, cast: Cast, totals: Totals) -> None:
    """Wait until every row has caught up, nothing is left to do, and every carrier shows what is stored."""
    for condition in (_caught_up, _cleaned_up, _shown_everywhere):
        try:
            await eventually(partial(condition, stage, cast), within=SETTLES_S)
        except AssertionError as error:
            totals.verdict.wrong.append(f"{condition.__name__}: {error}")


async def _caught_up(stage: Stage, _: Cast) -> bool:
    for session in SESSIONS:
        tail, row = await stage.tail(session), await stage.row(session)
        assert tail is None or tail[0] == row.get("pos"), f"{session}: log at {tail}, row at {row.get('pos')}"
    backlog = await stage.backlog()
    assert backlog == 0, f"{backlog} pointers are left"
    return True


async def _cleaned_up(stage: Stage, cast: Cast) -> bool:
    pids = [f"-{actor.pid}-" for actor in cast.of(Role.WORKER)]
    strangers = [name for name in await stage.consumers() if not any(pid in name for pid in pids)]
    assert not strangers, f"consumers of the dead are left: {strangers}"
    return True


async def _shown_everywhere(stage: Stage, cast: Cast) -> bool:
    rows = {session: await stage.row(session) for session in SESSIONS}
    for viewer in cast.of(Role.VIEWER):
        assert viewer.file.exists(), f"{viewer.name} shows nothing"
        found: dict[str, Any] = json.loads(viewer.file.read_text())
        assert found["state"] == "live", f"{viewer.name} is {found['state']}"
        for session, row in rows.items():
            shows, holds = found["shown"].get(session), _stored(row)
            assert shows == holds, f"{viewer.name} shows of {session} {shows}, the row holds {holds}"
    return True


def _stored(row: dict[str, str]) -> dict[str, Any]:
    """What a carrier should show of a row; of none, or of a tombstone, nothing."""
    if "units" not in row:
        return {"value": None, "stale": None, "epoch": None}
    stale = json.loads(row["todos.stale"]) if "todos.stale" in row else None
    return {"value": json.loads(row["todos"]), "stale": stale, "epoch": int(row["pos"].partition("-")[0])}
