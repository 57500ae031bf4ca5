"""Lines over a process's standard streams, be they pipe, socket, terminal or file, without blocking the event loop.

The descriptors keep the mode in which they came, since others may hold them too: none is set to non-blocking.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from select import PIPE_BUF
from typing import Any

CHUNK_BYTES = 65536


class LineReader:
    """Lines from a descriptor. ``close`` ends them behind what has been read."""

    def __init__(self, fd: int, *, line_bytes_max: int) -> None:
        self._fd = fd
        self._line_bytes_max = line_bytes_max
        self._ready: asyncio.Future[None] | None = None
        self._closed = False

    def close(self) -> None:
        """Read no more."""
        self._closed = True
        _settle(self._ready)

    async def lines(self) -> AsyncGenerator[bytes | None]:
        """Every line without its end, which the last one need not have; None for one too long. Raises OSError."""
        rest, too_long = b"", False
        while chunk := await self._read():
            first, *others = chunk.split(b"\n")
            rest += first
            for line in others:
                if not too_long:
                    yield rest if len(rest) <= self._line_bytes_max else None
                rest, too_long = line, False
            if not too_long and len(rest) > self._line_bytes_max:
                too_long = True
                yield None
            if too_long:
                rest = b""
        if rest:
            yield rest

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        while not self._closed:
            self._ready = loop.create_future()
            await _until(self._ready, loop.add_reader, loop.remove_reader, self._fd)
            if self._closed:
                break
            try:
                return os.read(self._fd, CHUNK_BYTES)
            except BlockingIOError:  # whoever started this process made it so
                continue
        return b""


class LineWriter:
    """Lines to a descriptor, in the order in which they were given. ``broken`` says why the rest is dropped."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lines: list[tuple[bytes, asyncio.Future[None]]] = []
        self._flushing: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self.broken: OSError | None = None

    def close(self, reason: OSError) -> None:
        """Drop what is not written yet, and all that comes."""
        self.broken = reason
        _settle(self._ready)

    async def write(self, line: bytes) -> None:
        """Return once the line, which brings no end of its own, is written or dropped."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.append((line, over))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        await over

    async def _flush(self) -> None:
        while self._lines:
            lines, self._lines = self._lines, []
            try:
                await self._put(b"".join(line + b"\n" for line, _ in lines))
            except OSError as error:
                self.broken = error
            for _, over in lines:
                _settle(over)
        self._flushing = None

    async def _put(self, text: bytes) -> None:
        loop = asyncio.get_running_loop()
        left = memoryview(text)
        while left and self.broken is None:
            self._ready = loop.create_future()
            await _until(self._ready, loop.add_writer, loop.remove_writer, self._fd)
            if self.broken is not None:
                break
            try:
                # A descriptor that can be written to takes this much without blocking.
                left = left[os.write(self._fd, left[:PIPE_BUF]) :]
            except BlockingIOError:
                continue


async def _until(
    ready: asyncio.Future[None], watch: Callable[..., None], unwatch: Callable[[int], Any], fd: int
) -> None:
    try:
        watch(fd, _settle, ready)
    except PermissionError:  # a file, which is always ready
        await asyncio.sleep(0)
        return
    try:
        await ready
    finally:
        unwatch(fd)


def _settle(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
