"""The benchmark measures nobody who has left work undone."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis as redis_sync

from bench import backlog, chatty, loop
from bench.check import Truth, Undone, check_plans, check_rows
from bench.measure import Job
from bench.mix import MIXES
from bench.report import Result, figures_of
from servers import Server
from todo_write.events import Keys

EVENTS, SESSIONS = 400, 7
TESTS = Path(__file__).parent


def events() -> Any:
    return MIXES["heavy"].events(EVENTS, SESSIONS)


def test_a_run_of_the_benchmark_writes_what_it_measured(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    options = ["--mix", "heavy", "--sessions", str(SESSIONS), "--events", str(EVENTS), "--rounds", "2"]
    options += ["--only", "worker", "--only", "lean-128", "--json", str(path)]
    environ = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        [sys.executable, "-m", "bench", *options], env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    result = msgspec.json.decode(path.read_bytes(), type=Result)
    (case,) = result.cases
    assert {name: len(found) for name, found in case.rounds.items()} == {"worker": 2, "lean-128": 2}
    assert all(one.events == EVENTS and one.redis_cpu_s > 0 for found in case.rounds.values() for one in found)
    assert result.figures == {"heavy, 7 sessions": figures_of(case)}
    assert result.machine.packages["redis"]


def test_a_backlog_nobody_drained_is_work_undone(own_server: Server) -> None:
    with redis_sync.Redis.from_url(own_server.url) as client:
        backlog.load_logs(client, Keys(), events())
        backlog.load_stream(client, events())
        client.xgroup_create(backlog.STREAM, loop.GROUP, id="0")
        for partition in range(Keys().partitions):
            client.xgroup_create(Keys().feed(partition), "projection", id="0", mkstream=True)
        with pytest.raises(Undone, match="still holds"):
            check_rows(client, Keys(), Truth(events()))
        with pytest.raises(Undone, match="read up to"):
            check_plans(client, Truth(events()))


def test_a_plan_that_is_not_the_last_one_is_work_undone(own_server: Server) -> None:
    with redis_sync.Redis.from_url(own_server.url) as client:
        backlog.load_stream(client, events())
        asyncio.run(loop.drain_lean(Job("lean-128", own_server.url, EVENTS), 128))
        check_plans(client, Truth(events()))
        session = next(session for session, plan in Truth(events()).plans.items() if plan)
        client.hset(f"plan:{session}", "todos", b"[]")
        with pytest.raises(Undone, match=session):
            check_plans(client, Truth(events()))


def test_what_a_flood_costs_is_the_ratio_of_rounds_that_stand_side_by_side() -> None:
    rounds = [(False, 0, 10.0), (True, 9_000, 15.0), (False, 0, 40.0), (True, 8_000, 40.0)]
    found = [
        {"flood": flood, "flooded": reached, "percentiles_ms": [1.0] * 98 + [p99]} for flood, reached, p99 in rounds
    ]
    figures = chatty.figures_of(found)
    assert (figures["p99_with_over_without"], figures["flood_per_s"]) == (1.25, 8_500)
