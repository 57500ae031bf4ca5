"""pydantic-ai: the session is the run's deps, every run is a turn."""

from typing import Any

from pydantic_ai import Agent, RunContext, Tool, ToolFailed
from pydantic_ai.models import Model
from pydantic_core import SchemaValidator, core_schema

from todo_write.log import Client, SessionLog
from todo_write.tool import TodoWrite


def agent_of(client: Client, model: Model | str) -> Agent[str]:
    todo = TodoWrite(client, allow_parallel_in_progress=True)

    async def call(context: RunContext[str], /, **arguments: Any) -> str:
        outcome = await todo.run(arguments, session=context.deps)
        if outcome.ok:
            return outcome.text
        raise ToolFailed(outcome.text)  # not ModelRetry, which ends the run at the second rejection

    tool = Tool[str].from_schema(call, todo.name, todo.description, todo.parameters, takes_ctx=True)
    tool.function_schema.validator = SchemaValidator(core_schema.dict_schema())  # else an array breaks the run
    return Agent(model, deps_type=str, tools=[tool])


async def answer(client: Client, agent: Agent[str], session: str, prompt: str) -> str:
    async with SessionLog(client, session).turn():
        return (await agent.run(prompt, deps=session)).output
