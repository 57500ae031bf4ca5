"""Everything at once: processes that die and a server that fails, and nothing is lost, doubled or reordered."""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.__main__ import OPTIONS
from chaos.blows import WEIGHTS
from chaos.ground import Alone
from chaos.ledger import Call
from chaos.losses import Losses, Repair
from chaos.run import run
from chaos.script import VIEWERS, WORKERS, WRITERS, Plan
from chaos.verdict import Verdict
from eventually import eventually
from oracle import Entries
from repairs import Yard, write
from servers import Server

TESTS = Path(__file__).parent
STEPS = sum(WEIGHTS.values())  # each blow as often as it weighs


@pytest.mark.chaos
@pytest.mark.timeout(600)
async def test_nothing_is_lost_doubled_or_reordered_under_blows(launch: Callable[..., Server], tmp_path: Path) -> None:
    server = launch(*OPTIONS)
    seed = int(os.environ.get("TODO_CHAOS_SEED", "1"))
    plan = Plan(seed, STEPS, server.name)
    totals = await run(plan, Alone(server), tmp_path, print)
    assert set(totals.blows) == set(WEIGHTS)
    assert totals.verdict.events > 0
    assert totals.frames > 0
    assert not totals.verdict.wrong, f"seed {seed}; again: {plan.again}\n" + "\n".join(totals.verdict.wrong)
    assert (totals.verdict.lost, totals.verdict.doubled, totals.verdict.reordered) == (0, 0, 0)


async def test_a_run_that_is_interrupted_leaves_nobody_behind() -> None:
    command = (sys.executable, "-m", "chaos", "--steps", "500", "--seeds", "1")
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    run = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.PIPE)
    try:
        assert run.stdout
        async with asyncio.timeout(90):
            while not (line := (await run.stdout.readline()).decode()).startswith("   1 "):
                assert line, "it ended before its first blow"
        left = set(children(run.pid))
        assert len(left) >= WORKERS + WRITERS + VIEWERS
        run.send_signal(signal.SIGTERM)
        said, _ = await asyncio.wait_for(run.communicate(), 60)
        assert run.returncode
        assert "again: make chaos SEEDS=1 STEPS=500" in said.decode()
        await eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))
    finally:
        if run.returncode is None:
            run.kill()
            await run.communicate()


def children(pid: int) -> Iterator[int]:
    """All processes below one."""
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        yield child
        yield from children(child)


def entries(*names: str) -> Entries:
    return [(f"5-{n}", {"data": json.dumps({"name": name})}) for n, name in enumerate(names)]


def accepted(number: int, *positions: str) -> Call:
    return Call("s", "w", number, len(positions), "accepted", list(positions))


FIRST, SECOND = accepted(1, "5-0", "5-1"), accepted(2, "5-2")
WHOLE = ("w/s/1/0", "w/s/1/1", "w/s/2/0")


@pytest.mark.parametrize(
    ("log", "calls", "counts", "word"),
    [
        (WHOLE, [FIRST, SECOND], (0, 0, 0), ""),
        (WHOLE[:2], [FIRST, SECOND], (1, 0, 0), "lost"),
        ((*WHOLE, WHOLE[2]), [FIRST, SECOND], (0, 1, 1), "doubled"),
        (WHOLE, [FIRST, Call("s", "w", 2, 1, "refused")], (0, 0, 0), "was refused, and is there"),
        (WHOLE, [FIRST, Call("s", "w", 2, 2, "unknown")], (0, 0, 0), "stands there in part"),
        (WHOLE, [FIRST], (0, 0, 0), "nobody wrote w/s/2/0"),
        (WHOLE[:2], [FIRST, Call("s", "w", 2, 1, "rewound", told=True)], (0, 0, 0), "was told that the log went back"),
        (("w/s/2/0", "w/s/1/0"), [Call("s", "w", 1, 1), Call("s", "w", 2, 1)], (0, 0, 1), "reordered"),
    ],
)
def test_what_a_log_should_not_hold_or_lack_is_told(
    log: tuple[str, ...], calls: list[Call], counts: tuple[int, int, int], word: str
) -> None:
    verdict = Verdict()
    verdict.log("s", entries(*log), calls, set())
    assert (verdict.lost, verdict.doubled, verdict.reordered) == counts
    assert any(word in line for line in verdict.wrong) if word else not verdict.wrong


