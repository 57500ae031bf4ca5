"""LangGraph: the session is the thread, every run of the graph is a turn."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool, ToolException

from todo_write.log import Client, SessionLog
from todo_write.tool import TodoWrite


def agent_of(client: Client, model: Any) -> Any:
    todo = TodoWrite(client, allow_parallel_in_progress=True)

    async def call(config: RunnableConfig, **arguments: Any) -> str:
        outcome = await todo.run(arguments, session=config.get("configurable", {}).get("thread_id"))
        if outcome.ok:
            return outcome.text
        raise ToolException(outcome.text)

    tool = StructuredTool(name=todo.name, description=todo.description, args_schema=todo.parameters, coroutine=call)
    tool.handle_tool_error = True  # the model gets the exception's text, as an error
    return create_agent(model, [tool])


async def answer(client: Client, agent: Any, thread: str, prompt: str) -> Any:
    said = {"role": "user", "content": prompt}
    async with SessionLog(client, thread).turn():
        return await agent.ainvoke({"messages": [said]}, {"configurable": {"thread_id": thread}})
