"""The hosts whose recipes stand in examples/, each with a scripted model of its own kind in place of a real one."""

import importlib.util
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import agents
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from todo_write.log import Client

EXAMPLES = Path(__file__).parent.parent / "examples"

Reply = Sequence[Any] | Exception  # arguments of the calls a model makes at once, none: it answers; or it fails


class Told(NamedTuple):
    """What a model was told about one of its calls."""

    text: str
    is_error: bool | None = None  # None: this host has no other word for an error than its text


class Seen(NamedTuple):
    """What the model of one run saw: the tool as it was listed to it, and the results of its calls."""

    tool: dict[str, Any]
    told: list[Told]


Host = Callable[[Client, str, Sequence[Reply]], Awaitable[Seen]]


def recipe(name: str) -> ModuleType:
    """The recipe's module, run as it is written."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _ChatModel(GenericFakeChatModel):
    """The fake chat model, to which tools can be given."""

    tools: list[dict[str, Any]] | None = None

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        self.tools = [convert_to_openai_tool(tool) for tool in tools if isinstance(tool, BaseTool)]
        return self


async def langgraph(client: Client, session: str, script: Sequence[Reply]) -> Seen:
    """A run of the LangGraph recipe."""

    def replies() -> Iterator[AIMessage]:
        for n, reply in enumerate(script):
            if isinstance(reply, Exception):
                raise reply
            calls = [{"name": "todo_write", "args": call, "id": f"{n}-{m}"} for m, call in enumerate(reply)]
            yield AIMessage("" if calls else "done", tool_calls=calls)

    model, module = _ChatModel(messages=replies()), recipe("in_langgraph")
    state = await module.answer(client, module.agent_of(client, model), session, "go")
    told = [message for message in state["messages"] if isinstance(message, ToolMessage)]
    assert model.tools is not None
    (listed,) = model.tools
    return Seen(listed["function"], [Told(str(message.text), message.status == "error") for message in told])


async def openai_agents(client: Client, session: str, script: Sequence[Reply]) -> Seen:
    """A run of the OpenAI Agents SDK recipe."""
    agents.set_tracing_disabled(True)  # else traces are sent away
    model, module = ScriptedModel(), recipe("in_openai_agents")
    for n, reply in enumerate(script):
        if isinstance(reply, Exception):
            model.enqueue(reply)
        else:
            calls = [function_call("todo_write", call, call_id=f"{n}-{m}") for m, call in enumerate(reply)]
            model.enqueue(calls or [assistant_message("done")])
    await module.answer(client, module.agent_of(client, model), session, "go")
    last = model.last_call
    assert last is not None
    (tool,) = last.tools
    assert isinstance(tool, agents.FunctionTool)
    listed = {"name": tool.name, "description": tool.description, "parameters": tool.params_json_schema}
    return Seen(listed, [Told(item["output"]) for item in last.input if item.get("type") == "function_call_output"])


async def pydantic_ai(client: Client, session: str, script: Sequence[Reply]) -> Seen:
    """A run of the pydantic-ai recipe."""
    replies, seen = iter(script), list[tuple[list[ModelMessage], AgentInfo]]()

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append((messages, info))
        reply = next(replies)
        if isinstance(reply, Exception):
            raise reply
        if not reply:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("todo_write", call) for call in reply])

    module = recipe("in_pydantic_ai")
    await module.answer(client, module.agent_of(client, FunctionModel(answer)), session, "go")
    messages, info = seen[-1]
    (tool,) = info.function_tools
    listed = {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
    parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    return Seen(listed, [Told(str(part.content), part.outcome != "success") for part in parts])
