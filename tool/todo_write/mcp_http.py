"""The MCP server of many connections: streamable HTTP."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Generator

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn import Config, Server

from todo_write.address import LOOPBACK
from todo_write.mcp import PlanServer
from todo_write.settings import InvalidSetting
from todo_write.tool import TodoWrite

PATH = "/mcp"
GRACE_S = 8  # more than a call under way can take
IDLE_S = 24 * 3600  # an agent may work for hours between two changes of its plan, and must not lose its session

_logger = logging.getLogger(__name__)


async def serve_http(tool: TodoWrite, session: str | None, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT, and answer what is under way; raises InvalidSetting when it can't listen there."""
    server = PlanServer(tool, session).server
    app = server.streamable_http_app(
        streamable_http_path=PATH, json_response=True, host=host, session_idle_timeout=IDLE_S
    )
    config = Config(
        _without_streams(app), log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=GRACE_S
    )
    http = _HttpServer(config)
    with _listen(host, port) as listener:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, http.handle_exit, number, None)
        shown = f"[{host}]" if ":" in host else host
        _logger.info("http://%s:%d%s", shown, listener.getsockname()[1], PATH)
        if host not in LOOPBACK:
            _logger.warning("everybody who reaches %s can write plans: there is no password", shown)
        await http.serve([listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason, _, _ = str(error.strerror).partition(" (while")
        raise InvalidSetting(f"--http {host}:{port}: {reason}; choose another address") from error


def _without_streams(app: ASGIApp) -> ASGIApp:
    """The app without the stream that a client may open to be told things: this server has nothing to tell."""

    async def without(scope: Scope, receive: Receive, send: Send) -> None:
        refused = scope["type"] == "http" and scope["method"] == "GET"
        await (Response(status_code=405, headers={"Allow": "POST, DELETE"}) if refused else app)(scope, receive, send)

    return without


class _HttpServer(Server):
    """uvicorn without its own signals, which it would raise once more at its end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield
