"""deploy/README.md: what it points at, names and tells to run is there."""

import re
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from todo_projection.cli import app as operators
from todo_write.cli import app as agents

DEPLOY = Path(__file__).parents[1] / "deploy"
PAGE = (DEPLOY / "README.md").read_text()
ANCHORS = {
    re.sub(r"[^a-z0-9 -]", "", line.lower()).replace(" ", "-") for line in re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
}


def commands(app: object) -> set[str]:
    return set(get_command(app).commands)  # type: ignore[arg-type, attr-defined]  # a Typer makes a group


def test_what_it_links_to_is_there() -> None:
    for link in re.findall(r"\]\(([^)]+)\)", PAGE):
        path, _, anchor = link.partition("#")
        assert (DEPLOY / path).exists(), link
        assert path or anchor in ANCHORS, link


def test_every_alert_has_its_entry() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    found = [
        rule["annotations"]["runbook_url"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule
    ]
    assert found
    for url in found:
        path, _, anchor = url.partition("#")
        assert path == "deploy/README.md"
        assert anchor in ANCHORS, url


def told() -> list[str]:
    """Lines to type: of blocks, after a prompt, and commands in a sentence."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    text = re.sub(r"```sh\n.*?```", "", PAGE, flags=re.DOTALL)
    return [
        *(line for block in blocks for line in block.splitlines()),
        *re.findall(r"^    \$ (.+)$", text, re.MULTILINE),
        *re.findall(r"`(todo[^`\n]+)`", text),
    ]


@pytest.mark.parametrize(
    ("program", "app", "few"), [(r"todo-projection|(?<!-n )todo", operators, 8), ("todo-write", agents, 2)]
)
def test_every_command_it_tells_to_run_is_one(program: str, app: object, few: int) -> None:
    named = {name for line in told() for name in re.findall(rf"(?:^|[ /])(?:{program}) ([a-z]+)\b", line)}
    assert named - commands(app) == set()
    assert len(named) >= few
