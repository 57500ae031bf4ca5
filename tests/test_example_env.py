"""The file .env.example: every setting of both sides, as it is."""

import re
from pathlib import Path

import msgspec
import pytest

from command import Command
from example_env import example
from todo_projection.settings import Settings as OperatorSettings
from todo_write.settings import Settings as AgentSettings
from todo_write.settings import StoreSettings

FILE = (Path(__file__).parents[1] / ".env.example").read_text()
SIDES: dict[str, type[StoreSettings]] = {"todo-write": AgentSettings, "todo-projection": OperatorSettings}


def test_it_is_what_the_settings_say() -> None:
    assert example() == FILE, "run: make env"


def test_it_has_every_variable_once_and_sets_none() -> None:
    named = re.findall(r"^#([A-Z_]+)=", FILE, re.MULTILINE)
    assert sorted(named) == sorted({one.name for side in SIDES.values() for one in side.variables()} | {"PORT"})
    assert [line for line in FILE.splitlines() if line and not line.startswith("#")] == []


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
def test_its_values_are_taken_as_they_stand(side: type[StoreSettings]) -> None:
    values = dict(re.findall(r"^#(TODO_[A-Z_]+)=(.*)$", FILE, re.MULTILINE))
    assert side.from_env(values) == side()


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
def test_each_says_what_is_allowed_and_what_it_is(side: type[StoreSettings]) -> None:
    assert [one.name for one in side.variables() if not one.allowed] == []
    bare = r"a whole number|true or false|debug|an address|a port|a path|[a-z+]+://|[0-9]"
    unsaid = [one.name for one in side.variables() if not one.title and re.match(bare, one.allowed)]
    assert unsaid == [], "what is allowed alone says nothing: give the field a title"


@pytest.mark.parametrize("program", SIDES)
async def test_a_command_prints_those_of_its_side(program: str) -> None:
    ran = await Command(program)("settings")
    assert (ran.code, ran.err) == (0, "")
    for one in SIDES[program].variables():
        assert one.lines() in ran.out + "\n"
    told = msgspec.json.decode((await Command(program)("settings", "--json")).out)
    assert told == [one._asdict() for one in SIDES[program].variables()]
