"""OpenAI Agents SDK: the session is the run's context, every run is a turn."""

from agents import Agent, FunctionTool, Model, Runner, RunResult
from agents.tool_context import ToolContext

from todo_write.arguments import read_arguments
from todo_write.log import Client, SessionLog
from todo_write.tool import TodoWrite


def agent_of(client: Client, model: Model | str) -> Agent[str]:
    todo = TodoWrite(client, allow_parallel_in_progress=True)

    async def call(context: ToolContext[str], arguments: str) -> str:
        return await todo.call(read_arguments(arguments), session=context.context)

    # Not strict: the schema goes out as it stands, and what breaks it is told in the tool's own words.
    tool = FunctionTool(todo.name, todo.description, todo.parameters, call, strict_json_schema=False)
    return Agent[str](name="agent", model=model, tools=[tool])


async def answer(client: Client, agent: Agent[str], session: str, prompt: str) -> RunResult:
    async with SessionLog(client, session).turn():
        return await Runner.run(agent, prompt, context=session)
