"""A TCP proxy in front of a server, for losing, holding and cutting exactly what a test names.

A fault is set on the nth command, from then on, that holds some bytes; ``fault.hit`` tells when it has happened. TCP
loses no bytes in the middle of a stream, so what is lost takes with it all that follows on that connection in that
direction: the client sees a time-out, or an end, and opens another connection, which works.
"""

import asyncio
import contextlib
from types import TracebackType
from typing import Any, Self, cast

import hiredis

from faults import ON_REQUEST, Fault, Kind
from todo_projection.embedded import free_port

CHUNK_BYTES = 65536


class Proxy:
    """``async with Proxy(host, port) as proxy``: clients connect to ``proxy.url``; all passes until a fault is set."""

    def __init__(self, host: str, port: int) -> None:
        self.host = "127.0.0.1"
        self.port = free_port()
        self._upstream = (host, port)
        self._listener: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._faults: list[Fault] = []
        self.flowing = asyncio.Event()
        self.flowing.set()

    @property
    def url(self) -> str:
        """URL of database 0 behind the proxy."""
        return f"redis://{self.host}:{self.port}/0"

    def lose_request(self, match: bytes, *, nth: int = 1) -> Fault:
        """The server never gets it, and the connection goes silent."""
        return self._add(Kind.LOSE_REQUEST, match, nth)

    def lose_reply(self, match: bytes, *, nth: int = 1) -> Fault:
        """The server does it, and nothing comes back on this connection any more."""
        return self._add(Kind.LOSE_REPLY, match, nth)

    def cut_before(self, match: bytes, *, nth: int = 1) -> Fault:
        """The server never gets it; the connection is cut."""
        return self._add(Kind.CUT_BEFORE, match, nth)

    def cut_after(self, match: bytes, *, nth: int = 1) -> Fault:
        """The server does it; then the connection is cut, before the reply."""
        return self._add(Kind.CUT_AFTER, match, nth)

    def hold_request(self, match: bytes, *, nth: int = 1, delay_s: float | None = None) -> Fault:
        """It reaches the server when released, or ``delay_s`` later, even if the client is gone by then."""
        return self._add(Kind.HOLD_REQUEST, match, nth, delay_s)

    def hold_reply(self, match: bytes, *, nth: int = 1, delay_s: float | None = None) -> Fault:
        """The server does it at once; the reply goes on when released, or ``delay_s`` later."""
        return self._add(Kind.HOLD_REPLY, match, nth, delay_s)

    def cut(self) -> None:
        """Cut every connection; new ones work."""
        for link in list(self._links):
            link.cut()

    def silence(self) -> None:
        """Half-open: connections stay, new ones are accepted, no byte passes in either direction until ``resume``."""
        self.flowing.clear()

    def resume(self) -> None:
        """Let pass what was kept by ``silence``."""
        self.flowing.set()

    def refuse(self) -> None:
        """Cut every connection and refuse new ones until ``accept``."""
        if self._listener:
            self._listener.close()
        self.cut()

    async def accept(self) -> None:
        """Take connections, again on the same port."""
        self._listener = await asyncio.start_server(self._serve, self.host, self.port)

    async def __aenter__(self) -> Self:
        await self.accept()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def take(self, command: bytes) -> Fault | None:
        """The fault whose turn comes with this command."""
        for fault in self._faults:
            if fault.match in command:
                fault.left -= 1
                if fault.left == 0:
                    return fault
        return None

    def _add(self, kind: Kind, match: bytes, nth: int, delay_s: float | None = None) -> Fault:
        fault = Fault(kind, match, nth, delay_s)
        self._faults.append(fault)
        return fault

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._link(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream = await asyncio.open_connection(*self._upstream)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(self, (reader, writer), upstream)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.remove(link)


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Link:
    """One client's connection and the one that stands for it at the server."""

    def __init__(self, proxy: Proxy, client: Stream, server: Stream) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._on_reply: Fault | None = None

    async def run(self) -> None:
        try:
            await asyncio.gather(self._requests(), self._replies())
        finally:
            self.cut()

    def cut(self) -> None:
        self._to_client.transport.abort()
        self._to_server.transport.abort()

    async def _requests(self) -> None:
        parser: Any = hiredis.Reader()
        with contextlib.suppress(ConnectionError):
            while data := await self._from_client.read(CHUNK_BYTES):
                parser.feed(data)
                while (command := parser.gets()) is not False:
                    await self._request(_packed(command))
        with contextlib.suppress(OSError):
            self._to_server.write_eof()  # not a close: the server still does all it was sent

    async def _request(self, command: bytes) -> None:
        await self._proxy.flowing.wait()
        fault = self._proxy.take(command)
        if fault and fault.kind in ON_REQUEST:
            await self._on_request(fault)
        elif fault:
            self._on_reply = fault
        self._to_server.write(command)
        await self._to_server.drain()

    async def _on_request(self, fault: Fault) -> None:
        if fault.kind is Kind.HOLD_REQUEST:
            await fault.wait_until_released()
            return
        fault.hit.set()
        if fault.kind is Kind.CUT_BEFORE:
            self._to_client.transport.abort()
            raise ConnectionResetError
        await asyncio.Event().wait()  # lost: this connection's requests end here

    async def _replies(self) -> None:
        while data := await self._from_server.read(CHUNK_BYTES):
            await self._proxy.flowing.wait()
            fault = self._on_reply
            if fault and fault.kind is Kind.HOLD_REPLY:
                await fault.wait_until_released()
                self._on_reply = None
            elif fault:
                fault.hit.set()
                if fault.kind is Kind.CUT_AFTER:
                    self._to_client.transport.abort()
                continue
            with contextlib.suppress(ConnectionError):  # the client is gone; the server's replies are read all the same
                self._to_client.write(data)
                await self._to_client.drain()
        with contextlib.suppress(OSError):
            self._to_client.close()


def _packed(command: list[bytes]) -> bytes:
    # The stub of pack_command is wrong: it takes a tuple of any length, and returns bytes.
    return cast("bytes", hiredis.pack_command(cast("tuple[bytes]", tuple(command))))
