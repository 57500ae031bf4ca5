"""The hook of Claude Code: one process for every event it tells, which never stands in the agent's way."""

import asyncio
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from redis.exceptions import RedisError

from todo_write.age import age_ms
from todo_write.events import (
    SESSION_START,
    TODO_WRITE,
    TURN_END,
    TURN_START,
    InvalidEvent,
    InvalidSession,
    Position,
    Unsound,
)
from todo_write.log import (
    NO_LOG,
    Client,
    InvalidSetting,
    LayoutMismatch,
    LogReader,
    LogRewound,
    NotSaved,
    OutcomeUnknown,
    Overtaken,
    SessionLog,
    Tail,
    connect,
)
from todo_write.memory import CLAUDE_TASK, Memory, Taken, catch_up, take
from todo_write.notice import ENDS, Notice, Unread, read_notice
from todo_write.settings import Settings
from todo_write.tasks import Unfit
from todo_write.trail import Trail
from todo_write.turn import SEARCH_MAX, Turn, turn_of

WAIT_MS = 900  # of the whole process, whose end takes some time too
WAIT_MIN_MS = 300  # also on a machine too busy to start a process in time
_PAGE_MIN, _PAGE_MAX = 8, 512

_logger = logging.getLogger(__name__)

Event = tuple[str, Any]


class Found(NamedTuple):
    """The end of a log, and what the last run left there."""

    tail: Tail
    memory: Memory


def run_claude_code(text: bytes, **flags: object) -> list[str]:
    """Do what one input of a hook asks for; the lines for standard error. Raises nothing but bugs.

    Whatever goes wrong, the agent goes on: what is missed now is found in the transcript at the turn's end.
    """
    try:
        notice = read_notice(text)
        if not notice.concerns_plans:
            return []
        wait_ms = max(WAIT_MIN_MS, WAIT_MS - age_ms())
        settings = Settings.from_env(os.environ, append_budget_ms=wait_ms, append_attempt_ms=wait_ms, **flags)
        return asyncio.run(_within(settings, notice, wait_ms / 1000))
    except (Unread, Unfit, InvalidSetting, InvalidSession, LayoutMismatch, InvalidEvent, Unsound) as error:
        return [str(error)]
    except TimeoutError:
        return ["not saved: the store did not answer in time"]
    except (NotSaved, OutcomeUnknown, RedisError, OSError) as error:
        return [f"not saved: {error}"]


async def _within(settings: Settings, notice: Notice, wait_s: float) -> list[str]:
    until = time.monotonic() + wait_s / 2  # for reading the transcript; the rest is the store's
    async with asyncio.timeout(wait_s), connect(settings) as client:
        return await bring(client, notice, until=until)


async def bring(client: Client, notice: Notice, *, until: float) -> list[str]:
    """Append what follows from the notice, behind what other hooks of the session append meanwhile.

    Returns why something was left out. Raises what ``append_all`` raises but Overtaken and LogRewound, redis errors,
    Unsound, and Unfit for a call that can't be taken.
    """
    while True:
        found = await look(LogReader(client, notice.session))
        taken = take_in(notice, found.memory, until=until)
        events = list(draft(notice, found, taken))
        if events:
            try:
                await SessionLog(client, notice.session, behind=found.tail).append_all(events)
            except (Overtaken, LogRewound):
                continue  # decided for a log that is another one by now
        return list(taken.left_out)


async def look(log: LogReader) -> Found:
    """What stands at a log's end; the memory of a log without one has the turn only. Raises as reading does."""
    tail, turn, count = NO_LOG, None, _PAGE_MIN
    before: Position | None = None
    seen = 0
    while page := await log.read_back(before, count_max=count):
        for entry in page:
            tail = Tail(entry.position, entry.op) if tail is NO_LOG else tail
            turn = turn or turn_of(entry)
            if entry.event.type == CLAUDE_TASK:
                return Found(tail, _with_turn(entry.event.read(Memory), turn))
        before, seen = page[-1].position, seen + len(page)
        if len(page) < count or seen >= SEARCH_MAX:
            break
        count = min(count * 8, _PAGE_MAX)
    return Found(tail, _with_turn(Memory(), turn))


def _with_turn(memory: Memory, turn: Turn | None) -> Memory:
    return memory if turn is None else msgspec.structs.replace(memory, turn=turn.number, open=turn.is_open)


def take_in(notice: Notice, memory: Memory, *, until: float) -> Taken:
    """The calls that a notice brings: its own, or those of the transcript that none has brought. Raises Unfit."""
    if notice.hook_event_name == "PostToolUse":
        return take(memory, notice.call())
    if notice.hook_event_name == "SessionStart" or not notice.transcript:
        return Taken(memory, None)
    trail = Trail(Path(notice.transcript).expanduser(), notice.agent)
    try:
        reading = trail.read(memory.transcript, until=until)
    except FileNotFoundError:
        return Taken(memory, None)  # Claude Code writes it when there is something to be written
    except OSError as error:
        return Taken(memory, None, (f"the transcript can't be read: {error}",))
    # A prompt comes after everything of the turn before it has been written down.
    return catch_up(memory, reading, settled=notice.hook_event_name == "UserPromptSubmit")


def draft(notice: Notice, found: Found, taken: Taken) -> list[Event]:
    """The events to be appended, all or none; the memory is the last of them, where ``look`` begins."""
    name, memory, todos = notice.hook_event_name, taken.memory, taken.todos
    events: list[Event] = []
    if name == "UserPromptSubmit":
        # What was left open has been interrupted: nothing tells when a person stops the agent.
        events += [] if todos is None else [(TODO_WRITE, {"todos": todos})]
        events += _end(memory, "interrupted") if memory.open else []
        memory = _start(events, memory)
    else:
        if todos is not None:
            if notice.agent is not None and not memory.open:
                memory = _start(events, memory)  # a subagent is told what to do by nobody's prompt
            events.append((TODO_WRITE, {"todos": todos}))
        if name in ENDS and memory.open:
            events += _end(memory, ENDS[name])
            memory = msgspec.structs.replace(memory, open=False)
    is_new = found.tail.position is None
    if is_new and (events or name == "SessionStart"):
        events.insert(0, (SESSION_START, _session_start(notice)))
    if events and memory != Memory():
        events.append((CLAUDE_TASK, memory))
    return events


def _start(events: list[Event], memory: Memory) -> Memory:
    memory = msgspec.structs.replace(memory, turn=memory.turn + 1, open=True)
    events.append((TURN_START, {"turn": memory.turn}))
    return memory


def _end(memory: Memory, reason: str) -> list[Event]:
    return [(TURN_END, {"turn": memory.turn, "reason": {"kind": reason}})]


def _session_start(notice: Notice) -> dict[str, str]:
    start = {} if notice.agent is None else {"parentSession": notice.session_id}
    start |= {"cwd": notice.cwd} if notice.cwd else {}
    return start | ({"label": notice.agent_type} if notice.agent_type else {})


def main(**flags: object) -> None:
    """The command: hook JSON on standard input, nothing on standard output, exit code 0."""
    logging.basicConfig(format="todo-write hook: %(message)s", level=logging.ERROR)
    try:
        if sys.stdin.isatty():
            lines = ["the input comes from Claude Code; see `todo-write hook claude-code --help`"]
        else:
            lines = run_claude_code(sys.stdin.buffer.read(), **flags)
    except Exception:
        _logger.exception("a bug; nothing was written")
        return
    for line in lines:
        sys.stderr.write(f"todo-write hook: {line}\n")
