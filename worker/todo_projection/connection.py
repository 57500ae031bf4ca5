"""One client's HTTP connection: cut when the client does not read, and polite about a request it can't read.

What waits for a client is bounded by the kernel's buffer, the transport's, and one message.
"""

import logging
import socket
import sys
from asyncio import Transport
from collections.abc import Callable
from typing import Any

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from todo_projection.refusal import Problem, Refused

HEAD_BYTES_MAX = 256 * 1024  # 200 session ids of 256 bytes, percent-encoded, fit
SEND_BUFFER_BYTES = 64 * 1024  # a kernel's own choice grows to megabytes of what nobody will want to see any more

logger = logging.getLogger(__name__)


def open_listener(host: str, port: int) -> socket.socket:
    """A socket that listens; raises OSError naming the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise OSError(error.errno, f"can't listen on {host}:{port}: {error.strerror}") from error
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)  # what it accepts inherits this
    return listener


class Connection(H11Protocol):
    """A connection that is cut after ``send_timeout_ms`` in which its client took nothing that had to be taken."""

    send_timeout_ms = 10_000
    head_timeout_ms = 10_000
    on_cut: Callable[[], None] = staticmethod(lambda: None)
    _stalled: Any = None
    _awaited: Any = None

    @classmethod
    def limited(cls, send_timeout_ms: int, head_timeout_ms: int, on_cut: Callable[[], None]) -> type["Connection"]:
        """The class under these time-outs; ``on_cut`` is told of each client cut off because it does not read."""
        limits = {"send_timeout_ms": send_timeout_ms, "head_timeout_ms": head_timeout_ms}
        return type("LimitedConnection", (cls,), {**limits, "on_cut": staticmethod(on_cut)})

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """A client has connected."""
        super().connection_made(transport)
        if sys.platform == "linux":  # also below the high-water mark, and where the client's machine is gone
            its_socket: socket.socket = transport.get_extra_info("socket")
            its_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self.send_timeout_ms)

        self._await_head()

    def data_received(self, data: bytes) -> None:
        """The client has sent something: the time for a head runs from its first byte, whatever comes how slowly."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._await_head()
        elif self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete:
            self.transport.close()  # the rest of a body that nobody reads
        elif self._awaited is not None:
            self._awaited.cancel()
            self._awaited = None

    def _await_head(self) -> None:
        if self._awaited is None:
            self._awaited = self.loop.call_later(self.head_timeout_ms / 1000, self._give_up)

    def _give_up(self) -> None:
        logger.info("client %s: no request within %d ms: cut off", self.client, self.head_timeout_ms)
        self.transport.abort()

    def pause_writing(self) -> None:
        """The client does not keep up: from now on its time runs."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self.send_timeout_ms / 1000, self._cut)

    def resume_writing(self) -> None:
        """The client has caught up."""
        super().resume_writing()
        self._in_time()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._in_time()
        if self._awaited is not None:
            self._awaited.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  uvicorn's word for it says less than the status
        """Answer a request that can't be read, in JSON like every other error."""
        if self.conn.our_state is not h11.IDLE and self.conn.our_state is not h11.SEND_RESPONSE:
            self.transport.close()
            return
        status, problem = 400, Problem("the request can't be read", None, "HTTP/1.1")
        if len(self.conn.trailing_data[0]) > HEAD_BYTES_MAX:
            allowed = f"at most {HEAD_BYTES_MAX} bytes"
            status, problem = 431, Problem("request line and headers are too long", None, allowed)
        body = msgspec.json.encode(Refused(problem))
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _cut(self) -> None:
        logger.info("client %s took nothing for %d ms: cut off", self.client, self.send_timeout_ms)
        self.on_cut()
        self.transport.abort()

    def _in_time(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
