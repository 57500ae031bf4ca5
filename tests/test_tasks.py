"""Tasks folded call by call, and what a transcript adds to what hooks brought: pure, so as laws."""

import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from todo_write.calls import Call, answered, asked
from todo_write.claude import read_claude
from todo_write.events import TODO_WRITE_BYTES_MAX, Event, Status, Todo, sound_todos
from todo_write.memory import CALLS_MAX, Known, Memory, Place, Reading, Taken, catch_up, take
from todo_write.tasks import Change, Create, Task, Tasks, Unfit, Update, Whole, fold, todos_of
from todo_write.transcript import Draft, Skipped, read_lines

TRANSCRIPTS = Path(__file__).parent / "transcripts"
PLACE = Place(1, "x")


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def fold_all(changes: Sequence[Create | Update], tasks: Tasks = ()) -> Tasks:
    for change in changes:
        tasks = fold(tasks, change)
    return tasks


def plan(tasks: Tasks) -> list[tuple[str, str]]:
    return [(todo.content, todo.status) for todo in todos_of(tasks)]


def list_of(taken: Taken) -> list[tuple[str, str]] | None:
    return None if taken.todos is None else [(todo.content, todo.status) for todo in taken.todos]


class TestFold:
    def test_a_created_task_is_pending_and_stands_by_its_number(self) -> None:
        tasks = fold_all([Create("c", "10"), Create("a", "2"), Create("b", "9"), Create("z", "x")])
        assert plan(tasks) == [("a", "pending"), ("b", "pending"), ("c", "pending"), ("z", "pending")]

    def test_an_update_changes_what_it_names(self) -> None:
        tasks = fold_all([Create("a", "1"), Update("1", "in_progress"), Update("1", None, " b ")])
        assert tasks == (Task("1", "b", "in_progress"),)

    def test_a_deleted_task_is_gone(self) -> None:
        assert fold_all([Create("a", "1"), Create("b", "2"), Update("1", "deleted")]) == (Task("2", "b"),)

    def test_what_changes_nothing_gives_the_same_tasks(self) -> None:
        tasks = fold_all([Create("a", "1"), Update("1", "completed")])
        for change in (Update("1"), Update("1", "completed"), Update("1", None, "a"), Create("other", "1")):
            assert fold(tasks, change) is tasks

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            (Update("2", "completed"), "no task '2'"),
            (Create(" \ufeff", "2"), "non-empty"),
            (Update("1", None, "\n"), "non-empty"),
            (Create("a", ""), "task id ''"),
            (Create("a", "1) (#2"), "task id"),
            (Create("x" * TODO_WRITE_BYTES_MAX, "2"), "at most"),
        ],
        ids=["unknown", "blank", "renamed to blank", "no id", "brackets", "too long"],
    )
    def test_a_call_that_can_not_be_part_of_a_plan_is_unfit(self, change: Create | Update, why: str) -> None:
        with pytest.raises(Unfit, match=why):
            fold((Task("1", "a"),), change)


class TestContents:
    def test_equal_subjects_get_their_ids(self) -> None:
        tasks = (Task("1", "a"), Task("2", "b"), Task("3", "a"))
        assert [todo.content for todo in todos_of(tasks)] == ["a (#1)", "b", "a (#3)"]

    def test_a_subject_that_looks_like_one_with_an_id_is_told_apart_too(self) -> None:
        tasks = (Task("1", "a"), Task("2", "a"), Task("3", "a (#2)"))
        assert [todo.content for todo in todos_of(tasks)] == ["a (#1)", "a (#2) (#2)", "a (#2) (#3)"]

    @given(st.lists(st.sampled_from(["a", "a (#1)", "a (#2)", "a (#2) (#2)", "a (#3)"]), max_size=8))
    def test_every_list_is_sound(self, subjects: list[str]) -> None:
        tasks = fold_all([Create(subject, str(id)) for id, subject in enumerate(subjects, 1)])
        written = msgspec.json.encode({"todos": todos_of(tasks)})
        assert len(sound_todos(Event("todo/write", 0, 0, msgspec.Raw(written)))) == len(subjects)


