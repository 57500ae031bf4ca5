"""The MCP server of one connection: standard input and output."""

import asyncio
import contextlib
import json
import logging
import signal
from collections.abc import AsyncIterable

from anyio import create_memory_object_stream
from anyio.streams.memory import MemoryObjectSendStream
from mcp import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter
from pydantic import ValidationError

from todo_write.events import token
from todo_write.mcp import PlanServer
from todo_write.tool import TodoWrite

Message = SessionMessage | Exception

_logger = logging.getLogger(__name__)


async def serve_stdio(tool: TodoWrite, session: str | None) -> None:
    """Serve until the input ends; SIGTERM and SIGINT end the process at once. Without a session it makes one up."""
    session = session or f"mcp-{token()}"
    _logger.info("session %s", session)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a thread waits for input: nothing else would end it
    server = PlanServer(tool, session).server
    async with stdio_server() as (reading, writing), asyncio.TaskGroup() as tasks:
        send, mended = create_memory_object_stream[Message]()
        tasks.create_task(_mend(reading, send))
        await server.run(mended, writing, server.create_initialization_options())


async def _mend(reading: AsyncIterable[Message], send: MemoryObjectSendStream[Message]) -> None:
    """Pass messages on. The SDK reads none with a lone surrogate, to which the tool owes an answer: it is read here."""
    async with send:
        async for message in reading:
            if isinstance(message, ValidationError):
                with contextlib.suppress(ValueError, RecursionError):
                    value = json.loads(message.errors()[0]["input"])
                    await send.send(SessionMessage(jsonrpc_message_adapter.validate_python(value, by_name=False)))
                    continue
            await send.send(message)
