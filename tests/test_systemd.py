"""The systemd units in deploy/systemd: sound, hardened, and of this program."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from todo_projection.settings import Settings

FOLDER = Path(__file__).parents[1] / "deploy" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
PROGRAMS = "/opt/todo-projection/bin"
EXPOSURE_MAX = 15  # of 100, as systemd-analyze counts it; an ordinary unit has 96


def value(unit: Path, key: str) -> str:
    return next(line.partition("=")[2] for line in unit.read_text().splitlines() if line.startswith(f"{key}="))


@pytest.fixture(params=UNITS, ids=lambda unit: unit.name)
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A unit with the programs of this environment."""
    source: Path = request.param
    copy = tmp_path / source.name
    copy.write_text(source.read_text().replace(PROGRAMS, str(Path(sys.executable).parent)))
    return copy


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        assert os.environ.get("TODO_REQUIRE_SYSTEMD") != "1", (
            "TODO_REQUIRE_SYSTEMD=1, but systemd-analyze is not on PATH"
        )
        pytest.skip("systemd-analyze is not installed")
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


def test_it_is_sound(unit: Path) -> None:
    ran = analyze("verify", "--recursive-errors=no", "--man=no", unit)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_it_is_hardened(unit: Path) -> None:
    ran = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager", unit)
    assert ran.returncode == 0, ran.stdout


def test_it_ends_by_itself_before_it_is_killed(unit: Path) -> None:
    assert int(value(unit, "TimeoutStopSec")) > Settings().grace_ms / 1000


def test_what_a_person_must_mend_is_not_tried_for_ever(unit: Path) -> None:
    assert (value(unit, "Restart"), value(unit, "RestartPreventExitStatus")) == ("always", "2")
    command = value(unit, "ExecStart").split()
    ran = subprocess.run(command, env={"TODO_PARTITIONS": "x"}, capture_output=True, text=True, check=False)
    assert (ran.returncode, "TODO_PARTITIONS" in ran.stderr) == (2, True)
