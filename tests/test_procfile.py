"""The Procfile: every line of it starts."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from command import Command

PROCFILE = Path(__file__).parent.parent / "Procfile"


def processes() -> Iterator[tuple[str, str]]:
    for line in PROCFILE.read_text().splitlines():
        match = re.fullmatch(r"([a-z]+): (.+)", line)
        assert match, f"{line!r}: a line of a Procfile is <process>: <command>"
        yield match[1], match[2]


COMMANDS = dict(processes())


def test_a_worker_is_one_of_them() -> None:
    assert COMMANDS["worker"] == "todo-projection worker"


@pytest.mark.parametrize("name", COMMANDS)
async def test_its_command_is_there_with_these_flags(name: str) -> None:
    program, *arguments = shlex.split(COMMANDS[name].replace("$PORT", "8421"))
    ran = await Command(program)(*arguments, "--help")
    assert ran.code == 0, ran.err
    assert f"Usage: {program} {arguments[0]}" in ran.out
