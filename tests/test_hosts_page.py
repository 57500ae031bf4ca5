"""docs/HOSTS.md: its Python is run as it stands there, what else it names exists."""

import ast
import asyncio
import inspect
import os
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import hosts
from command import Command
from hosts import EXAMPLES, Host, Reply, langgraph, openai_agents, pydantic_ai, recipe
from logged import log_of, turn
from todo_write.log import Client
from todo_write.tool import TodoWrite

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "HOSTS.md").read_text()
LINES_MAX = 5
RECIPE_LINES_MAX = 30
PLAN = {"todos": [{"content": "build", "status": "in_progress"}]}
ROWS = {
    Path(path).name: (kind, code)
    for path, kind, code in re.findall(
        r"<tr><td>\n\n[^\n]*\(\.\./(examples/[^)]+)\)\n.*?```(\w+)\n(.*?)```", PAGE, re.DOTALL
    )
}


async def run(code: str, names: dict[str, Any]) -> None:
    """Run lines that may await, as if they stood in a coroutine."""
    compiled = compile(code, "docs/HOSTS.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = eval(compiled, names)
    if inspect.isawaitable(running):
        await running


class FiveLines(ModuleType):
    """A recipe's module, whose imports stay and whose functions are the five lines of the page."""

    def __init__(self, module: ModuleType, code: str) -> None:
        super().__init__(module.__name__)
        self.imports, self.code = vars(module), code

    def agent_of(self, client: Client, model: Any) -> Any:
        return model

    async def answer(self, client: Client, model: Any, session: str, prompt: str) -> Any:
        await run(self.code, self.imports | {"client": client, "model": model, "session": session, "prompt": prompt})
        return {"messages": []}


@pytest.mark.parametrize("host", [langgraph, openai_agents, pydantic_ai], ids=lambda host: host.__name__)
async def test_five_lines_are_a_live_plan(host: Host, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"in_{host.__name__}"
    kind, code = ROWS[f"{name}.py"]
    assert kind == "python"
    assert len(code.splitlines()) <= LINES_MAX
    five_lines = FiveLines(recipe(name), code)
    monkeypatch.setattr(hosts, "recipe", {name: five_lines}.__getitem__)
    script: Sequence[Reply] = [[PLAN], []]
    await host(client, "s1", script)
    assert await log_of(client, "s1") == turn(1, PLAN)


def test_every_recipe_has_a_row_and_every_row_a_recipe() -> None:
    recipes = {path.name for path in EXAMPLES.iterdir() if path.name.startswith(("in_", "serve.", "claude_code"))}
    assert set(ROWS) == recipes


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_recipe_and_its_row_are_short(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) <= RECIPE_LINES_MAX
    assert len(ROWS[name][1].splitlines()) <= LINES_MAX


def test_the_row_for_typescript_takes_what_the_recipe_exports() -> None:
    _, code = ROWS["serve.ts"]
    (imported,) = re.findall(r"import \{ (.*?) \} from \"./serve.ts\"", code)
    exported = re.findall(r"^export (?:const|async function) (\w+)", (EXAMPLES / "serve.ts").read_text(), re.MULTILINE)
    assert set(imported.split(", ")) <= set(exported)


async def test_the_lines_for_a_shell_are_a_live_plan(redis_url: str, namespace: str, client: Client) -> None:
    (code,) = re.findall(r"Anything with a shell\n.*?```sh\n(.*?)```", PAGE, re.DOTALL)
    todo_write = Command("todo-write", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)
    path = f"{todo_write.program.parent}:{os.environ['PATH']}"
    shell = await asyncio.create_subprocess_shell(
        f"set -e\n{code}", env=todo_write.environment | {"PATH": path}, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(shell.communicate(), 30)
    assert shell.returncode == 0
    assert b"Updated todo list: 0 pending, 1 in progress, 0 completed." in out
    assert await log_of(client, "s1") == turn(1, PLAN)


async def test_the_lines_for_mcp_name_options_that_exist() -> None:
    (code,) = re.findall(r"Any MCP client\n.*?```sh\n(.*?)```", PAGE, re.DOTALL)
    told = await Command("todo-write")("mcp", "--help")
    options = set(re.findall(r"--\w+", code))
    assert options
    assert options <= set(re.findall(r"--\w+", told.out))


async def test_the_lines_for_a_subagent_keep_its_list_apart(client: Client) -> None:
    (code,) = re.findall(r"## Subagents\n.*?```python\n(.*?)```", PAGE, re.DOTALL)
    todo = TodoWrite(client, allow_parallel_in_progress=True)
    names = {"client": client, "todo": todo, "session": "s1", "arguments": PLAN}
    await run(code, vars(recipe("in_langgraph")) | names)
    assert await log_of(client, "s1") == []
    assert await log_of(client, "s1/review") == [
        ("session/start", {"parentSession": "s1", "label": "review"}),
        *turn(1, PLAN),
    ]
