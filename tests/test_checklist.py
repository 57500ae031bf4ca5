"""What a person sees of a session's plan, on a console of any size."""

import io
import json
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from todo_projection.checklist import Checklist, badge, clock, line
from todo_projection.frames import Baseline, Deleted, Frame, Mark
from todo_projection.subscription import Snapshot, State, Status
from todo_projection.watch import Watched, shares

MARK = Mark(7, "todos is no list", 1_764_517_000_000)
NASTY = ["計画を立てる" * 20, "👨‍👩‍👧‍👦🚀" * 20, "שלום \u202eevil\u202c \x1b[2J\r\n\x07", "e" + "\u0301" * 200, "plain"]


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def todos(*contents: str, status: str = "pending") -> list[dict[str, str]]:
    return [{"content": content, "status": status} for content in contents]


def snapshot(session: str = "s1", stale: dict[str, Mark] | None = None, **values: Any) -> Snapshot:
    raws = {key: raw(value) for key, value in values.items()}
    return Snapshot(session, Baseline(session, 9, 1, "3-a", raws, {}, stale or {}))


def frame(value: Any, key: str = "todos", stale: Mark | None = None) -> Frame:
    return Frame("s1", key, raw(value), 1, 1, "4-b", 2, 0, msgspec.UNSET if stale is None else stale)


def shown(what: Any, width: int = 60, height: int = 20) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), color_system=None)
    with console.capture() as capture:
        console.print(what)
    return capture.get().splitlines()


def after(*updates: Any) -> Checklist:
    checklist = Checklist("s1")
    for update in updates:
        checklist = checklist.after(update)
    return checklist


def test_each_item_has_a_sign_and_the_head_counts_them() -> None:
    mixed = todos("a", status="completed") + todos("b", status="in_progress") + todos("c", "d")
    assert shown(after(snapshot(todos=mixed, board={"title": "Titled"}))) == [
        "s1  Titled  1/4  1 done, 1 in progress, 2 to do",
        "  ✓ a",
        "  ● b",
        "  ○ c",
        "  ○ d",
    ]


@pytest.mark.parametrize(
    ("updates", "told"),
    [
        ([], "nothing projected yet"),
        ([snapshot()], "nothing projected yet"),
        ([snapshot(todos=None)], "no plan"),
        ([snapshot(todos=todos("a")), frame([])], "an empty plan"),
        ([snapshot(todos=todos("a")), frame(None)], "no plan"),
        ([snapshot(todos=todos("a")), Deleted("s1", 1, "5-c")], "deleted"),
        ([frame([{"content": 5}])], "a list of a form this version does not know; update todo-projection"),
    ],
)
def test_where_there_is_no_list_it_says_why(updates: list[Any], told: str) -> None:
    assert shown(after(*updates), width=100) == ["s1", f"  {told}"]


def test_a_mark_stands_beside_the_list_until_it_heals() -> None:
    marked = after(snapshot(todos=todos("a")), frame(todos("a"), stale=MARK))
    assert shown(marked, 120)[0].endswith(f"stale since {clock(MARK.since)}: event 7: todos is no list")
    assert "○ a" in shown(marked)[1]
    assert "stale" not in shown(after(snapshot(todos=todos("a"), stale={"todos": MARK}), frame(todos("b"))))[0]
    assert "stale" in shown(after(snapshot(todos=todos("a"), stale={"todos": MARK})))[0]


def test_another_unit_s_frame_changes_nothing() -> None:
    before = after(snapshot(todos=todos("a")))
    assert before.after(frame([], key="notes")) is before


@pytest.mark.parametrize("width", [1, 7, 20, 40, 80])
def test_nothing_is_wider_than_the_console_or_moves_its_cursor(width: int) -> None:
    for text in shown(after(snapshot(todos=todos(*NASTY), board={"title": NASTY[0]})), width):
        assert cell_len(text) <= width
        assert text.isprintable() or "\u200d" in text  # what joins an emoji is no control
        assert not set(text) & set("\u202e\u202c\x1b\r\x07")


def test_of_a_list_that_is_too_long_what_is_worked_on_is_shown() -> None:
    long = (
        todos(*map(str, range(60)), status="completed")
        + todos("now", status="in_progress")
        + todos(*map(str, range(140)))
    )
    whole = after(snapshot(todos=long))
    assert len(shown(whole)) == 202
    for rows in range(2, 30):
        found = shown(msgspec.structs.replace(whole, rows=rows))
        assert len(found) == rows
        assert "  ● now" in found
        hints = [int(text.split()[1]) for text in found if "…" in text]
        assert sum(hints) + len(found) - len(hints) - 1 == 201 or rows < 4


@pytest.mark.parametrize("height", range(1, 30))
def test_a_screen_shows_the_state_first_and_is_no_higher_than_the_console(height: int) -> None:
    watched = Watched([f"s{n}" for n in range(5)])
    watched.take(snapshot("s3", todos=todos(*map(str, range(40)))))
    watched.take(Status(State.BEHIND, MARK.since))
    found = shown(watched, height=height)
    assert found[0] == f"behind since {clock(MARK.since)}"
    assert len(found) <= max(height, 3) + 1
    assert any("s3" in text for text in found) or height < 7
    assert any("more" in text for text in found) is (height < 7)


def test_rows_are_given_to_those_who_need_them() -> None:
    assert shares([2, 2, 50], 20) == [2, 2, 16]
    assert shares([50, 2, 50], 20) == [9, 2, 9]
    assert shares([3, 4], 20) == [3, 4]


def test_every_update_is_one_line_where_lines_are_wanted() -> None:
    working = todos("a", status="completed") + todos("b\nc", status="in_progress")
    assert line(snapshot(todos=working)) == "s1  1/2  b c"
    assert line(frame(working, stale=MARK)).startswith("s1  1/2  b c  stale since ")
    assert line(frame([])) == "s1  an empty plan"
    assert line(frame(1, key="notes")) == "s1  notes changed"
    assert line(Deleted("s\x1b1", 1, "5-c")) == "s␛1  deleted"
    assert line(Status(State.LIVE, 0)) == badge(Status(State.LIVE, 0)).plain == "live"
    assert line(Status(State.RECONNECTING, MARK.since)) == f"reconnecting since {clock(MARK.since)}"
