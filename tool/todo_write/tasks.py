"""What Claude Code's task tools keep: tasks, changed call by call, and the whole list they make. Pure."""

import re
from collections import Counter
from typing import Literal

import msgspec

from todo_write.events import TODO_WRITE_BYTES_MAX, Status, Todo, trim

_ID = re.compile(r"[\w.:-]{1,64}")  # without the brackets and spaces that set it apart in a content
_ROOM_BYTES = 12  # of `{"todos":[]}`


class Unfit(ValueError):
    """A call that can't become part of a plan; the message says why. Reported and left out."""


class Task(msgspec.Struct, frozen=True, array_like=True):
    """One task that is not deleted."""

    id: str
    subject: str
    status: Status = "pending"


Tasks = tuple[Task, ...]


class Create(msgspec.Struct, frozen=True, tag=True):
    """TaskCreate; ``id`` is "" until the tool has answered."""

    subject: str
    id: str = ""


class Update(msgspec.Struct, frozen=True, tag=True):
    """TaskUpdate; None leaves as it is. One that changes only what no plan shows has two of them."""

    id: str
    status: Status | Literal["deleted"] | None = None
    subject: str | None = None


class Whole(msgspec.Struct, frozen=True, tag=True):
    """TodoWrite: the whole list; it leaves the tasks alone."""

    todos: tuple[Todo, ...]


Change = Create | Update | Whole


def fold(tasks: Tasks, change: Create | Update) -> Tasks:
    """The tasks after a call, by id; the same ones when nothing that a plan shows is changed. Raises Unfit.

    Tools that run side by side answer in any order, so ids decide where a task stands, as they do in Claude Code.
    Creating a task that is there changes nothing: an id is given once.
    """
    if not _ID.fullmatch(change.id):
        raise Unfit(f"task id {change.id[:64]!r}: 1-64 letters, digits, '_', '.', ':' and '-' are allowed")
    known = next((task for task in tasks if task.id == change.id), None)
    if isinstance(change, Create):
        changed = known or Task(change.id, _subject(change.subject))
    elif known is None:
        raise Unfit(f"there is no task {change.id!r}")
    elif change.status == "deleted":
        return tuple(task for task in tasks if task is not known)
    else:
        subject = known.subject if change.subject is None else _subject(change.subject)
        changed = Task(known.id, subject, change.status or known.status)
    if changed == known:
        return tasks
    after = tuple(sorted((*(task for task in tasks if task is not known), changed), key=_place))
    check_size(todos_of(after))
    return after


def todos_of(tasks: Tasks) -> list[Todo]:
    """The whole list: contents that would be equal get `` (#id)``, each of them."""
    contents = [task.subject for task in tasks]
    while repeated := {content for content, count in Counter(contents).items() if count > 1}:
        # Once more only if somebody named a task like `a (#2)`: after that all of these end differently.
        contents = [
            f"{content} (#{task.id})" if content in repeated else content
            for content, task in zip(contents, tasks, strict=True)
        ]
    return [Todo(content, task.status) for content, task in zip(contents, tasks, strict=True)]


def check_size(todos: list[Todo]) -> None:
    """Raise Unfit for a list that no event can hold."""
    size = len(msgspec.json.encode(todos)) + _ROOM_BYTES
    if size > TODO_WRITE_BYTES_MAX:
        raise Unfit(f"the list would be {size} bytes long; at most {TODO_WRITE_BYTES_MAX} are allowed")


def _subject(text: str) -> str:
    subject = trim(text)
    if not subject:
        raise Unfit("`subject` must be a non-empty string")
    return subject


def _place(task: Task) -> tuple[int, str]:
    return (int(task.id) if task.id.isdecimal() else 10**64, task.id)
