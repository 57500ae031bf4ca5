"""``todo-write serve``: requests as JSON lines on one stream, answers on another; one process for a whole host.

Requests of a session are done, and answered, in the order in which they came; sessions do not wait for each other.
"""

import asyncio
import logging
import signal
from functools import partial
from typing import Any

import msgspec

from todo_write.lines import LineReader, LineWriter
from todo_write.log import Client, InvalidEvent, InvalidSession, LayoutMismatch, LogRewound, NotSaved, OutcomeUnknown
from todo_write.request import Append, BadLine, Call, read_request
from todo_write.room import Room
from todo_write.tool import TodoWrite

LINE_BYTES_MAX = 4 * 1024 * 1024
GRACE_S = 10.0

_logger = logging.getLogger(__name__)


class Unheard(Exception):
    """Answers could not be written, though all that was asked has been done; there is nobody to be told."""


async def serve_stdio(client: Client, *, allow_parallel_in_progress: bool, session: str | None = None) -> None:
    """Serve standard input and output until the input ends, or SIGTERM or SIGINT comes. Raises Unheard, OSError.

    ``session`` is that of requests that name none.
    """
    tool = TodoWrite(client, allow_parallel_in_progress=allow_parallel_in_progress)
    service = Service(tool, LineReader(0, line_bytes_max=LINE_BYTES_MAX), LineWriter(1), session=session)
    loop = asyncio.get_running_loop()

    def end() -> None:
        service.stop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)  # the next one ends it at once

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    await service.run()


class Service:
    """Requests from a reader, answers to a writer; while there is no room, nothing is read.

    ``under_way`` holds the last request of each session that is not answered.
    """

    def __init__(
        self,
        tool: TodoWrite,
        reader: LineReader,
        writer: LineWriter,
        *,
        session: str | None = None,
        room: Room | None = None,
    ) -> None:
        self._tool = tool
        self._reader = reader
        self._writer = writer
        self._session = session
        self._room = room or Room()
        self.under_way: dict[str | None, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Answer every request until the input ends or ``stop`` is called. Raises Unheard, and OSError of the input."""
        number = 0
        async with asyncio.TaskGroup() as tasks:
            async for line in self._reader.lines():
                number += 1
                if line is None or line.strip():
                    await self._room.take(len(line or b""))
                    self._begin(tasks, number, line)
        if self._writer.broken is not None:
            raise Unheard(f"the answers can't be written: {self._writer.broken}")

    def stop(self) -> None:
        """Read no more, and answer what has been read, within ``GRACE_S``."""
        self._reader.close()
        late = TimeoutError(f"nobody has read them for {GRACE_S:.0f} s")
        asyncio.get_running_loop().call_later(GRACE_S, self._writer.close, late)

    def _begin(self, tasks: asyncio.TaskGroup, number: int, line: bytes | None) -> None:
        size = len(line or b"")
        try:
            if line is None:
                raise BadLine(None, f"longer than {LINE_BYTES_MAX} bytes")
            request = read_request(line, self._session)
        except BadLine as error:
            place = {"line": number} if error.id is None else {"id": error.id}
            tasks.create_task(self._tell({**place, "error": f"line {number}: {error}"}, size))
            return
        session = request.session
        task = tasks.create_task(self._answer(request, self.under_way.get(session), size))
        self.under_way[session] = task
        task.add_done_callback(partial(self._forget, session))

    def _forget(self, session: str | None, task: asyncio.Task[None]) -> None:
        if self.under_way[session] is task:
            del self.under_way[session]

    async def _answer(self, request: Call | Append, before: asyncio.Task[None] | None, size: int) -> None:
        # Begun at once, whatever is under way before it: a log serves its callers in the order in which they came,
        # and the time a request may take counts from here.
        answer = await self._do(request)
        if before is not None and not before.done():
            await asyncio.wait([before])
        await self._tell(answer, size)

    async def _do(self, request: Call | Append) -> dict[str, Any]:
        try:
            if isinstance(request, Call):
                outcome = await self._tool.run(request.arguments, request.session)
                return {"id": request.id, "text": outcome.text, "ok": outcome.ok}
            with self._tool.logs.of(request.session) as log:
                return {"id": request.id, "position": str(await log.append(request.type, request.data))}
        except Exception as error:  # noqa: BLE001  one request must not end the others; a bug is logged
            return {"id": request.id, "error": _explain(error)}

    async def _tell(self, answer: dict[str, Any], size: int) -> None:
        await self._writer.write(msgspec.json.encode(answer))
        self._room.give(size)
        if self._writer.broken is not None:
            self._reader.close()


def _explain(error: Exception) -> str:
    match error:
        case InvalidEvent() | InvalidSession():
            return str(error)
        case OutcomeUnknown() | LogRewound(maybe_stored=True):
            return f"may not have been saved: {error}"
        case NotSaved() | LogRewound() | LayoutMismatch():
            return f"not saved: {error}"
        case _:
            _logger.error("a request failed by a bug", exc_info=error)
            return f"not known whether it was saved, by a bug: {error!r}"
