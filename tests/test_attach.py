"""The attach rule, as examples and against every order in which frames and baselines can come."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from todo_projection.attach import NOTHING, Verdict, View
from todo_projection.frames import Baseline, Deleted, Frame, Mark, Published, Rev
from todo_projection.row import Cell, Row
from todo_write.events import Position

E1, E2 = 1000, 2000
MARK = Mark(7, "why", 5)


def row(rev: str, epoch: int = E1, seq: int = 0, mark: Mark | None = None, **values: Any) -> Row:
    """A stored row with these values."""
    cells = {key: Cell(msgspec.json.encode(value), Position(epoch, seq), 1, mark=mark) for key, value in values.items()}
    return Row("etag", Position(epoch, seq), Rev.parse(rev), cells, dict.fromkeys(cells, 1))


def frame(rev: str, value: Any, key: str = "todos", epoch: int = E1, seq: int = 1, mark: Mark | None = None) -> Frame:
    raw = msgspec.Raw(msgspec.json.encode(value))
    return Frame("s1", key, raw, seq, epoch, rev, 1, 0, msgspec.UNSET if mark is None else mark)


def deleted(rev: str, epoch: int = E1) -> Deleted:
    return Deleted("s1", epoch, rev)


def attached(stored: Row) -> View:
    view = View("s1")
    assert view.replace(stored)
    return view


def shown(view: View) -> dict[str, Any]:
    return {key: msgspec.json.decode(value) for key, value in view.baseline.values.items()}


HELD = row("5-a", todos=["old"], notes=0)
NONE = Row()


class Case(NamedTuple):
    name: str
    held: Row
    frame: Published
    verdict: Verdict
    value: Any


CASES = [
    Case("newer", HELD, frame("6-b", ["new"]), Verdict.APPLIED, ["new"]),
    Case("the same", HELD, frame("5-a", ["old"]), Verdict.OLD, ["old"]),
    Case("older", HELD, frame("4-z", ["older"]), Verdict.OLD, ["old"]),
    Case("an older epoch, a larger n", row("5-a", E2, todos=["old"]), frame("9-z", 0), Verdict.OLD, ["old"]),
    Case("the same n, another commit", HELD, frame("5-z", ["twin"]), Verdict.DOUBT, ["old"]),
    Case("one is missing before it", HELD, frame("7-c", ["new"]), Verdict.GAP, ["new"]),
    Case("a newer epoch, a smaller n", HELD, frame("1-b", ["new"], epoch=E2), Verdict.BEGUN, ["new"]),
    Case("the first of a session nobody knew", NONE, frame("1-a", ["new"]), Verdict.BEGUN, ["new"]),
    Case("an explicit empty list", HELD, frame("6-b", []), Verdict.APPLIED, []),
    Case("no plan", HELD, frame("6-b", None), Verdict.APPLIED, None),
    Case("deleted", HELD, deleted("6-b"), Verdict.APPLIED, "absent"),
    Case("deleted before", HELD, deleted("4-z"), Verdict.OLD, ["old"]),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_frame_applies_when_it_is_newer_than_what_its_key_holds(case: Case) -> None:
    view = attached(case.held)
    assert view.take(case.frame) is case.verdict
    assert shown(view).get("todos", "absent") == case.value


def test_frames_of_one_commit_all_apply_whichever_comes_first() -> None:
    for keys in (("todos", "notes"), ("notes", "todos")):
        view = attached(HELD)
        assert [view.take(frame("6-b", ["new"], key)) for key in keys] == [Verdict.APPLIED, Verdict.APPLIED]
        assert shown(view) == {"todos": ["new"], "notes": ["new"]}


def test_frames_that_come_while_the_baseline_is_read_are_applied_on_top_of_it() -> None:
    view = attached(HELD)
    view.begin()
    for arriving in (frame("6-b", ["new"]), frame("8-d", 8, "notes"), frame("7-c", ["newer"])):
        assert view.take(arriving) is Verdict.KEPT
    assert shown(view)["todos"] == ["old"]
    view.replace(row("6-b", seq=1, todos=["new"], notes=0))
    assert shown(view) == {"todos": ["newer"], "notes": 8}


@pytest.mark.parametrize(
    ("kept", "certain"),
    [
        ([], True),
        ([frame("6-b", 6), frame("7-c", 7), frame("8-d", 8)], True),
        ([frame("4-z", 4), frame("5-a", 5), frame("5-a", 5), frame("6-b", 6)], True),
        ([frame("3-z", 4)], True),
        ([frame("7-c", 7)], False),
        ([frame("6-b", 6), frame("8-d", 8)], False),
        ([frame("5-z", 5)], False),
        ([frame("6-b", 6, epoch=E2)], False),
    ],
)
def test_what_is_kept_leaves_doubt_when_something_is_missing_in_it(kept: list[Frame], certain: bool) -> None:
    view = attached(HELD)
    view.begin()
    for arriving in kept:
        view.take(arriving)
    assert view.replace(HELD) is certain


def test_a_frame_of_a_cleared_list_then_an_older_snapshot_stays_cleared() -> None:
    view = View("s1")
    view.take(frame("6-b", None))
    view.replace(HELD)
    assert shown(view)["todos"] is None


def test_a_baseline_replaces_everything_even_by_something_older() -> None:
    view = attached(HELD)
    view.take(frame("6-b", ["lost"], mark=MARK))
    view.replace(row("4-z", todos=["kept"]))
    assert (shown(view), view.baseline.stale) == ({"todos": ["kept"]}, {})
    assert view.take(frame("5-y", ["next"])) is Verdict.APPLIED


def test_a_row_that_is_not_equal_differs_be_it_older_newer_or_a_twin() -> None:
    view = attached(HELD)
    asked = view.whole
    assert not view.differs(E1, "5-a", asked)
    for epoch, rev in ((E1, "5-b"), (E1, "4-a"), (E1, "6-b"), (E2, "5-a"), (E1, None), (None, None)):
        assert view.differs(epoch, rev, asked)
    view.take(frame("6-b", ["new"]))
    assert not view.differs(E1, "6-b", view.whole)
    assert view.differs(E1, "5-a", view.whole)
    assert not attached(NONE).differs(None, None, NOTHING)
    assert attached(NONE).differs(E1, "1-a", NOTHING)


def test_frames_that_come_before_the_answer_of_a_poll_are_no_difference() -> None:
    view = attached(HELD)
    asked = view.whole
    for rev in ("6-b", "7-c", "8-d"):
        view.take(frame(rev, rev))
    assert [view.differs(E1, rev, asked) for rev in ("5-a", "6-?", "7-?", "8-d")] == [False] * 4
    assert [view.differs(E1, rev, asked) for rev in ("4-z", "5-z", "8-z", "9-e")] == [True] * 4
    assert view.differs(E2, "6-b", asked)
    assert view.differs(None, None, asked)


def test_a_late_frame_of_another_key_applies_and_what_is_newest_stays_so() -> None:
    view = attached(HELD)
    view.take(frame("7-c", ["new"]))
    assert view.take(frame("6-b", 6, "notes")) is Verdict.APPLIED
    assert shown(view) == {"todos": ["new"], "notes": 6}
    assert (view.baseline.rev, str(view.whole.rev)) == ("7-c", "7-c")


def test_frames_of_two_commits_with_one_n_leave_doubt_whatever_their_keys() -> None:
    view = attached(HELD)
    view.take(frame("6-b", ["lost"]))
    assert view.take(frame("6-y", 6, "notes")) is Verdict.DOUBT


def test_a_mark_comes_with_a_frame_and_goes_with_the_next() -> None:
    view = attached(HELD)
    view.take(frame("6-b", ["old"], mark=MARK))
    assert view.baseline.stale == {"todos": MARK}
    view.take(frame("7-c", 1, "notes"))
    assert view.baseline.stale == {"todos": MARK}
    view.take(frame("8-d", ["healed"]))
    assert view.baseline.stale == {}


def test_a_log_that_began_anew_shows_nothing_of_the_one_before() -> None:
    view = attached(HELD)
    view.take(frame("6-b", ["new"], epoch=E2))
    assert shown(view) == {"todos": ["new"]}
    assert view.take(frame("9-z", 9, "notes", epoch=E1)) is Verdict.OLD


class Publishing(RuleBasedStateMachine):
    """A row, what was published of it, and a view: deliveries, reads and polls come in any order, or not at all."""

    keys: tuple[str, ...] = ("todos",)
    reconnects = False  # whether a fail-over ends the connection, as it does where a client is connected to the primary

    def __init__(self) -> None:
        super().__init__()
        self.row = Row()
        self.copy = Row()
        self.published: list[list[Published]] = []
        self.view = View("s1")
        self.read: Row | None = None
        self.doubt = True  # a baseline is to be read
        self.applied: dict[str, tuple[int, int]] = {}
        self.count = 0

    def next_rev(self) -> Rev:
        self.count += 1
        return Rev((self.row.rev.n if self.row.rev else 0) + 1, f"e{self.count}")

    @rule(data=st.data(), anew=st.booleans())
    def commit(self, data: st.DataObject, anew: bool) -> None:
        changed = data.draw(st.sets(st.sampled_from(self.keys), min_size=1))
        rev, before = self.next_rev(), self.row.position
        begins = before is None or not self.row.exists
        epoch = self.count if begins or anew else (before.epoch if before else 0)
        cells = dict(self.row.cells) if before and epoch == before.epoch and self.row.exists else {}
        position = Position(epoch, self.count)
        told: list[Published] = []
        for key in self.keys:
            if key in changed:
                mark = data.draw(st.none() | st.just(MARK))
                cells[key] = Cell(b"%d" % self.count, position, 1, mark=mark)
                told.append(frame(str(rev), self.count, key, epoch, self.count, mark))
            elif key not in cells:
                cells[key] = Cell(b"null", None, 1)
                if key in self.row.cells and self.row.cells[key].value != b"null":
                    told.append(frame(str(rev), None, key, epoch, self.count))
        self.row = Row(f"e{self.count}", position, rev, cells, dict.fromkeys(cells, 1))
        self.published.append(told)

    @precondition(lambda self: self.row.exists)
    @rule()
    def advance(self) -> None:
        assert self.row.position
        self.row = msgspec.structs.replace(self.row, position=Position(self.row.position.epoch, self.count))

    @precondition(lambda self: self.row.exists)
    @rule()
    def delete(self) -> None:
        assert self.row.position
        rev = self.next_rev()
        self.published.append([deleted(str(rev), self.row.position.epoch)])
        self.row = Row("t", self.row.position, rev)

    @rule()
    def replicate(self) -> None:
        self.copy = self.row

    @rule()
    def fail_over(self) -> None:
        self.row = self.copy
        if self.reconnects:
            self.published.clear()
            self.read = None
            self.doubt = True

    @precondition(lambda self: self.published)
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        for arriving in data.draw(st.sampled_from(self.published)):
            verdict = self.view.take(arriving)
            if verdict in (Verdict.APPLIED, Verdict.GAP, Verdict.BEGUN):
                self.note(arriving)
            self.doubt |= verdict in (Verdict.DOUBT, Verdict.GAP, Verdict.BEGUN)

    @precondition(lambda self: self.published)
    @rule()
    def deliver_in_order(self) -> None:
        self.published.append(self.published.pop(0))
        for arriving in self.published[-1]:
            verdict = self.view.take(arriving)
            self.doubt |= verdict in (Verdict.DOUBT, Verdict.GAP, Verdict.BEGUN)

    def note(self, arriving: Published) -> None:
        order = arriving.epoch, Rev.parse(arriving.rev).n
        keys = [arriving.key] if isinstance(arriving, Frame) else list(self.keys)
        for key in keys:
            assert order > self.applied.get(key, (-1, 0))
            self.applied[key] = order

    @rule()
    def begin(self) -> None:
        self.view.begin()
        self.read, self.doubt = self.row, False

    @precondition(lambda self: self.read is not None)
    @rule()
    def replace(self) -> None:
        assert self.read is not None
        self.doubt |= not self.view.replace(self.read)
        self.read = None
        self.applied.clear()

    @invariant()
    def ends_equal(self) -> None:
        """Were everything to stop now, polls, with a baseline where they or frames ask for one, would do."""
        view, doubt = deepcopy(self.view), self.doubt
        position, rev = self.row.position, self.row.rev
        if self.read is not None:
            doubt |= not view.replace(self.read)
        for _ in range(2):
            if not view.attached or doubt or view.differs(position and position.epoch, rev and str(rev), view.whole):
                doubt = not view.replace(self.row)
        assert not doubt
        assert _visible(view.baseline) == _visible(self.row.baseline("s1"))


class PublishingTwoKeys(Publishing):
    keys = ("todos", "notes")
    reconnects = True


def _visible(baseline: Baseline) -> tuple[object, ...]:
    return baseline.epoch, baseline.rev, dict(baseline.values), baseline.stale


Publishing.TestCase.settings = PublishingTwoKeys.TestCase.settings = settings(
    max_examples=150, stateful_step_count=25, deadline=None
)
TestOneKeyUnderAnyOrderAndAnyFailOver: Callable[[], Any] = Publishing.TestCase
TestTwoKeysUnderAnyOrder: Callable[[], Any] = PublishingTwoKeys.TestCase
