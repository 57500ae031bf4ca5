"""The benchmarks of latency, size and scale run, check what they measured, and write it down."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from bench.record import Record

TESTS = Path(__file__).parent


@pytest.mark.parametrize(
    ("name", "options", "figure"),
    [
        ("append", ["--calls", "50", "--rounds", "1"], "append_over_xadd"),
        ("refold", ["--events", "5000", "--rounds", "1"], "events_per_s"),
        ("latency", ["--rate", "100", "--seconds", "0.5", "--rounds", "1"], "100/s"),
        ("idle", ["--sessions", "100"], "recommended, plan open"),
        (
            "scale",
            ["--sessions", "1000", "--events", "200", "--rounds", "1", "--seconds", "0.5", "--starts", "1"],
            "1000",
        ),
    ],
)
def test_a_run_writes_what_it_measured(name: str, options: Sequence[str], figure: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.json"
    command = [sys.executable, "-m", f"bench.{name}", *options, "--json", str(path)]
    environ = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = msgspec.json.decode(path.read_bytes(), type=Record)
    assert any(figure in told for told in found.figures), found.figures
    assert found.rounds
    assert found.machine.packages["redis"]
    if name in ("latency", "scale"):
        assert path.with_suffix(".svg").read_text().startswith("<svg")
