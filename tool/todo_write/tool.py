"""The tool: one call checks a list, appends one ``todo/write`` event and answers with one text."""

import inspect
import logging
from collections import Counter, OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, TypedDict

from todo_write.events import TODO_WRITE, Position, Status, Todo
from todo_write.log import (
    Client,
    InvalidEvent,
    InvalidSession,
    LayoutMismatch,
    LogRewound,
    NotSaved,
    OutcomeUnknown,
    SessionLog,
)
from todo_write.schema import NAME, Rejected, check, description, parameters

__all__ = ["Counts", "Item", "Outcome", "Rejected", "Result", "TodoWrite", "execute", "render", "result_of"]

Saved = Literal["accepted", "rejected", "not_saved"]

IDLE_LOGS_MAX = 4096

_NO_SESSION = "Error: todo_write requires an owning agent session"
_REWOUND = "the session's log lost its last events; send the whole list again"

_logger = logging.getLogger(__name__)


class Item(TypedDict):
    """One item as stored and returned."""

    content: str
    status: Status


class Counts(TypedDict):
    """How many items of a list have each status."""

    pending: int
    inProgress: int
    completed: int


class Result(TypedDict):
    """What an accepted call returns to a program; a model gets its rendering."""

    todos: list[Item]
    counts: Counts


class Outcome(NamedTuple):
    """How a call ended. ``result`` and ``position`` are there when ``saved`` is ``accepted``; ``text`` always is.

    ``rejected``: refused for what was sent, so the same call fails again. ``not_saved``: refused by the store, or
    its answer is missing; the same call may be sent again, since it replaces the whole list.
    """

    saved: Saved
    text: str
    result: Result | None = None
    position: Position | None = None

    @property
    def ok(self) -> bool:
        """Whether the list is stored."""
        return self.saved == "accepted"


class TodoWrite:
    """The tool over the session logs of one client; safe for any number of calls and sessions at once.

    ``logs`` are those it writes: a host that appends other events through them keeps the order of a session.
    """

    name = NAME

    def __init__(self, client: Client, *, allow_parallel_in_progress: bool) -> None:
        self._allow_parallel_in_progress = allow_parallel_in_progress
        self.logs = Logs(client)
        self.description = description(allow_parallel_in_progress=allow_parallel_in_progress)

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments, a copy of one's own."""
        return parameters()

    async def call(self, arguments: Any, session: str | None) -> str:
        """The text for the model; ``arguments`` is any JSON value. Raises for nothing a model or Redis does."""
        return (await self.run(arguments, session)).text

    async def run(self, arguments: Any, session: str | None) -> Outcome:
        """Like ``call``, with what a program wants to know beside the text. Calls of a session keep their order."""
        try:
            todos = check(arguments, allow_parallel_in_progress=self._allow_parallel_in_progress)
            if session is None:
                raise Rejected(_NO_SESSION)
            with self.logs.of(session) as log:
                # Nothing is awaited before this line, so calls reach the log in the order in which they were made.
                position = await log.append(TODO_WRITE, {"todos": todos})
        except (Rejected, InvalidSession, InvalidEvent) as error:
            return Outcome("rejected", _rejection(error))
        except (NotSaved, OutcomeUnknown, LogRewound, LayoutMismatch) as error:
            return _not_saved(session, error)
        result = result_of(todos)
        return Outcome("accepted", render(result), result, position)


def _rejection(error: Rejected | InvalidSession | InvalidEvent) -> str:
    if isinstance(error, Rejected):
        return str(error)
    return f"Error: todo list not saved: {error}" if isinstance(error, InvalidEvent) else f"Error: {error}"


def _not_saved(session: str | None, error: NotSaved | OutcomeUnknown | LogRewound | LayoutMismatch) -> Outcome:
    known, reason = "not saved", str(error)
    if isinstance(error, LogRewound):
        known, reason = ("may not have been saved" if error.maybe_stored else known), _REWOUND
    elif isinstance(error, OutcomeUnknown):
        known = "may not have been saved"
    _logger.warning("todo list of session %r %s: %s", session, known, error)
    return Outcome("not_saved", f"Error: todo list {known}: {reason}")


class Logs:
    """The log of each session with a call under way, and those of the last used others, up to ``idle_max``.

    Calls of a session share one log, which serves them in the order in which they came.
    """

    def __init__(self, client: Client, *, idle_max: int = IDLE_LOGS_MAX) -> None:
        self._client = client
        self._idle_max = idle_max
        self.idle: OrderedDict[str, SessionLog] = OrderedDict()
        self.busy: dict[str, SessionLog] = {}
        self._calls: Counter[str] = Counter()

    @contextmanager
    def of(self, session: str) -> Generator[SessionLog]:
        """The session's log, kept until the call is over; raises InvalidSession."""
        log = self.busy.get(session) or self.idle.pop(session, None) or SessionLog(self._client, session)
        self.busy[session] = log
        self._calls[session] += 1
        try:
            yield log
        finally:
            self._calls[session] -= 1
            if self._calls[session] == 0:
                del self._calls[session], self.busy[session]
                self.idle[session] = log
                if len(self.idle) > self._idle_max:
                    self.idle.popitem(last=False)


async def execute(arguments: Any, exec: Any, *, allow_parallel_in_progress: bool) -> Result:
    """The same call inside a host that keeps its own log: ``exec.agent.session.append(type, data)``, sync or async.

    Raises Rejected, its ``str()`` the whole text for the model, and whatever the host's ``append`` raises.
    """
    todos = check(arguments, allow_parallel_in_progress=allow_parallel_in_progress)
    append = getattr(getattr(getattr(exec, "agent", None), "session", None), "append", None)
    if append is None:
        raise Rejected(_NO_SESSION)
    # A list of its own for the log: a host that keeps it by reference must not share it with the result.
    answer = append(TODO_WRITE, {"todos": result_of(todos)["todos"]})
    if inspect.isawaitable(answer):
        await answer
    return result_of(todos)


def result_of(todos: list[Todo]) -> Result:
    """The result of an accepted list, plain JSON."""
    counts = Counter(todo.status for todo in todos)
    return {
        "todos": [{"content": todo.content, "status": todo.status} for todo in todos],
        "counts": {
            "pending": counts["pending"],
            "inProgress": counts["in_progress"],
            "completed": counts["completed"],
        },
    }


def render(result: Result) -> str:
    """The one text a model gets for an accepted call."""
    counts = result["counts"]
    return (
        f"Updated todo list: {counts['pending']} pending, {counts['inProgress']} in progress, "
        f"{counts['completed']} completed."
    )