class TestCalls:
    def test_todo_write_is_content_and_status_only(self) -> None:
        items = [{"content": " a ", "status": "pending", "activeForm": "x", "id": "1", "priority": "high"}]
        assert asked("TodoWrite", raw({"todos": items})) == Whole((Todo("a", "pending"),))

    @pytest.mark.parametrize(
        ("tool", "input"),
        [
            ("TodoWrite", {"todos": [{"content": "a"}]}),
            ("TodoWrite", {"todos": [{"content": "a", "status": "done"}]}),
            ("TodoWrite", {"todos": [{"content": c, "status": "pending"} for c in ("a", "a ")]}),
            ("TodoWrite", {"todos": '[{"content": "a"}]'}),
            ("TodoWrite", {"todos": ["a"]}),
            ("TodoWrite", {"todos": [{"content": "x" * TODO_WRITE_BYTES_MAX, "status": "pending"}]}),
            ("TodoWrite", None),
            ("TaskCreate", {"description": "a"}),
            ("TaskCreate", {"subject": 1}),
            ("TaskUpdate", {"taskId": "1", "status": "blocked"}),
            ("TaskUpdate", {"status": "pending"}),
        ],
        ids=str,
    )
    def test_a_call_that_is_not_as_expected_is_unfit(self, tool: str, input: Any) -> None:
        with pytest.raises(Unfit):
            asked(tool, raw(input))

    def test_a_lone_surrogate_is_unfit(self) -> None:
        with pytest.raises(Unfit):
            asked("TaskCreate", msgspec.Raw(b'{"subject":"\\ud800"}'))

    @pytest.mark.parametrize("id", ["7", 7, "#7"])
    def test_a_task_is_named_by_a_text_or_a_number(self, id: Any) -> None:
        assert asked("TaskUpdate", raw({"taskId": id, "status": "deleted"})) == Update("7", "deleted")

    @pytest.mark.parametrize(
        "answer",
        [
            {"task": {"id": "7", "subject": "a"}},
            {"task": {"id": 7}},
            "Task #7 created successfully: a",
            [{"type": "text", "text": "Task #7 created"}],
            {"content": [{"type": "image"}, {"type": "text", "text": "Task #7 created"}]},
        ],
        ids=str,
    )
    def test_the_answer_tells_the_id_of_a_created_task(self, answer: Any) -> None:
        assert answered(Create("a"), raw(answer)) == Create("a", "7")
        assert answered(Create("a"), raw(None), raw(answer)) == Create("a", "7")

    @pytest.mark.parametrize(
        "answer", [None, "ok", {"task": {}}, {"success": False, "task": {"id": "1"}}, [1]], ids=str
    )
    def test_a_create_whose_answer_tells_none_is_unfit(self, answer: Any) -> None:
        with pytest.raises(Unfit):
            answered(Create("a"), raw(answer))

    def test_an_update_that_the_tool_refused_is_unfit(self) -> None:
        with pytest.raises(Unfit, match="error"):
            answered(Update("1", "completed"), raw({"success": False, "error": "Task not found"}))


# A model that works as Claude Code lets it: it changes tasks that are there, ids count on.
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "create", "update", "update", "rename", "delete", "whole"]), st.integers(0, 9)
    ),
    max_size=14,
)


def calls_of(steps: list[tuple[str, int]]) -> list[Call]:
    alive: list[str] = []
    changes: list[Change] = []
    for number, (step, pick) in enumerate(steps):
        if step == "whole":
            changes.append(Whole((Todo(f"w{number}", "pending"),)))
        elif step == "create" or not alive:
            alive.append(str(len(changes) + 1))
            changes.append(Create("ab"[pick % 2], alive[-1]))
        elif step == "delete":
            changes.append(Update(alive.pop(pick % len(alive)), "deleted"))
        else:
            id = alive[pick % len(alive)]
            status: Status = "in_progress" if pick % 2 else "completed"
            changes.append(Update(id, None, f"s{number}") if step == "rename" else Update(id, status))
    return [Call(f"t{number}", change) for number, change in enumerate(changes)]


