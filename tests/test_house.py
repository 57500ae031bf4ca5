"""The rules of the house: names, sizes, and what the pure core may import."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = (ROOT / "tool" / "todo_write", ROOT / "worker" / "todo_projection")
MODULES = [path for package in PACKAGES for path in sorted(package.rglob("*.py"))]
SCRIPTS = [path for package in PACKAGES for path in sorted(package.rglob("*.lua"))]
PYTHON = [*MODULES, *sorted(ROOT.glob("tests/**/*.py"))]

FORBIDDEN_NAMES = re.compile(r"(^|_)(manager|utils?|common|helpers?|base|misc|shared)(_|\Z)")
FILE_LINES_MAX = 300  # usual are 50 to 150
TEST_FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60  # usual are up to 40
# One list of the pure core, that of the contract: what it forbids by name, these tests forbid by what is left.
PURE = [
    module
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    if contract["id"] == "pure-core"
    for module in contract["source_modules"]
]
PURE_MAY_IMPORT = {*sys.stdlib_module_names, "msgspec"}
PURE_MAY_NOT = {"asyncio", "socket", "subprocess", "threading", "time", "pathlib", "logging"}


def ident(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module or ""


@pytest.mark.parametrize("path", [*PYTHON, *SCRIPTS], ids=ident)
def test_a_file_is_named_for_what_it_holds(path: Path) -> None:
    assert not FORBIDDEN_NAMES.search(path.stem), "say what it holds: a noun of the field"


@pytest.mark.parametrize("path", [*PYTHON, *SCRIPTS], ids=ident)
def test_a_file_holds_one_concept(path: Path) -> None:
    limit = TEST_FILE_LINES_MAX if path.is_relative_to(ROOT / "tests") else FILE_LINES_MAX
    assert len(path.read_text().splitlines()) <= limit, "two concepts: two files"


@pytest.mark.parametrize("path", PYTHON, ids=ident)
def test_a_function_can_be_read_in_one_look(path: Path) -> None:
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    lines = {node.name: (node.end_lineno or node.lineno) - node.lineno + 1 for node in functions}
    assert {name: count for name, count in lines.items() if count > FUNCTION_LINES_MAX} == {}


@pytest.mark.parametrize("path", SCRIPTS, ids=ident)
def test_a_script_declares_itself(path: Path) -> None:
    assert path.read_text().startswith("#!lua"), "without it the server takes it for a script that may touch any key"


@pytest.mark.parametrize("module", PURE)
def test_a_pure_module_imports_msgspec_the_standard_library_and_pure_ones_only(module: str) -> None:
    (path,) = (path for path in MODULES if f"{path.parent.name}.{path.stem}" == module)
    names = set(imported(path))
    assert {name for name in names if name.partition(".")[0] not in PURE_MAY_IMPORT and name not in PURE} == set()
    assert names & PURE_MAY_NOT == set()
