"""The mutants: each fits the code as it stands, every invariant has one, and what runs them tells the truth."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mutants.mutant import ROOT, Mutant, OutOfDate, mutant
from mutants.run import check_imports, copied, outcome
from mutants.table import MUTANTS

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
QUICK = ("own op taken for another's", "no compare of the etag")


def ident(one: Mutant) -> str:
    return one.name


@pytest.mark.parametrize("one", MUTANTS, ids=ident)
def test_a_mutant_fits_the_code_and_names_tests_that_are_there(one: Mutant) -> None:
    assert one.applied() != (ROOT / one.file).read_text()
    assert one.tests
    for id in one.tests:
        file, *names = id.split("::")
        text = (ROOT / "tests" / file).read_text()
        for name in names:
            assert re.search(rf"\b(def|class) {name}\b", text), id


def test_every_invariant_has_a_mutant_and_names_are_told_apart() -> None:
    numbers = {int(n) for n in re.findall(r"^(\d+)\. ", PAGE.partition("## Invariants")[2], re.MULTILINE)}
    assert {one.invariant for one in MUTANTS} == numbers
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)


def test_the_page_lists_each_mutant_beside_what_it_breaks() -> None:
    section = PAGE.partition("### Broken on purpose")[2].partition("\n## ")[0]
    told = {
        (int(n), name)
        for n, names in re.findall(r"^\| (\d+) \| (.+) \|$", section, re.MULTILINE)
        for name in names.split(" · ")
    }
    assert told == {(one.invariant, one.name) for one in MUTANTS}
    assert f"Of these\n{len(MUTANTS)} none survives" in section


def test_a_text_that_is_not_there_once_is_out_of_date() -> None:
    for old in ("this stands nowhere", "redis.call("):
        with pytest.raises(OutOfDate, match="holds"):
            mutant("m", 1, "tool/todo_write/append.lua", old, "", "test_room.py").applied()


@pytest.fixture(scope="module")
def copy() -> Iterator[Path]:
    with copied() as copy:
        yield copy


def test_tests_on_a_copy_import_the_copy(copy: Path) -> None:
    check_imports(copy)


@pytest.mark.parametrize("name", QUICK)
def test_a_mutant_is_killed_by_the_tests_meant_for_it(name: str) -> None:
    (one,) = (one for one in MUTANTS if one.name == name)
    found = outcome(one)
    assert (found.verdict, found.by.partition("[")[0] in one.tests) == ("killed", True), found


def test_one_that_changes_nothing_survives_and_the_tree_stays_as_it_is() -> None:
    edit = ("return #entries == count", "return #entries == count -- the same")
    before = (ROOT / "tool/todo_write/append.lua").read_text()
    same = mutant("same", 1, "tool/todo_write/append.lua", *edit, "test_room.py")
    assert outcome(same).verdict == "survived"
    assert (ROOT / "tool/todo_write/append.lua").read_text() == before


def test_the_command_prints_what_a_program_reads_and_says_which_is_unknown() -> None:
    command = (sys.executable, "-m", "mutants", "--json", "--only")
    run = subprocess.run([*command, "frames in any"], cwd=ROOT / "tests", capture_output=True, text=True, check=False)
    (told,) = json.loads(run.stdout)
    assert (run.returncode, told["verdict"], told["invariant"]) == (0, "killed", 16)
    unknown = subprocess.run(
        [*command, "of no mutant"], cwd=ROOT / "tests", capture_output=True, text=True, check=False
    )
    assert unknown.returncode == 2