def bring(memory: Memory, calls: Sequence[Call]) -> tuple[Memory, list[Taken]]:
    """Every call through a hook of its own; one that can't be taken is reported, and that is all."""
    told: list[Taken] = []
    for call in calls:
        try:
            told.append(take(memory, call))
        except Unfit:
            continue
        memory = told[-1].memory
    return memory, told


def shown(told: Sequence[Taken]) -> list[tuple[str, str]] | None:
    """What the last list written shows."""
    return next((list_of(each) for each in reversed(told) if each.todos is not None), None)


class TestHooks:
    @given(_STEPS)
    def test_call_by_call_equals_folding_all(self, steps: list[tuple[str, int]]) -> None:
        calls = calls_of(steps)
        memory, told = bring(Memory(), calls)
        changes = [call.change for call in calls]
        tasks = fold_all([change for change in changes if not isinstance(change, Whole)])
        assert memory.tasks == tasks
        news = [each for each in told if each.todos is not None]
        if news and isinstance(changes[-1], Whole):
            assert news[-1].todos == list(changes[-1].todos)
        elif changes and told[-1].todos is not None:
            assert told[-1].todos == todos_of(tasks)

    @given(_STEPS)
    def test_what_a_run_needs_survives_the_log(self, steps: list[tuple[str, int]]) -> None:
        memory = Memory()
        for call in calls_of(steps):
            memory = msgspec.json.decode(msgspec.json.encode(take(memory, call).memory), type=Memory)
        assert memory == bring(Memory(), calls_of(steps))[0]

    def test_the_same_call_twice_gives_nothing_new(self) -> None:
        first = take(Memory(), Call("t", Create("a", "1")))
        assert take(first.memory, Call("t", Create("a", "1"))) == Taken(first.memory, None)

    def test_lists_without_an_id_are_all_taken_since_nothing_tells_them_apart(self) -> None:
        told = [Whole((Todo(name, "pending"),)) for name in "aba"]
        memory, taken = bring(Memory(), [Call("", change) for change in told])
        assert [list_of(each) for each in taken] == [[(name, "pending")] for name in "aba"]
        again = catch_up(memory, Reading([Call(f"t{n}", change) for n, change in enumerate(told)], PLACE))
        assert again.todos is None

    def test_what_no_plan_shows_gives_nothing(self) -> None:
        memory = take(Memory(), Call("t", Create("a", "1"))).memory
        assert take(memory, Call("u", Update("1"))) == Taken(memory, None)

    def test_calls_that_are_remembered_have_a_bound(self) -> None:
        memory, _ = bring(Memory(), [Call(f"t{n}", Whole(())) for n in range(CALLS_MAX + 5)])
        assert [known.key for known in memory.calls][0 :: CALLS_MAX - 1] == ["t5", f"t{CALLS_MAX + 4}"]


