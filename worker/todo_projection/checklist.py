"""One session as a person watches it: its plan as a list with signs, counts, and what is to be known about it. Pure."""

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from todo_projection.board import Board
from todo_projection.frames import Deleted, Frame, Mark
from todo_projection.plain import cut, plain
from todo_projection.subscription import Snapshot, Update
from todo_projection.subscription import Status as Trust
from todo_write.events import Status, Todo

TODOS, BOARD = "todos", "board"
SIGNS: dict[Status, tuple[str, str]] = {
    "completed": ("✓", "green"),
    "in_progress": ("●", "bold cyan"),
    "pending": ("○", ""),
}
STATES = {"live": "green", "behind": "yellow", "reconnecting": "red"}
WORDS: dict[Status, str] = {"completed": "done", "in_progress": "in progress", "pending": "to do"}
NOTHING_YET = "nothing projected yet"
INDENT = 2
HINT_ROWS = 2  # of a list that does not fit: what is left out above and below
HINTED_ROWS_MIN = 4

_todos = msgspec.json.Decoder(list[Todo] | None).decode
_board = msgspec.json.Decoder(Board).decode


class Checklist(msgspec.Struct, frozen=True):
    """What is shown of one session; ``told`` says why there is no list. ``rows`` bounds its height, 0 does not."""

    session: str
    todos: list[Todo] = []
    told: str = NOTHING_YET
    mark: Mark | None = None
    title: str = ""
    rows: int = 0

    def after(self, update: Snapshot | Frame | Deleted) -> "Checklist":
        """The same session after an update of it."""
        if isinstance(update, Deleted):
            return Checklist(self.session, told="deleted")
        if isinstance(update, Frame):
            if update.key != TODOS:
                return self
            mark = update.stale if isinstance(update.stale, Mark) else None
            return _listed(Checklist(self.session, mark=mark, title=self.title), update.value)
        values, stale = update.baseline.values, update.baseline.stale
        new = Checklist(self.session, mark=stale.get(TODOS), title=_title(values.get(BOARD)))
        return new if TODOS not in values else _listed(new, values[TODOS])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Its head, then an item a line, none wider than the console."""
        width = options.max_width
        yield self._head(width)
        for text, style in self._lines(width - INDENT):
            yield Text(" " * INDENT + text, style, no_wrap=True, overflow="crop")

    @property
    def height(self) -> int:
        """Rows that all of it takes."""
        return 1 + max(len(self.todos), 1)

    def line(self) -> str:
        """All of it in one line of text."""
        current = next((todo.content for todo in self.todos if todo.status == "in_progress"), "")
        said = f"{self._progress()}  {plain(current)}" if self.todos else self.told
        return "  ".join(part.rstrip() for part in (plain(self.session), said, self._doubt()) if part)

    def _head(self, width: int) -> Text:
        head = Text(no_wrap=True, overflow="ellipsis").append(cut(self.session, max(width // 2, 12)), "bold")
        if self.title and self.title != self.session:
            head.append(f"  {cut(self.title, max(width // 3, 12))}", "bright_black")
        if self.todos:
            counts = Counter(todo.status for todo in self.todos)
            told = ", ".join(f"{counts[status]} {word}" for status, word in WORDS.items() if counts[status])
            head.append(f"  {self._progress()}", "bold").append(f"  {told}", "bright_black")
        if self.mark is not None:
            head.append(f"  {self._doubt()}", "magenta")
        return head

    def _lines(self, width: int) -> Iterator[tuple[str, str]]:
        if not self.todos:
            yield cut(self.told, width), "bright_black"
            return
        first, last = _window(self.todos, self.rows)
        hinted = not 0 < self.rows < HINTED_ROWS_MIN
        if first and hinted:
            yield cut(f"… {first} above", width), "bright_black"
        for todo in self.todos[first:last]:
            sign, style = SIGNS[todo.status]
            yield f"{sign} {cut(todo.content, width - INDENT)}", style
        if last < len(self.todos) and hinted:
            yield cut(f"… {len(self.todos) - last} below", width), "bright_black"

    def _progress(self) -> str:
        return f"{sum(todo.status == 'completed' for todo in self.todos)}/{len(self.todos)}"

    def _doubt(self) -> str:
        if self.mark is None:
            return ""
        return f"stale since {clock(self.mark.since)}: event {self.mark.seq}: {plain(self.mark.reason)}"


def badge(status: Trust) -> Text:
    """``live``, or what else it is and since when."""
    since = "" if status.state == "live" else f" since {clock(status.since)}"
    return Text(f"{status.state}{since}", STATES[status.state], no_wrap=True, overflow="ellipsis")


def line(update: Update) -> str:
    """What an update says, in one line of text."""
    match update:
        case Trust():
            return badge(update).plain
        case Frame(key=key) if key != TODOS:
            return f"{plain(update.session_id)}  {plain(key)} changed"
        case Snapshot():
            return Checklist(update.session).after(update).line()
        case _:
            return Checklist(update.session_id).after(update).line()


def clock(ms: int) -> str:
    """A time of day of this machine, from epoch ms."""
    return dt.datetime.fromtimestamp(ms / 1000).astimezone().strftime("%H:%M:%S")


def _listed(empty: Checklist, value: msgspec.Raw) -> Checklist:
    try:
        todos = _todos(value)
    except msgspec.MsgspecError:
        return msgspec.structs.replace(
            empty, told="a list of a form this version does not know; update todo-projection"
        )
    return msgspec.structs.replace(empty, todos=todos or [], told="no plan" if todos is None else "an empty plan")


def _title(board: msgspec.Raw | None) -> str:
    try:
        found = Board() if board is None else _board(board)
    except msgspec.MsgspecError:
        return ""  # a newer form of it: the plan is what counts
    return found.title or found.label or ""


def _window(todos: Sequence[Todo], rows: int) -> tuple[int, int]:
    """Which items are shown where not all can be: those around the first that is being worked on, or is to be."""
    if rows <= 0 or len(todos) < rows:
        return 0, len(todos)
    shown = max(rows - 1 - (HINT_ROWS if rows >= HINTED_ROWS_MIN else 0), 1)
    order: tuple[Status, ...] = ("in_progress", "pending", "completed")
    at = min(range(len(todos)), key=lambda n: (order.index(todos[n].status), n))
    first = min(max(at - shown // 2, 0), len(todos) - shown)
    return first, first + shown
