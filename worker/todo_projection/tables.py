"""Tables for people: sessions, and the status of the whole."""

from collections.abc import Iterable

from rich.console import Group
from rich.table import Table
from rich.text import Text

from todo_projection.board import Board
from todo_projection.plain import cut, plain
from todo_projection.sessions import Entry
from todo_projection.state import State, age
from todo_projection.status import Status, WorkerStatus

BAR_CELLS = 10
NAME_CELLS = 40
TASK_CELLS = 60

COLOURS: dict[State, str] = {
    "unknown": "red",
    "cleared": "bright_black",
    "empty": "bright_black",
    "done": "green",
    "stuck": "red",
    "quiet": "yellow",
    "active": "cyan",
}


def sessions_table(entries: Iterable[Entry], now: int) -> Table:
    """A row a session; ``now`` in epoch ms by the server's clock."""
    table = _table("session", "plan", "done", "task", "state", "last event")
    table.columns[2].justify = "right"
    for name in (0, 3):
        table.columns[name].no_wrap = False  # these two give way on a narrow terminal; their texts are cut, not wrapped
    for entry in entries:
        board = entry.board or Board()
        last = "" if entry.last_event is None else age(now - entry.last_event)
        colour = COLOURS[entry.state]
        state = Text(entry.state, colour)
        if entry.stale:
            state.append(" stale", "magenta")
        if entry.state in ("unknown", "stuck"):
            state.append(f" {plain(entry.why)}", "bright_black")
        task = Text(cut(board.current or "", TASK_CELLS), no_wrap=True, overflow="ellipsis")
        table.add_row(name_of(entry), bar(board, colour), progress(board), task, state, last)
    return table


def name_of(entry: Entry) -> Text:
    """How a person knows the session: its id, and its title or label."""
    board = entry.board or Board()
    name = Text(cut(entry.session_id, NAME_CELLS), no_wrap=True, overflow="ellipsis")
    told = board.title or board.label
    if told and told != entry.session_id:
        name.append(f" {cut(told, NAME_CELLS)}", "bright_black")
    return name


def bar(board: Board, colour: str) -> Text:
    """The plan as a bar of fixed width, empty without one."""
    if not board.total:
        return Text(" " * BAR_CELLS)
    done = board.done * BAR_CELLS // board.total
    return Text("━" * done, colour).append("─" * (BAR_CELLS - done), "bright_black")


def progress(board: Board) -> str:
    """``2/5``, or a dash without a plan."""
    return "-" if board.total is None else f"{board.done}/{board.total}"


def status_view(status: Status) -> Group:
    """Backlog, workers and marked sessions, one below the other."""
    backlog = Text("Backlog  ", "bold").append(backlog_text(status), "yellow" if status.backlog.count else "")
    parts: list[Text | Table] = [backlog, Text()]
    if status.workers:
        parts.append(_workers_table(status.workers))
    else:
        parts.append(Text("Workers  none: start one with `todo-projection worker`", "red"))
    parts += [Text(), Text("Stale    ", "bold").append(_stale_count(status), "magenta" if status.stale.count else "")]
    for session, reason in status.stale.sessions.items():
        why = reason if isinstance(reason, str) else "; ".join(f"{k}: {mark.reason}" for k, mark in reason.items())
        parts.append(Text(f"  {cut(session, NAME_CELLS)}  {plain(why)}"))
    parts += [Text(plain(problem), "red") for problem in status.problems]
    return Group(*parts)


def backlog_text(status: Status) -> str:
    """The backlog in words."""
    backlog = status.backlog
    if not backlog.count:
        return "none"
    events = "1 event waits" if backlog.count == 1 else f"{backlog.count} events wait"
    return f"{events}, the oldest for {age(int(backlog.age_s * 1000))}"


def _workers_table(workers: Iterable[WorkerStatus]) -> Table:
    table = _table("worker", "state", "last beat", "up", "units")
    for worker in workers:
        state = Text(worker.state, "green" if worker.state == "working" else "red")
        if worker.why:
            state.append(f" {plain(worker.why)}", "bright_black")
        last, up = age(int(worker.age_s * 1000)), age(int(worker.up_s * 1000))
        table.add_row(plain(worker.name), state, f"{last} ago", up, plain(worker.units))
    return table


def _stale_count(status: Status) -> str:
    shown = len(status.stale.sessions)
    more = f", {shown} of them shown" if shown < status.stale.count else ""
    sessions = "1 session" if status.stale.count == 1 else f"{status.stale.count} sessions"
    return f"{sessions}{more}" if status.stale.count else "none"


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    return table
