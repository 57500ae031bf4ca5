"""What one run of a hook leaves to the next: the data of an event ``claude/task``. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from todo_write.calls import Call
from todo_write.events import Todo
from todo_write.tasks import Change, Create, Tasks, Unfit, Update, Whole, fold, todos_of

CLAUDE_TASK = "claude/task"
CALLS_MAX = 256
BEFORE_MAX = 32

_LIST = "list"


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a reading of a transcript ended: bytes from its start, and a digest of those just before it."""

    end: int
    mark: str


class Known(msgspec.Struct, frozen=True, array_like=True):
    """A call that has been taken, and what it changed: ``list``, or ``<id> status`` and ``<id> subject``."""

    key: str
    changed: tuple[str, ...] = ()


class Memory(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything a run needs to know of the session, so that one look at the end of its log is enough.

    ``calls`` are those taken that the transcript holds, or will hold, behind ``transcript``; ``before`` are keys of
    those that stand just before it.
    """

    tasks: Tasks = ()
    calls: tuple[Known, ...] = ()
    turn: int = 0
    open: bool = False
    transcript: Place | None = None
    before: tuple[str, ...] = ()


class Taken(NamedTuple):
    """The memory after some calls, the list to be written (None: nothing new), and why calls were left out."""

    memory: Memory
    todos: list[Todo] | None
    left_out: tuple[str, ...] = ()


class Reading(NamedTuple):
    """What stands in a transcript behind a place, up to ``place``.

    ``lost``: the former place was not found again, so it begins at the start. ``complete``: all there is has been
    read, and no call waits for its answer.
    """

    calls: Sequence[Call]
    place: Place
    lost: bool = False
    complete: bool = True
    left_out: tuple[str, ...] = ()


def take(memory: Memory, call: Call) -> Taken:
    """A call whose answer has just come; one that is known already gives nothing new. Raises Unfit."""
    if call.key in memory.before or any(call.key == known.key for known in memory.calls):
        return Taken(memory, None)
    tasks = _apply(memory.tasks, call.change)
    if tasks is memory.tasks and not isinstance(call.change, Whole):
        return Taken(memory, None)
    known = Known(call.key or call.digest, _changes(call.change))
    calls = (*memory.calls, known)[-CALLS_MAX:]
    return Taken(msgspec.structs.replace(memory, tasks=tasks, calls=calls), _list(tasks, call.change))


def catch_up(memory: Memory, reading: Reading, *, settled: bool = False) -> Taken:
    """The calls of a reading; those that hooks have brought are known already, the others were missed.

    A missed call comes in without what calls behind it have changed since: known ones, among them those that the
    transcript does not hold yet. ``settled`` says that by now it holds all.
    """
    marked = _marked(memory, reading)
    ahead = _not_in(memory.calls, reading.calls)
    tasks, shown, news, left_out = memory.tasks, None, False, list(reading.left_out)
    for (call, known), change in zip(marked, _still_open(marked, ahead), strict=True):
        if known:
            shown = call.change
        elif change is not None:
            try:
                tasks = _apply(tasks, change)
            except Unfit as error:
                left_out.append(str(error))
                continue
            shown, news = change, news or isinstance(change, Whole)
    todos = None
    if shown is not None and (news or tasks != memory.tasks) and not (ahead and _LIST in ahead[-1].changed):
        todos = todos_of(tasks) if ahead else _list(tasks, shown)
    return Taken(_after(memory, reading, tasks, () if settled else ahead), todos, tuple(left_out))


def _after(memory: Memory, reading: Reading, tasks: Tasks, ahead: Sequence[Known]) -> Memory:
    read = [Known(call.key, _changes(call.change)) for call in reading.calls]
    before = memory.before
    if reading.complete:
        before, read = (*before, *(known.key for known in read))[-BEFORE_MAX:], []
    calls = (*read, *ahead)[-CALLS_MAX:]
    return msgspec.structs.replace(memory, tasks=tasks, calls=calls, before=before, transcript=reading.place)


def _marked(memory: Memory, reading: Reading) -> list[tuple[Call, bool]]:
    """The calls to look at, and whether each is known."""
    keys = {known.key for known in memory.calls}
    keys.update(memory.before if reading.lost else ())
    marked = [(call, call.key in keys or call.digest in keys) for call in reading.calls]
    if reading.lost:  # what stands before a known call was taken in its time
        marked = marked[max((index for index, (_, known) in enumerate(marked) if known), default=0) :]
    return marked


def _not_in(known: Iterable[Known], calls: Sequence[Call]) -> list[Known]:
    read = {name for call in calls for name in (call.key, call.digest)}
    return [each for each in known if each.key not in read]


def _still_open(marked: Sequence[tuple[Call, bool]], ahead: Iterable[Known]) -> list[Change | None]:
    """Of each call what no known call behind it has changed; None for nothing."""
    changed = {name for known in ahead for name in known.changed}
    found: list[Change | None] = []
    for call, known in reversed(marked):
        found.append(_without(call.change, changed))
        if known:
            changed.update(_changes(call.change))
    return found[::-1]


def _apply(tasks: Tasks, change: Change) -> Tasks:
    return tasks if isinstance(change, Whole) else fold(tasks, change)


def _list(tasks: Tasks, change: Change) -> list[Todo]:
    """The list as it stands after a change: Claude Code shows what it was told last."""
    return list(change.todos) if isinstance(change, Whole) else todos_of(tasks)


def _changes(change: Change) -> tuple[str, ...]:
    match change:
        case Whole():
            return (_LIST,)
        case Create():
            return ()
        case Update():
            is_deleted = change.status == "deleted"  # nothing of the task is open to change any more
            names = ("status", "subject")
            return tuple(f"{change.id} {name}" for name in names if is_deleted or getattr(change, name) is not None)


def _without(change: Change, changed: set[str]) -> Change | None:
    match change:
        case Whole():
            return None if _LIST in changed else change
        case Create():
            # Whoever changed the task later knew it: if it is not there any more, it has been deleted since.
            return None if f"{change.id} status" in changed else change
        case Update():
            status = None if f"{change.id} status" in changed else change.status
            subject = None if f"{change.id} subject" in changed else change.subject
            return None if status is None and subject is None else Update(change.id, status, subject)
