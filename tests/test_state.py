"""The state of a session on a board: first match, each with its why."""

import pytest

from todo_projection.board import Board
from todo_projection.state import Judgement, age, judge

NOW = 1_800_000_000_000
T1, T2 = 900_000, 600_000


def state(board: Board | None, last_ms: int | None = NOW) -> Judgement:
    return judge(board, now_ms=NOW, last_ms=last_ms, stuck_ms=T1, quiet_ms=T2)


def test_without_a_row_it_is_unknown() -> None:
    assert state(None) == ("unknown", "nothing of it is projected")


def test_null_is_cleared_and_says_whether_there_ever_was_a_turn() -> None:
    assert state(Board()) == ("cleared", "no plan yet")
    assert state(Board(turn=3)) == ("cleared", "no plan in this turn")


def test_an_empty_list_is_empty_not_cleared_and_not_done() -> None:
    assert state(Board(total=0)) == ("empty", "the plan is an empty list")


def test_all_completed_is_done_however_long_ago() -> None:
    assert state(Board(total=2, done=2), NOW - 10 * T2) == ("done", "all 2 completed")


def test_in_progress_for_longer_than_t1_is_stuck_even_when_it_is_quiet_too() -> None:
    board = Board(total=2, done=1, current="x", since=NOW - T1 - 60_000)
    assert state(board) == ("stuck", "in progress for 16 min")
    assert state(board, NOW - 10 * T2).state == "stuck"


def test_exactly_t1_is_not_yet_stuck() -> None:
    assert state(Board(total=1, current="x", since=NOW - T1)).state == "active"


def test_no_event_for_longer_than_t2_is_quiet() -> None:
    board = Board(total=2, current="x", since=NOW - T1)
    assert state(board, NOW - T2 - 1) == ("quiet", "no event for 10 min")
    assert state(board, NOW - T2).state == "active"


def test_anything_else_is_active() -> None:
    assert state(Board(total=2), NOW - 3_000) == ("active", "last event 3 s ago")


def test_a_session_missing_in_the_index_is_not_called_quiet() -> None:
    assert state(Board(total=2), None).state == "active"


def test_a_clock_that_was_ahead_counts_as_no_time() -> None:
    assert state(Board(total=2, current="x", since=NOW + 5_000), NOW + 5_000) == ("active", "last event 0 s ago")


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 s"), (999, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (7_200_000, "2 h"), (90_000_000_0, "10 d")],
)
def test_an_age_is_told_in_its_largest_unit(ms: int, text: str) -> None:
    assert age(ms) == text
