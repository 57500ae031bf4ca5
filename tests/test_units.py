"""The units ``todos`` and ``board``: recorded answers first, then the laws of a fold."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from todo_projection.board import board
from todo_projection.fold import Fold
from todo_projection.row import Cell
from todo_projection.testing.laws import check_unit_laws
from todo_projection.unit import InvalidUnit, Unit, check_units, mounted_units
from todo_write.events import Event
from todo_write.unit import todos

EPOCH = 1764517000000
RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parent / "conformance" / "todos_projection.jsonl").read_text().splitlines()
]


def event(seq: int, type: str, data: Any = None, time: int | None = None) -> Event:
    raw = msgspec.Raw(msgspec.json.encode({} if data is None else data))
    return Event(type, seq, EPOCH + seq if time is None else time, raw)


def written(*items: tuple[str, str]) -> Any:
    return {"todos": [{"content": content, "status": status} for content, status in items]}


def write(seq: int, *items: tuple[str, str], time: int | None = None) -> Event:
    return event(seq, "todo/write", written(*items), time)


def recorded_event(step: Any) -> Event:
    return msgspec.json.decode(json.dumps(step["event"]), type=Event)


def folded(unit: Unit, events: list[Event], before: Cell | None = None, after: int = -1) -> Cell:
    fold = Fold(unit, before, after)
    for one in events:
        fold.take(EPOCH, one)
    return fold.cell()


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda row: row["name"])
def test_todos_gives_the_recorded_values_one_event_at_a_time(recorded: Any) -> None:
    assert (recorded["key"], recorded["stateVersion"]) == (todos.key, todos.state_version)
    state = todos.init()
    for step in recorded["steps"]:
        before, state = state, todos.apply(state, recorded_event(step))
        assert msgspec.to_builtins(todos.view(state)) == step["value"]
        assert (state is not before) == step["changed"]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda row: row["name"])
def test_todos_gives_the_recorded_value_in_every_split_into_batches(recorded: Any) -> None:
    events = [recorded_event(step) for step in recorded["steps"]]
    for cuts in range(1 << (len(events) - 1)):
        cell: Cell | None = None
        batch: list[Event] = []
        for n, one in enumerate(events):
            batch.append(one)
            if n == len(events) - 1 or cuts >> n & 1:
                cell = folded(todos, batch, cell, batch[0].seq - 1)
                batch = []
        assert cell is not None
        assert json.loads(cell.value) == recorded["steps"][-1]["value"]


STATUS = st.sampled_from(["pending", "in_progress", "completed"])
ITEMS = st.lists(st.tuples(st.sampled_from("abc"), STATUS), max_size=3, unique_by=lambda item: item[0])
BROKEN: st.SearchStrategy[Any] = st.sampled_from(
    [{}, [], {"todos": 1}, {"todos": [{"content": "a"}]}, {"todos": [{"content": " a", "status": "pending"}]}]
)


WRITE = ITEMS.map(lambda items: written(*items))
EVENTS = st.one_of(
    st.tuples(st.just("todo/write"), WRITE | BROKEN),
    st.tuples(st.just("turn/start"), st.fixed_dictionaries({"turn": st.integers(0, 9)})),
    st.tuples(st.just("turn/end"), st.fixed_dictionaries({"reason": st.sampled_from(["error", {"kind": "x"}])})),
    st.tuples(st.just("session/title"), st.sampled_from([{"title": "t"}, {"title": 3}, []])),
    st.tuples(st.just("session/start"), st.just({"label": "l", "parentSession": "p"})),
)


@pytest.mark.parametrize("unit", [todos, board], ids=lambda unit: unit.key)
def test_a_unit_keeps_the_laws(unit: Unit) -> None:
    check_unit_laws(unit, EVENTS)


@pytest.mark.parametrize("unit", [todos, board], ids=lambda unit: unit.key)
@given(sent=st.lists(EVENTS, max_size=12), data=st.data())
def test_an_event_already_folded_changes_nothing(unit: Unit, sent: list[Any], data: st.DataObject) -> None:
    events = [event(seq, type, body) for seq, (type, body) in enumerate(sent)]
    cell = folded(unit, events)
    again = data.draw(st.lists(st.sampled_from(events), max_size=5)) if events else []
    assert folded(unit, again, cell, len(events) - 1) is cell


def test_a_broken_write_keeps_the_last_good_value_and_marks_it_until_the_next_good_one() -> None:
    cell = folded(todos, [write(0, ("a", "pending")), event(1, "todo/write", {"todos": [{"content": ""}]}, time=77)])
    assert json.loads(cell.value) == [{"content": "a", "status": "pending"}]
    assert cell.mark is not None
    assert (cell.mark.seq, cell.mark.since) == (1, 77)
    assert cell.at is not None
    assert cell.at.seq == 1

    healed = folded(todos, [write(2, ("b", "completed"))], cell, 1)
    assert healed.mark is None
    assert json.loads(healed.value) == [{"content": "b", "status": "completed"}]


def test_a_second_broken_write_keeps_the_time_of_the_first() -> None:
    broken = [event(seq, "todo/write", [], time=100 + seq) for seq in (0, 1)]
    cell = folded(todos, broken)
    assert cell.mark is not None
    assert (cell.mark.seq, cell.mark.since) == (1, 100)


def test_a_turn_start_heals_a_mark_on_an_empty_plan() -> None:
    cell = folded(todos, [event(0, "todo/write", []), event(1, "turn/start", {"turn": 1})])
    assert (cell.value, cell.mark) == (b"null", None)


def view(*events: Event) -> Any:
    return json.loads(folded(board, list(events)).value)


def test_the_board_counts_and_names_the_item_longest_in_progress() -> None:
    first = write(0, ("a", "in_progress"), ("b", "pending"), time=10)
    second = write(1, ("b", "in_progress"), ("a", "in_progress"), ("c", "completed"), time=20)
    seen = view(first, second)
    assert (seen["current"], seen["since"], seen["done"], seen["total"]) == ("a", 10, 1, 3)
    finished = view(first, second, write(2, ("b", "in_progress"), ("a", "completed"), time=30))
    assert (finished["current"], finished["since"]) == ("b", 20)


def test_an_item_begun_again_is_in_progress_since_it_was_begun_again() -> None:
    times = [("in_progress", 10), ("pending", 20), ("in_progress", 30)]
    seen = view(*(write(n, ("a", status), time=time) for n, (status, time) in enumerate(times)))
    assert seen["since"] == 30


def test_the_board_tells_open_turns_their_end_and_the_names_of_the_session() -> None:
    names = [
        event(0, "session/start", {"parentSession": "p", "label": "l"}),
        event(1, "session/title", {"title": "t"}),
        event(2, "turn/start", {"turn": 4}),
    ]
    assert view(*names) == {
        "title": "t", "label": "l", "parent": "p", "turn": 4, "open": True, "reason": None,
        "done": 0, "total": None, "current": None, "since": None,
    }  # fmt: skip
    ended = view(*names, event(3, "turn/end", {"turn": 4, "reason": {"kind": "interrupted"}}))
    assert (ended["open"], ended["reason"]) == (False, "interrupted")


def test_a_new_turn_clears_the_plan_and_keeps_the_names() -> None:
    seen = view(event(0, "session/title", {"title": "t"}), write(1, ("a", "in_progress")), event(2, "turn/start", {}))
    assert (seen["title"], seen["total"], seen["current"]) == ("t", None, None)


class Named:
    """A unit of another key and version."""

    handles = heals_on = frozenset[str]()
    published = False

    def __init__(self, key: str, state_version: int = 1) -> None:
        self.key, self.state_version = key, state_version

    def init(self) -> None: ...
    def apply(self, state: Any, event: Event) -> Any: ...
    def view(self, state: Any) -> Any: ...
    def encode(self, state: Any) -> bytes: ...  # type: ignore[empty-body]  # never called here
    def decode(self, raw: bytes) -> Any: ...


@pytest.mark.parametrize(
    "key", ["", "Todos", "1a", "a.b", "a:b", "a,b", "etag", "pos", "units", "rev", "partial", "begun"]
)
def test_a_unit_whose_key_would_not_fit_a_row_is_refused(key: str) -> None:
    with pytest.raises(InvalidUnit, match="unit key"):
        check_units([Named(key)])


def test_two_units_of_one_key_and_a_version_below_one_are_refused() -> None:
    with pytest.raises(InvalidUnit, match="twice"):
        check_units([Named("a"), Named("a")])
    with pytest.raises(InvalidUnit, match="state_version 0"):
        check_units([Named("a", 0)])


def test_the_installed_units_are_found_in_order_of_key() -> None:
    assert [unit.key for unit in mounted_units()] == ["board", "todos"]
