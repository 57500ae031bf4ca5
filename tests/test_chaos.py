"""Everything at once: processes that die and a server that fails, and nothing is lost, doubled or reordered."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.__main__ import OPTIONS
from chaos.blows import WEIGHTS
from chaos.run import run
from chaos.script import Plan
from servers import Server

STEPS = sum(WEIGHTS.values())  # each blow as often as it weighs


@pytest.mark.chaos
@pytest.mark.timeout(600)
async def test_nothing_is_lost_doubled_or_reordered_under_blows(launch: Callable[..., Server], tmp_path: Path) -> None:
    server = launch(*OPTIONS)
    seed = int(os.environ.get("TODO_CHAOS_SEED", "1"))
    plan = Plan(seed, STEPS, server.name)
    totals = await run(plan, server, tmp_path, print)
    assert set(totals.blows) == set(WEIGHTS)
    assert totals.verdict.events > totals.poisoned > 0
    assert totals.frames > 0
    assert not totals.verdict.wrong, f"seed {seed}; again: {plan.again}\n" + "\n".join(totals.verdict.wrong)
    assert (totals.verdict.lost, totals.verdict.doubled, totals.verdict.reordered) == (0, 0, 0)
