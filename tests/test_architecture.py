"""ARCHITECTURE.md names every module, and none that is not there."""

import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
PAGE = (TOP / "ARCHITECTURE.md").read_text()
MAP = PAGE.partition("## Code map")[2].partition("## Invariants")[0]


@pytest.mark.parametrize("package", ["tool/todo_write", "worker/todo_projection"])
def test_the_code_map_names_every_module_of_the_package(package: str) -> None:
    section = MAP.partition(f"### `{package}`")[2].partition("\n### ")[0]
    named = set(re.findall(r"`([a-z_]+)`", section))
    found = {path.stem for path in (TOP / package).glob("*.py")} | {
        path.parent.name for path in (TOP / package).glob("*/__init__.py")
    }
    modules = found - {"__init__"}
    assert modules - named == set(), "not in the code map of ARCHITECTURE.md"
    assert named - modules - {"todos"} == set(), "in the code map, but not there"


def test_the_files_and_names_that_the_page_points_at_are_there() -> None:
    for path in re.findall(r"`((?:tool|worker)/[a-z_/]+\.(?:py|lua))`", PAGE):
        assert (TOP / path).is_file(), path
    for name in re.findall(r"`([a-z_]+\.(?:py|lua))`", PAGE):
        assert list(TOP.glob(f"*/todo_*/{name}")), name


def test_invariants_are_numbered_without_a_gap() -> None:
    numbers = [int(n) for n in re.findall(r"^(\d+)\. ", PAGE.partition("## Invariants")[2], re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
