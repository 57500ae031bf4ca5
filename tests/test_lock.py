"""The lock: made from all of pyproject.toml, whoever made it."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())
REQUIRED = {
    "dependencies": DECLARED["project"]["dependencies"],
    **{f"extra {name}": found for name, found in DECLARED["project"]["optional-dependencies"].items()},
    **{
        f"group {name}": [one for one in found if isinstance(one, str)]  # the others are groups, listed themselves
        for name, found in DECLARED["dependency-groups"].items()
    },
}


def canonical(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


@pytest.mark.parametrize("where", REQUIRED)
def test_everything_declared_is_locked(where: str) -> None:
    locked = {canonical(line) for line in (ROOT / "requirements.lock").read_text().splitlines() if "==" in line}
    missing = {canonical(requirement) for requirement in REQUIRED[where]} - locked - {"todo-projection"}
    assert not missing, "run: make lock"
