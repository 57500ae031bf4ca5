"""The state of a session on a board: only what events prove, each with its why. Pure."""

from typing import Literal, NamedTuple, get_args

from todo_projection.board import Board

State = Literal["unknown", "cleared", "empty", "done", "stuck", "quiet", "active"]
STATES: tuple[State, ...] = get_args(State)

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


class Judgement(NamedTuple):
    """A state and why it is that one."""

    state: State
    why: str


def judge(board: Board | None, *, now_ms: int, last_ms: int | None, stuck_ms: int, quiet_ms: int) -> Judgement:
    """The first state that fits: ``board`` None is a session without a row, ``last_ms`` the time of its last event.

    Times are epoch ms by the server's clock, ``last_ms`` None when the index does not know; bounds in ms.
    """
    if board is None:
        return Judgement("unknown", "nothing of it is projected")
    working_ms = 0 if board.since is None else now_ms - board.since
    silent_ms = 0 if last_ms is None else now_ms - last_ms
    cases: tuple[tuple[bool, State, str], ...] = (
        (board.total is None, "cleared", "no plan yet" if board.turn is None else "no plan in this turn"),
        (board.total == 0, "empty", "the plan is an empty list"),
        (board.done == board.total, "done", f"all {board.total} completed"),
        (working_ms > stuck_ms, "stuck", f"in progress for {age(working_ms)}"),
        (silent_ms > quiet_ms, "quiet", f"no event for {age(silent_ms)}"),
    )
    for holds, state, why in cases:
        if holds:
            return Judgement(state, why)
    return Judgement("active", f"last event {age(silent_ms)} ago" if last_ms is not None else "not quiet, not stuck")


def age(ms: int) -> str:
    """A span of time in its largest unit: ``42 s``, ``3 min``; a clock that was ahead counts as none."""
    for unit_ms, unit in _UNITS:
        if ms >= unit_ms:
            return f"{ms // unit_ms} {unit}"
    return "0 s"
