"""What the tool tells MCP clients, whatever they are connected by: one tool, and nothing to read the plan back.

A plan is kept in the session of a flag or of TODO_SESSION, else in one of its connection's own. Over HTTP that one
follows from the transport's session, which only the handshake of the protocol's versions up to 2025-11-25 gives.
"""

import logging
from hashlib import sha256
from importlib.metadata import version
from typing import Any

from mcp import MCPError, types
from mcp.server import Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from todo_write.tool import TodoWrite

SESSION_KEY = "todo-projection/session"  # in `_meta` of every result

_Context = ServerRequestContext[Any]
_logger = logging.getLogger(__name__)


class PlanServer:
    """What the protocol is told; ``session`` None means one for each connection over HTTP."""

    def __init__(self, tool: TodoWrite, session: str | None) -> None:
        self._tool = tool
        self._session = session
        self._definition = {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters}
        kept = f"session {session}" if session else f"a session of this connection's own, told as {SESSION_KEY}"
        self.server: Server[Any] = Server(
            "todo-write",
            version=version("todo-projection"),
            instructions=f"People watch the plan that {tool.name} keeps. It is kept in {kept}.",
            on_list_tools=self._list,
            on_call_tool=self._call,
            get_tool_input_schema=lambda _: None,  # no argument of the tool travels in a header
        )
        self.server.middleware.append(self._keep_order)
        self.server.add_notification_handler("notifications/initialized", types.NotificationParams, self._welcome)
        if session is None:
            self.server.add_request_handler("server/discover", types.RequestParams, self._refuse)

    async def _list(self, ctx: _Context, _: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool.model_validate(self._definition)], _meta=self._meta(ctx))

    async def _keep_order(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        # The SDK sorts a schema's keys anew for older versions; prompt caches compare bytes.
        result = await call_next(ctx)
        if ctx.method == "tools/list" and isinstance(result, dict):
            return {**result, "tools": [self._definition]}
        return result

    async def _call(self, ctx: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name != self._tool.name:
            raise MCPError(types.INVALID_PARAMS, f"unknown tool {params.name!r}; there is {self._tool.name!r} only")
        meta = self._meta(ctx)
        arguments = {} if params.arguments is None else params.arguments
        outcome = await self._tool.run(arguments, meta[SESSION_KEY])
        text = types.TextContent(type="text", text=outcome.text)
        return types.CallToolResult(content=[text], is_error=not outcome.ok, _meta=meta)

    async def _welcome(self, ctx: _Context, _: types.NotificationParams | None) -> None:
        client = ctx.session.client_params
        who = f"{client.client_info.name} {client.client_info.version}" if client else "a client"
        _logger.info("session %s is that of %s", self._meta(ctx)[SESSION_KEY], who)

    async def _refuse(self, ctx: _Context, _: types.RequestParams | None) -> types.EmptyResult:
        raise _no_session(ctx)

    def _meta(self, ctx: _Context) -> dict[str, Any]:
        if self._session is not None:
            return {SESSION_KEY: self._session}
        key = ctx.request.headers.get("mcp-session-id") if ctx.request is not None else None
        if key is None:
            raise _no_session(ctx)
        # Who knows the key may speak for the connection; the session id is shown to everybody.
        return {SESSION_KEY: f"mcp-{sha256(key.encode()).hexdigest()[:16]}"}


def _no_session(ctx: _Context) -> MCPError:
    """What makes a client of a version without sessions fall back to the handshake."""
    return MCPError(
        types.UNSUPPORTED_PROTOCOL_VERSION,
        "each connection has a session of its own here, which needs the initialize handshake; "
        "or start the server with --session",
        {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": ctx.protocol_version},
    )
