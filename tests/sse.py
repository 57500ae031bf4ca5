"""A reader of server-sent events, as plain as the format: over a real socket, a block at a time."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from eventually import eventually

Headers = dict[str, str]


class Event(NamedTuple):
    """One event: its name, its data as JSON, and its id where it has one."""

    name: str
    data: Any
    id: str | None = None


class Answer(NamedTuple):
    """The answer to a plain request."""

    status: int
    headers: Headers
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Reader:
    """A stream that is read in the background; ``events`` is everything so far, ``ended`` whether it has ended."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: Headers = {}
        self.events: list[Event] = []
        self.retry_ms: int | None = None
        self.raw = b""
        self.bytes_read = 0
        self.ended = False

    def of(self, *names: str) -> list[Event]:
        return [event for event in self.events if event.name in names]

    def held(self, session: str, key: str = "todos") -> Any:
        """What a client that takes every event as it comes shows of a session; None when it has seen nothing."""
        shown: Any = None
        for name, data, _ in self.events:
            if name == "snapshot" and data["sessionId"] == session:
                shown = data["values"].get(key)
            elif name == "projection" and (data["sessionId"], data["key"]) == (session, key):
                shown = data["value"]
            elif name == "deleted" and data["sessionId"] == session:
                shown = None
        return shown

    def state(self) -> str | None:
        """The status told last."""
        told = self.of("status")
        return told[-1].data["state"] if told else None

    async def until(self, condition: Callable[[], object], within: float = 10.0) -> None:
        try:
            await eventually(condition, within)
        except AssertionError as error:
            error.add_note(
                f"ended: {self.ended}, last events: {' '.join(str(event)[:400] for event in self.events[-9:])}"
            )
            raise

    async def got(self, name: str, count: int = 1, within: float = 10.0) -> Event:
        """The nth event of that name, once it is there."""
        await self.until(lambda: len(self.of(name)) >= count, within)
        return self.of(name)[count - 1]

    async def shows(self, session: str, value: Any, within: float = 10.0) -> None:
        """Return once the plan of the session is shown to be this."""
        await self.until(lambda: self.held(session) == value, within)

    async def is_told(self, state: str, within: float = 10.0) -> None:
        """Return once this is the state told last."""
        await self.until(lambda: self.state() == state, within)

    async def finished(self, within: float = 10.0) -> None:
        """Return once the stream has ended."""
        await self.until(lambda: self.ended, within)

    def feed(self, data: bytes) -> None:
        self.bytes_read += len(data)
        self.raw += data
        *blocks, self.raw = self.raw.split(b"\n\n")
        for raw in blocks:
            fields = dict(line.split(": ", 1) for line in raw.decode().split("\n"))
            if "retry" in fields:
                self.retry_ms = int(fields["retry"])
            if "event" in fields:
                self.events.append(Event(fields["event"], json.loads(fields["data"]), fields.get("id")))


class Http:
    """Requests to one gateway, each over a connection of its own."""

    def __init__(self, host: str, port: int, prefix: str = "") -> None:
        self.host = host
        self.port = port
        self.prefix = prefix

    async def get(
        self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET", body: bytes = b""
    ) -> Answer:
        length = {"content-length": str(len(body))} if body else {}
        async with self._connected() as (reader, writer):
            writer.write(self._request(method, path, {"connection": "close", **length, **(headers or {})}) + body)
            status, found = await _head(reader)
            body = await reader.read()
            return Answer(status, found, _unchunked(body) if found.get("transfer-encoding") == "chunked" else body)

    async def raw(self, data: bytes) -> Answer:
        """The answer to bytes that may be no request."""
        async with self._connected() as (reader, writer):
            writer.write(data)
            status, found = await _head(reader)
            return Answer(status, found, await reader.read())

    @asynccontextmanager
    async def stream(
        self, query: str, headers: Mapping[str, str] | None = None, *, cut_at: int | None = None
    ) -> AsyncGenerator[Reader]:
        """A stream, read as fast as it comes until the end of the block, or until so many bytes of it were read."""
        async with self._connected() as (reader, writer):
            writer.write(self._request("GET", f"/api/stream?{query}", headers or {}))
            found = Reader()
            found.status, found.headers = await _head(reader)
            reading = asyncio.create_task(_chunks(reader, found, cut_at))
            try:
                yield found
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    @asynccontextmanager
    async def deaf(self, query: str) -> AsyncGenerator["Deaf"]:
        """A client that asks for a stream and reads nothing of it, until it is told to."""
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((self.host, self.port))
            connection.sendall(self._request("GET", f"/api/stream?{query}", {}))
            deaf = Deaf(connection)
            try:
                yield deaf
            finally:
                await deaf.close()

    def _request(self, method: str, path: str, headers: Mapping[str, str]) -> bytes:
        lines = [f"{method} {self.prefix}{path} HTTP/1.1", f"host: {self.host}:{self.port}"]
        return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode()

    @asynccontextmanager
    async def _connected(self, limit: int = 2**24) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=limit)
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


class Deaf:
    """A client that does not read; ``hear`` makes it read what is left for it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._reading: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def hear(self) -> Reader:
        """The stream, read from now on."""
        reader, self._writer = await asyncio.open_connection(sock=self._connection.dup(), limit=2**24)
        found = Reader()
        found.status, found.headers = await _head(reader)
        self._reading = asyncio.create_task(_chunks(reader, found, None))
        return found

    async def close(self) -> None:
        """Hang up."""
        if self._reading is not None and self._writer is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()


def of(*sessions: str, **more: object) -> str:
    """The query of a stream of these sessions."""
    return urlencode([("session", session) for session in sessions] + list(more.items()), quote_via=quote)


async def _head(reader: asyncio.StreamReader) -> tuple[int, Headers]:
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
    return int(status.split()[1]), {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}


async def _chunks(reader: asyncio.StreamReader, found: Reader, cut_at: int | None) -> None:
    try:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            data = (await reader.readexactly(size + 2))[:-2]
            if cut_at is not None and found.bytes_read + size >= cut_at:
                found.feed(data[: cut_at - found.bytes_read])
                return
            found.feed(data)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # how a stream is cut is not the client's to judge: `ended` tells that it was
    finally:
        found.ended = True


def _unchunked(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        whole, body = whole + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return whole
