"""A growing transcript of Claude Code, read from the place where the last reading ended."""

import time
from hashlib import sha1
from pathlib import Path
from typing import BinaryIO

import msgspec

from todo_write.calls import TOOLS, Answered, Block, Call, Waiting
from todo_write.memory import Place, Reading
from todo_write.transcript import Line, Malformed, parse, read_lines

MARK_BYTES = 256
BEHIND_BYTES_MAX = 4 * 1024 * 1024

_NAMES = [f'"{tool}"'.encode() for tool in TOOLS]


class _Message(msgspec.Struct):
    content: str | list[Block]


class _Entry(msgspec.Struct, rename="camel"):
    type: str
    message: msgspec.Raw = msgspec.Raw(b"null")  # of other types it has other shapes
    is_sidechain: bool = False
    agent_id: str | None = None
    tool_use_result: msgspec.Raw = msgspec.Raw(b"null")


class Trail:
    """One agent's calls in one file; ``agent`` is "" for lines of subagents without an id, None for the main agent."""

    def __init__(self, path: Path, agent: str | None = None) -> None:
        self._path = path
        self._agent = agent
        self._waiting = Waiting()
        self._calls: list[Call] = []
        self._left_out: list[str] = []

    def read(self, place: Place | None, *, until: float) -> Reading:
        """Answered calls behind the place up to the last whole line; raises OSError.

        Reading stops at ``until``, by ``time.monotonic()``, and goes on from there the next time.
        """
        with self._path.open("rb") as file:
            found = place if place is not None and _mark(file, place.end) == place.mark else None
            end = start = found.end if found else 0
            whole = True
            file.seek(start)
            for line in read_lines(file):
                if not self._take(line, end):
                    break
                end = start + line.end
                if time.monotonic() > until:
                    whole = False
                    break
            waiting = min((asked.at for asked in self._waiting.asked.values()), default=end)
            # A call that is never answered must not have everything behind it read for ever.
            if end - waiting > BEHIND_BYTES_MAX:
                waiting = end
            here = Place(waiting, _mark(file, waiting))
        lost = found is None and place is not None
        return Reading(self._calls, here, lost, whole and waiting == end, tuple(self._left_out))

    def _take(self, line: Line, at: int) -> bool:
        """Whether the line is whole; ``at`` is where the one before it ends."""
        if line.text is None:
            return True
        try:
            if self._concerns(line.text):
                self._read(parse(line, _Entry), line, at)
            elif not line.ended:
                parse(line, msgspec.Raw)
        except Malformed as error:
            if not line.ended:
                return False
            self._left_out.append(str(error))
        return True

    def _concerns(self, text: bytes) -> bool:
        """Whether the line can be a call or an answer; a look that spares nearly all lines their parsing."""
        if self._waiting.asked and b'"tool_result"' in text:
            return True
        return b'"tool_use"' in text and any(name in text for name in _NAMES)

    def _read(self, entry: _Entry, line: Line, at: int) -> None:
        if entry.type not in ("user", "assistant") or not self._owns(entry):
            return
        content = parse(line._replace(text=bytes(entry.message)), _Message).content
        if isinstance(content, str):
            return
        if entry.type == "assistant":
            self._left_out += [skipped.reason for skipped in self._waiting.called(content, at)]
            return
        for found in self._waiting.answered(content, entry.tool_use_result):
            if isinstance(found, Answered):
                self._calls.append(found.call)
            else:
                self._left_out.append(found.reason)

    def _owns(self, entry: _Entry) -> bool:
        if self._agent is None:
            return not entry.is_sidechain
        return entry.is_sidechain and (entry.agent_id or "") in ("", self._agent)


def _mark(file: BinaryIO, end: int) -> str:
    """Digest of the bytes before ``end``; another one when the file has been replaced, or is shorter."""
    start = max(0, end - MARK_BYTES)
    file.seek(start)
    return sha1(file.read(end - start), usedforsecurity=False).hexdigest()[:8]
