"""Calls of Claude Code's plan tools: what the model asked for, and what the tool answered. Pure."""

import re
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import sha1
from typing import Any, Literal, NamedTuple

import msgspec

from todo_write.events import Status
from todo_write.schema import Rejected, check
from todo_write.tasks import Change, Create, Unfit, Update, Whole, check_size
from todo_write.transcript import Skipped

TOOLS = ("TodoWrite", "TaskCreate", "TaskUpdate")
UNANSWERED_MAX = 1000

_CREATED = re.compile(r"Task #(\S+) created")


class Block(msgspec.Struct):
    """A part of a message."""

    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"null")
    tool_use_id: str = ""
    is_error: bool | None = None
    content: msgspec.Raw = msgspec.Raw(b"null")


class Call(NamedTuple):
    """A call that the tool has carried out. ``key`` tells it from every other, ``digest`` from other lists."""

    key: str
    change: Change

    @property
    def digest(self) -> str:
        """What stands for a key where a version of Claude Code tells its hooks none."""
        asked = Create(self.change.subject) if isinstance(self.change, Create) else self.change
        return "~" + sha1(msgspec.json.encode(asked), usedforsecurity=False).hexdigest()[:16]


class Asked(NamedTuple):
    """A call that waits for its answer; ``at`` is the place of its line."""

    at: int
    tool: str
    change: Change


class Answered(NamedTuple):
    """A call with its answer; ``at`` is the place of the call's line."""

    at: int
    tool: str
    call: Call


class Waiting:
    """The calls of a transcript between their line and that of their answer."""

    def __init__(self) -> None:
        self.asked: OrderedDict[str, Asked] = OrderedDict()

    def called(self, blocks: list[Block], at: int) -> Iterator[Skipped]:
        """Note the calls of an assistant's message."""
        for block in blocks:
            if block.type != "tool_use" or block.name not in TOOLS:
                continue
            try:
                self.asked[block.id] = Asked(at, block.name, asked(block.name, block.input))
            except Unfit as error:
                yield Skipped(at, f"{block.name}: {error}")
        while len(self.asked) > UNANSWERED_MAX:
            _, call = self.asked.popitem(last=False)
            yield Skipped(call.at, f"{call.tool}: the call has no answer")

    def answered(self, blocks: list[Block], result: msgspec.Raw) -> Iterator[Answered | Skipped]:
        """The calls that a user's message answers; ``result`` is what its line holds beside the message."""
        for block in blocks:
            call = self.asked.pop(block.tool_use_id, None) if block.type == "tool_result" else None
            if call is None:
                continue
            if block.is_error:
                yield Skipped(call.at, f"{call.tool}: the call was answered with an error")
                continue
            try:
                change = answered(call.change, result, block.content)
            except Unfit as error:
                yield Skipped(call.at, f"{call.tool}: {error}")
            else:
                yield Answered(call.at, call.tool, Call(block.tool_use_id, change))


class _Item(msgspec.Struct):
    content: str
    status: str


class _TodoWrite(msgspec.Struct):
    """What a call holds for us; Claude Code's items have more keys, such as ``activeForm``."""

    todos: list[_Item]


class _TaskCreate(msgspec.Struct):
    subject: str


class _TaskUpdate(msgspec.Struct, rename="camel"):
    task_id: str | int
    status: Status | Literal["deleted"] | None = None
    subject: str | None = None


def asked(tool: str, input: msgspec.Raw) -> Change:
    """What a call of one of TOOLS asks for, a list as our own tool would take it; raises Unfit."""
    try:
        match tool:
            case "TaskCreate":
                return Create(msgspec.json.decode(input, type=_TaskCreate).subject)
            case "TaskUpdate":
                update = msgspec.json.decode(input, type=_TaskUpdate)
                return Update(str(update.task_id).removeprefix("#"), update.status, update.subject)
            case _:
                items = msgspec.json.decode(input, type=_TodoWrite).todos
        arguments = {"todos": [{"content": item.content, "status": item.status} for item in items]}
        todos = check(arguments, allow_parallel_in_progress=True)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unfit(str(error)) from None
    except Rejected as error:
        raise Unfit(str(error).removeprefix("Error: ")) from None
    check_size(todos)
    return Whole(tuple(todos))


def answered(change: Change, *answers: msgspec.Raw) -> Change:
    """The change once the tool has answered: a created task has its id. Raises Unfit: the tool refused, or tells none.

    An answer is ``{"task": {"id"}}``, ``{"success", …}``, a text such as ``Task #1 created …``, or blocks of text.
    """
    found = [_plain(answer) for answer in answers]
    if any(isinstance(each, dict) and each.get("success") is False for each in found):
        raise Unfit("the call was answered with an error")
    if not isinstance(change, Create):
        return change
    for answer in found:
        id = _created(answer)
        if id is not None:
            return Create(change.subject, id)
    raise Unfit("the answer does not tell the id of the task")


def _plain(answer: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # tells nothing


def _created(answer: Any) -> str | None:
    match answer:
        case {"task": {"id": str() | int() as id}}:
            return str(id)
        case {"content": content}:
            return _created(content)
        case {"text": str() as text} | (str() as text):
            found = _CREATED.search(text)
            return found[1] if found else None
        case [*blocks]:
            return next(filter(None, map(_created, blocks)), None)
        case _:
            return None
