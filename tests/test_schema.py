"""What the check makes of a call: recorded behaviour, then case by case."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from todo_write.schema import Rejected, check

CONFORMANCE = Path(__file__).parent / "conformance"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (CONFORMANCE / "todo_write.jsonl").read_text(encoding="utf-8").splitlines()
]
MODES = {"parallel": True, "single": False}


def answer(arguments: Any, *, parallel: bool) -> list[tuple[str, str]] | str:
    """What check makes of the arguments: pairs, or the text of the rejection."""
    try:
        todos = check(arguments, allow_parallel_in_progress=parallel)
    except Rejected as rejected:
        return str(rejected)
    return [(todo.content, todo.status) for todo in todos]


def items(*contents: str, status: str = "pending") -> dict[str, Any]:
    return {"todos": [{"content": content, "status": status} for content in contents]}


def violations(arguments: Any) -> list[str]:
    text = answer(arguments, parallel=True)
    assert isinstance(text, str)
    assert text.startswith("Error: invalid arguments: ")
    return text.removeprefix("Error: invalid arguments: ").split("; ")


@pytest.mark.parametrize("row", [row for row in ROWS if row["session"]], ids=lambda row: f"{row['mode']}-{row['name']}")
def test_a_recorded_call_is_answered_as_recorded(row: dict[str, Any]) -> None:
    wanted = [(todo["content"], todo["status"]) for todo in row["result"]["todos"]] if row["ok"] else row["text"]
    assert answer(row["args"], parallel=MODES[row["mode"]]) == wanted


def test_unknown_keys_beside_todos_are_ignored() -> None:
    assert answer({"note": 1, "\ud800": 2, **items("a")}, parallel=True) == [("a", "pending")]


def test_violations_come_item_by_item_and_in_an_item_missing_wrong_undeclared() -> None:
    broken = {
        "todos": [
            "x",
            {"z": 1, "10": 1, "9": 1, "status": "doing"},
            {"content": "fine", "status": "pending"},
            {"a": 1, "status": 1, "content": 1},
        ]
    }
    assert violations(broken) == [
        '"todos[0]" must be an object',
        'missing required property "todos[1].content"',
        '"todos[1].status" must be one of ["pending","in_progress","completed"]',
        '"todos[1].9" is not a declared property (additionalProperties: false)',
        '"todos[1].10" is not a declared property (additionalProperties: false)',
        '"todos[1].z" is not a declared property (additionalProperties: false)',
        '"todos[3].content" must be a string',
        '"todos[3].status" must be a string',
        '"todos[3].a" is not a declared property (additionalProperties: false)',
    ]


def test_undeclared_keys_come_as_javascript_lists_them() -> None:
    sent = ["b", "4294967295", "02", "4294967294", "-1", "1.0", "7", "0", "a", "\u0661"]
    wanted = ["0", "7", "4294967294", "b", "4294967295", "02", "-1", "1.0", "a", "\u0661"]
    item = {**dict.fromkeys(sent), "content": "x", "status": "pending"}
    assert [line.split('"')[1] for line in violations({"todos": [item]})] == [f"todos[0].{key}" for key in wanted]


def test_a_key_stands_in_the_path_as_it_was_sent() -> None:
    item = {"content": "x", "status": "pending", "": 1, 'say "hi"\n': 1}
    assert [line.partition(" is not")[0] for line in violations({"todos": [item]})] == [
        '"todos[0]."',
        '"todos[0].say "hi"\n"',
    ]


NO_UNICODE = ("\ud800", "\udfff")


def test_keys_that_are_no_unicode_are_violations_like_any_other() -> None:
    broken = violations({"todos": [{"content": 1, "status": "pending", **dict.fromkeys(NO_UNICODE)}]})
    assert broken == [
        '"todos[0].content" must be a string',
        '"todos[0].\ufffd" is not a declared property (additionalProperties: false)',
        '"todos[0].\ufffd" is not a declared property (additionalProperties: false)',
    ]


@pytest.mark.parametrize("value", [True, False, 0, 1.5, None, [], {}, b"pending"])
def test_only_a_string_is_a_string(value: Any) -> None:
    assert violations({"todos": [{"content": value, "status": value}]}) == [
        '"todos[0].content" must be a string',
        '"todos[0].status" must be a string',
    ]


class Shouting(str):
    """Text of a template engine, say: its methods answer otherwise than those of plain text."""

    __slots__ = ()

    def __str__(self) -> str:
        return self.upper()

    def strip(self, chars: str | None = None, /) -> "Shouting":
        return Shouting(super().strip(chars).upper())


def test_a_subclass_of_str_is_taken_as_the_plain_text_it_holds() -> None:
    sent = {"todos": [{"content": Shouting(" a"), "status": Shouting("pending")}]}
    (todo,) = check(sent, allow_parallel_in_progress=True)
    assert (type(todo.content), todo.content, todo.status) == (str, "a", "pending")
    ill_formed = answer(items(Shouting("a\ud800")), parallel=True)
    assert ill_formed == "Error: invalid todo: `content` must be well-formed Unicode"


@pytest.mark.parametrize("container", [("x",), range(1), b"x"])
def test_only_a_list_is_an_array(container: Any) -> None:
    assert violations({"todos": container}) == ['"todos" must be an array']


def test_a_lone_surrogate_is_refused_after_the_empty_check_and_before_the_duplicate() -> None:
    text = "Error: invalid todo: `content` must be well-formed Unicode"
    assert answer(items("a\ud800", "a\ud800"), parallel=True) == text
    assert answer(items("\udfff"), parallel=True) == text
    assert answer(items(" ", "\ud800"), parallel=True) == "Error: invalid todo: `content` must be a non-empty string"
    assert answer(items("a", "a", "\ud800"), parallel=True) == 'Error: invalid todos: duplicate content "a"'


def test_a_schema_violation_comes_before_a_lone_surrogate() -> None:
    arguments = {"todos": [{"content": "\ud800", "status": "\ud800"}]}
    assert violations(arguments) == ['"todos[0].status" must be one of ["pending","in_progress","completed"]']


def test_a_duplicate_is_printed_as_javascript_would() -> None:
    content = 'a"\\/\b\t\n\f\r\x00\x1f\x7f\u2028é任\U0001f680'
    wanted = r'"a\"\\/\b\t\n\f\r\u0000\u001f' + '\x7f\u2028é任\U0001f680"'
    assert answer(items(content, content), parallel=True) == f"Error: invalid todos: duplicate content {wanted}"


def test_more_than_one_in_progress_is_counted_only_where_it_is_not_allowed() -> None:
    arguments = items("a", "b", "c", status="in_progress")
    assert answer(arguments, parallel=False) == "Error: invalid todos: at most one task may be in_progress (got 3)"
    assert answer(arguments, parallel=True) == [(name, "in_progress") for name in "abc"]


def test_five_hundred_items_are_a_list_like_any_other() -> None:
    contents = [f"step {number}" for number in range(500)]
    assert answer(items(*contents), parallel=False) == [(content, "pending") for content in contents]
    assert "todos[499].status" in violations({"todos": [*items(*contents[1:])["todos"], {"content": "x"}]})[0]


DEPTH = 100_000


def deep_list() -> list[Any]:
    value: list[Any] = []
    for _ in range(DEPTH):
        value = [value]
    return value


def deep_object() -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(DEPTH):
        value = {"content": value}
    return value


@pytest.mark.parametrize("deep", [deep_list, deep_object])
@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ("content", '"todos[0].content" must be a string'),
        ("status", '"todos[0].status" must be a string'),
        ("x", '"todos[0].x" is not a declared property (additionalProperties: false)'),
    ],
)
def test_no_depth_of_nesting_in_an_item_breaks_the_check(deep: Callable[[], Any], key: str, fault: str) -> None:
    assert violations({"todos": [{"content": "a", "status": "pending", key: deep()}]}) == [fault]


def test_no_depth_of_nesting_around_an_item_breaks_the_check() -> None:
    assert violations(deep_list()) == ['"arguments" must be an object']
    assert violations(deep_object()) == ['missing required property "todos"']
    assert violations({"todos": deep_list()}) == ['"todos[0]" must be an object']
    assert answer({"x": deep_object(), **items("a")}, parallel=True) == [("a", "pending")]