class TestCatchingUp:
    @given(_STEPS, st.data())
    def test_whatever_hooks_missed_and_wherever_readings_stopped_the_end_is_the_fold_of_all(
        self, steps: list[tuple[str, int]], data: st.DataObject
    ) -> None:
        calls = calls_of(steps)
        whole, all_told = bring(Memory(), calls)
        memory, told, taken_to = Memory(), list[Taken](), 0
        for number, call in enumerate(calls, 1):
            if data.draw(st.booleans(), "hook"):
                memory, news = bring(memory, [call])
                told += news
            if data.draw(st.booleans(), "reading"):
                to = data.draw(st.integers(taken_to, number), "to")  # the transcript may lag behind the hooks
                told.append(catch_up(memory, Reading(calls[taken_to:to], Place(to, "x"))))
                memory, taken_to = told[-1].memory, to
        told.append(catch_up(memory, Reading(calls[taken_to:], Place(len(calls), "x"))))
        assert told[-1].memory.tasks == whole.tasks
        assert [call for call in told[-1].left_out if call] == []
        if any(isinstance(call.change, Whole) for call in calls):
            return  # which kind of list was told last is another law
        assert (shown(told) or []) == (shown(all_told) or [])

    @given(_STEPS)
    def test_reading_twice_adds_nothing(self, steps: list[tuple[str, int]]) -> None:
        calls = calls_of(steps)
        first = catch_up(Memory(), Reading(calls, PLACE))
        for lost in (False, True):
            again = catch_up(first.memory, Reading(calls if lost else [], PLACE, lost=lost))
            assert again.todos is None
            assert again.memory.tasks == first.memory.tasks

    @given(_STEPS, st.integers(0, 14))
    def test_what_hooks_brought_is_not_written_again(self, steps: list[tuple[str, int]], lag: int) -> None:
        calls = calls_of(steps)
        memory, _ = bring(Memory(), calls)
        cut = max(0, len(calls) - lag)
        read = catch_up(memory, Reading(calls[:cut], PLACE))
        assert read.todos is None
        assert catch_up(read.memory, Reading(calls[cut:], PLACE), settled=True).todos is None

    def test_a_missed_call_leaves_what_later_ones_changed_though_the_transcript_does_not_hold_them_yet(self) -> None:
        made, begun, done = (
            Call("1", Create("a", "1")),
            Call("2", Update("1", "in_progress", "b")),
            Call("3", Update("1", "completed")),
        )
        memory, _ = bring(Memory(), [made, done])
        assert list_of(catch_up(memory, Reading([made, begun], PLACE))) == [("b", "completed")]
        all_known, _ = bring(Memory(), [made, begun, done])
        lagging = catch_up(all_known, Reading([made], PLACE)).memory
        assert catch_up(lagging, Reading([begun], PLACE)).todos is None

    def test_what_is_read_again_because_a_call_before_it_waits_is_known(self) -> None:
        calls = [Call("list", Whole((Todo("x", "pending"),)))]
        first = catch_up(Memory(), Reading(calls, PLACE, complete=False))
        assert first.todos is not None
        assert catch_up(first.memory, Reading(calls, PLACE)).todos is None

    def test_a_hook_that_comes_after_the_reading_that_took_its_call_gives_nothing_new(self) -> None:
        begun = [Call("1", Create("a", "1")), Call("2", Update("1", "in_progress")), Call("3", Update("1", "pending"))]
        memory = catch_up(Memory(), Reading(begun, PLACE)).memory
        assert take(memory, begun[1]) == Taken(memory, None)

    def test_a_task_whose_end_is_known_does_not_come_back(self) -> None:
        ended = Call("end", Update("1", "deleted"))
        memory = Memory(calls=(Known("end", ("1 status", "1 subject")),))  # its beginning is past the bound
        assert catch_up(memory, Reading([Call("begin", Create("a", "1")), ended], PLACE)).todos is None

    def test_a_missed_task_does_not_hide_a_list_that_came_later(self) -> None:
        memory = take(Memory(), Call("list", Whole((Todo("x", "pending"),)))).memory
        missed = catch_up(memory, Reading([Call("1", Create("a", "1"))], PLACE))
        assert (missed.todos, missed.memory.tasks) == (None, (Task("1", "a"),))

    def test_a_missed_list_does_not_hide_tasks_that_changed_later(self) -> None:
        memory, _ = bring(Memory(), [Call("1", Create("a", "1")), Call("2", Update("1", "completed"))])
        read = [Call("1", Create("a", "1")), Call("list", Whole((Todo("x", "pending"),)))]
        assert list_of(catch_up(memory, Reading(read, PLACE))) == [("a", "completed")]

    def test_a_missed_list_counts_unless_a_later_one_is_known(self) -> None:
        one, two = (Call(name, Whole((Todo(name, "pending"),))) for name in ("one", "two"))
        assert list_of(catch_up(Memory(), Reading([one, two], PLACE))) == [("two", "pending")]
        known = take(Memory(), two).memory
        assert catch_up(known, Reading([one, two], PLACE)).todos is None
        assert catch_up(known, Reading([one], PLACE)).todos is None  # the file does not hold the later one yet

    def test_a_missed_call_that_can_not_be_taken_is_told_and_the_others_come_in(self) -> None:
        taken = catch_up(Memory(), Reading([Call("x", Update("9", "completed")), Call("y", Create("a", "1"))], PLACE))
        assert (list_of(taken), taken.left_out) == ([("a", "pending")], ("there is no task '9'",))

    def test_of_a_replaced_file_only_what_stands_behind_a_known_call_is_new(self) -> None:
        a, b = Call("a", Create("a", "1")), Call("b", Create("b", "2"))
        memory = catch_up(Memory(), Reading([Call("0", Create("old", "0")), a], PLACE)).memory
        # "old" is past the bound of what is remembered, and gone since.
        memory = msgspec.structs.replace(memory, tasks=memory.tasks[1:], before=("a",))
        taken = catch_up(memory, Reading([Call("0", Create("old", "0")), a, b], PLACE, lost=True))
        assert list_of(taken) == [("a", "pending"), ("b", "pending")]

    def test_a_settled_transcript_leaves_nothing_to_wait_for(self) -> None:
        memory = take(Memory(), Call("never there", Create("a", "1"))).memory
        assert catch_up(memory, Reading([], PLACE)).memory.calls == (Known("never there"),)
        assert catch_up(memory, Reading([], PLACE), settled=True).memory.calls == ()


