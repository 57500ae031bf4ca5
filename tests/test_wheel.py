"""The wheel: what is built is whole, and holds nothing else."""

import subprocess
import sys
import tomllib
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = {"todo_write": ROOT / "tool" / "todo_write", "todo_projection": ROOT / "worker" / "todo_projection"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def names(wheel: zipfile.ZipFile, package: str) -> set[str]:
    return {name for name in wheel.namelist() if name.startswith(f"{package}/")}


@pytest.mark.parametrize("package", ROOMS)
def test_a_package_is_there_with_every_module_script_and_its_type_mark(wheel: zipfile.ZipFile, package: str) -> None:
    files = [path for path in ROOMS[package].rglob("*") if path.is_file() and path.suffix != ".pyc"]
    expected = {f"{package}/{path.relative_to(ROOMS[package]).as_posix()}" for path in files}
    assert names(wheel, package) == expected
    assert f"{package}/py.typed" in expected
    assert any(name.endswith(".lua") for name in expected)


def test_nothing_else_is_in_it(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(ROOMS)


def test_every_entry_point_names_a_module_that_is_in_it(wheel: zipfile.ZipFile) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (path,) = (name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt"))
    stored = ConfigParser(delimiters="=")
    stored.read_string(wheel.read(path).decode())
    assert dict(stored["console_scripts"]) == declared["scripts"]
    assert dict(stored["todo_projection.units"]) == declared["entry-points"]["todo_projection.units"]
    for section in stored.values():
        for target in section.values():
            assert f"{target.partition(':')[0].replace('.', '/')}.py" in wheel.namelist(), target


def test_the_licence_is_in_it(wheel: zipfile.ZipFile) -> None:
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())
