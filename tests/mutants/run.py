"""Running tests on a copy of the tree with one mutant in it. The working tree is only read."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from mutants.mutant import ROOT, Mutant

COPIED = ("tool", "worker", "tests", "examples", "docs")
TEST_S_MAX = 60
PACKAGES = {"todo_write": "tool", "todo_projection": "worker"}

Verdict = Literal["killed", "survived", "broken"]


class Outcome(msgspec.Struct, frozen=True):
    """What became of a mutant; ``by`` names the first test that failed, or says why there is no verdict."""

    name: str
    invariant: int
    file: str
    verdict: Verdict
    by: str
    seconds: float


class NotGreen(RuntimeError):
    """The tests fail without any mutant, or would not run on the copy: nothing can be said."""


@contextmanager
def copied(root: Path = ROOT) -> Generator[Path]:
    """A copy of the tree, for as long as the block runs."""
    with tempfile.TemporaryDirectory(prefix="todo-mutant-") as folder:
        copy = Path(folder)
        for name in COPIED:
            shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("node_modules"))
        for path in root.iterdir():
            if path.is_file() and not path.is_symlink():
                shutil.copy2(path, copy)
        yield copy


def environment(copy: Path) -> dict[str, str]:
    """Of a test run on the copy: its packages before the installed ones, the embedded server only."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TODO_")}
    path = os.pathsep.join(str(copy / folder) for folder in PACKAGES.values())
    return {**kept, "PYTHONPATH": path, "DOCKER_HOST": f"unix://{copy}/no-engine"}


def check_imports(copy: Path) -> None:
    """Raises NotGreen unless a process of a test run imports both packages from the copy."""
    asked = (
        "import importlib, sys; print(*(importlib.import_module(name).__file__ for name in sys.argv[1:]), sep='\\n')"
    )
    command = [sys.executable, "-c", asked, *PACKAGES]
    run = subprocess.run(command, cwd=copy, env=environment(copy), capture_output=True, text=True, check=True)
    for (package, folder), found in zip(PACKAGES.items(), run.stdout.splitlines(), strict=True):
        if not Path(found).is_relative_to(copy / folder):
            raise NotGreen(f"{package} is imported from {found}, not from the copy in {copy}")


def tests(copy: Path, ids: Iterable[str]) -> tuple[int, str]:
    """Exit code and output of pytest for these node ids, ended by the first failure."""
    pytest = (sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=line", "-pno:cacheprovider")
    command = [*pytest, f"--timeout={TEST_S_MAX}", *(f"tests/{id}" for id in dict.fromkeys(ids))]
    run = subprocess.run(command, cwd=copy, env=environment(copy), capture_output=True, text=True, check=False)
    return run.returncode, run.stdout + run.stderr


def prove_green(copy: Path, mutants: Sequence[Mutant]) -> None:
    """Run the tests of all these on a copy without any mutant; raises NotGreen."""
    check_imports(copy)
    code, said = tests(copy, [id for mutant in mutants for id in mutant.tests])
    if code:
        raise NotGreen(f"without a mutant the tests end with {code}:\n{said}")


def outcome(mutant: Mutant, root: Path = ROOT) -> Outcome:
    """Run the tests meant for one mutant on a copy of ``root`` that has it. Raises OutOfDate, NotGreen."""
    began = time.monotonic()
    with copied(root) as copy:
        (copy / mutant.file).write_text(mutant.applied(root))
        check_imports(copy)
        code, said = tests(copy, mutant.tests)
    failed = re.search(r"^(?:FAILED|ERROR) tests/(\S+)", said, re.MULTILINE)
    verdict: Verdict = "broken"
    by = f"pytest ended with {code}: {said.strip()[-500:]}"
    if code == 0:
        verdict, by = "survived", ""
    elif code == 1 and failed:
        verdict, by = "killed", failed[1]
    return Outcome(mutant.name, mutant.invariant, mutant.file, verdict, by, round(time.monotonic() - began, 1))