class TestTranscripts:
    def drafts(self, name: str) -> list[Draft | Skipped]:
        return list(read_claude(read_lines(BytesIO((TRANSCRIPTS / name).read_bytes())), None))

    def lists(self, name: str) -> list[list[tuple[str, str]]]:
        written = [each for each in self.drafts(name) if isinstance(each, Draft) and each.type == "todo/write"]
        return [
            [(item["content"], item["status"]) for item in json.loads(bytes(each.data))["todos"]] for each in written
        ]

    def test_task_calls_give_the_list_that_one_counts_by_hand(self) -> None:
        assert self.lists("claude_tasks.jsonl") == [
            [("reproduce", "pending")],
            [("reproduce (#1)", "pending"), ("reproduce (#3)", "pending")],
            [("reproduce (#1)", "pending"), ("mend", "pending"), ("reproduce (#3)", "pending")],
            [("reproduce (#1)", "in_progress"), ("mend", "pending"), ("reproduce (#3)", "pending")],
            [("reproduce (#1)", "completed"), ("mend", "pending"), ("reproduce (#3)", "pending")],
            [("reproduce (#1)", "completed"), ("mend", "pending"), ("reproduce (#3)", "pending"), ("cart", "pending")],
            [("reproduce", "completed"), ("mend", "pending"), ("cart", "pending")],
            [("reproduce", "completed"), ("mend it", "in_progress"), ("cart", "pending")],
        ]

    def test_what_a_hook_needs_to_go_on_follows_each_of_them(self) -> None:
        types = [each.type for each in self.drafts("claude_tasks.jsonl") if isinstance(each, Draft)]
        written = ["todo/write", "claude/task"]
        assert types == ["session/start", "turn/start", *written * 5, "turn/start", *written * 3]

    def test_a_malformed_call_and_one_the_tool_refused_are_reported_with_their_lines(self) -> None:
        skipped = {each.line: each.reason for each in self.drafts("claude_tasks.jsonl") if isinstance(each, Skipped)}
        assert list(skipped) == [12, 14]
        assert skipped[12].startswith("TaskUpdate: Invalid enum value 'blocked'")
        assert skipped[14] == "TaskUpdate: the call was answered with an error"

    def test_todo_write_gives_the_list_that_one_counts_by_hand(self) -> None:
        assert self.lists("claude_todos.jsonl") == [
            [("reproduce", "in_progress"), ("mend", "pending")],
            [("reproduce", "completed"), ("mend", "in_progress"), ("review", "pending")],
        ]

    def test_a_subagents_file_is_a_childs(self) -> None:
        found = [each for each in self.drafts("claude_subagent.jsonl") if isinstance(each, Draft)]
        assert {each.session for each in found} == {"t-1/a7"}
        assert json.loads(bytes(found[0].data)) == {"parentSession": "t-1", "cwd": "/srv/shop"}
        assert self.lists("claude_subagent.jsonl") == [[("search", "pending")], [("search", "in_progress")]]
