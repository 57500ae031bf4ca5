"""The unit of docs/UNITS.md: built, installed and tested as its readers would, and shown as it is."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "unit"
UNITS = (ROOT / "docs" / "UNITS.md").read_text()
MOUNTED = "from todo_projection.unit import mounted_units; print(*(unit.key for unit in mounted_units()))"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the example is installed."""
    folder = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=EXAMPLE, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder)
    return os.environ | {"PYTHONPATH": str(folder)}


def test_it_is_mounted_by_its_entry_point(installed: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", MOUNTED], env=installed, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["board", "todos", "tool_calls"]


def test_its_tests_pass_in_a_project_of_its_own(installed: dict[str, str], redis_url: str, tmp_path: Path) -> None:
    """In strict mode and with warnings as errors; the server is ours, so that the run needs no other."""
    for name in ("pyproject.toml", "test_tool_calls.py"):
        (tmp_path / name).write_text((EXAMPLE / name).read_text())
    (tmp_path / "conftest.py").write_text(
        f"import pytest\n\n@pytest.fixture(scope='session')\ndef todo_redis_url():\n    return {redis_url!r}\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin"],
        cwd=tmp_path,
        env=installed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["tool_calls.py", "test_tool_calls.py"])
def test_the_page_shows_it_as_it_is(name: str) -> None:
    (shown,) = re.findall(rf"^`{name}`:\n\n```python\n(.*?)```$", UNITS, re.MULTILINE | re.DOTALL)
    assert shown == (EXAMPLE / name).read_text()


def test_the_page_shows_the_entry_point_as_it_is() -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", UNITS, re.DOTALL)
    assert shown in (EXAMPLE / "pyproject.toml").read_text()