def told(number: int, outcome: str = "rewound") -> Call:
    return Call("s", "w", number, 1, outcome, told=True)


@pytest.mark.parametrize(
    ("log", "calls", "counts"),
    [
        (WHOLE[:2], [FIRST, SECOND, told(3)], (0, 1, 0)),
        (WHOLE[:2], [FIRST, SECOND, Call("s", "w", 3, 1, "refused"), told(4, "unknown")], (0, 1, 0)),
        (WHOLE[:2], [FIRST, SECOND], (0, 0, 1)),
        ((*WHOLE[:2], "w/s/3/0"), [FIRST, SECOND, accepted(3, "5-2")], (1, 0, 0)),
        ((*WHOLE[:2], "w/s/4/0"), [FIRST, SECOND, told(3), accepted(4, "5-2")], (0, 1, 0)),
        ((*WHOLE[:2], "w/s/3/0"), [FIRST, SECOND, accepted(3, "5-2"), told(4)], (1, 0, 0)),
    ],
)
def test_where_a_log_may_go_back_its_writer_must_know_by_its_next_answer(
    log: tuple[str, ...], calls: list[Call], counts: tuple[int, int, int]
) -> None:
    verdict = Verdict(may_go_back=True)
    verdict.log("s", entries(*log), calls, set())
    assert (verdict.lost, verdict.told, verdict.gone) == counts


def test_an_accepted_event_of_a_log_that_was_deleted_is_not_lost() -> None:
    verdict = Verdict()
    verdict.log("d0", [], [accepted(1, "5-0")], {5})
    verdict.log("d0", [], [accepted(1, "6-0")], {5})
    assert verdict.lost == 1


@pytest.mark.parametrize(
    ("session", "row", "trouble", "explained"),
    [
        ("s", "5-4", "behind", True),  # the first event behind the row had its pointer in that feed
        ("s", "5-6", "behind", True),
        ("s", "5-7", "behind", False),  # what comes next was pointed at later, in the new feed
        ("s", "5-3", "behind", False),  # the row was beyond that already
        ("s", "4-4", "behind", False),
        ("s", "5-4", "ahead", False),
        ("other", "5-4", "behind", False),
        ("new", "None", "behind", True),
        ("new", "6-0", "behind", True),
        ("new", "6-1", "behind", False),
    ],
)
def test_a_row_that_had_to_be_pointed_at_again_is_short_of_a_pointer_that_was_taken_away(
    session: str, row: str, trouble: str, *, explained: bool
) -> None:
    losses = Losses()
    losses.note("s", "5-4", "5-7")
    losses.note("new", "", "6-1")
    assert losses.explain(Repair(session, row, trouble)) is explained


async def test_a_pointer_that_a_worker_lost_is_told_by_what_the_audit_says(
    yard: Yard, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await yard.project(write("a"))
    await yard.append("s", write("b"))
    await yard.redis.delete(yard.keys.feed(0))
    with caplog.at_level(logging.WARNING):
        await yard.sweep()
    said = tmp_path / "worker.log"
    said.write_text("".join(json.dumps({"event": message}) + "\n" for message in caplog.messages) + '{"ev')
    losses = Losses()
    (wrong,) = losses.unexplained([said, tmp_path / "none"])
    assert wrong.startswith("s: a pointer was lost")
    look = await yard.look()
    losses.note("s", str(look.row), str(look.tail))
    assert losses.unexplained([said]) == []
    assert losses.unexplained([]) != []
