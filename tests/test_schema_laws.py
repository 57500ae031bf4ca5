"""Laws of the check over any JSON value, against the contract told once more in the plainest code."""

import re
from typing import Any, TypeGuard

from hypothesis import given, settings
from hypothesis import strategies as st

from todo_write.schema import Rejected, check

SPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def stringify(text: str) -> str:
    return '"' + "".join(ESCAPES.get(c, f"\\u{ord(c):04x}" if c < " " else c) for c in text) + '"'


def trimmed(text: str) -> str:
    while text and text[0] in SPACE:
        text = text[1:]
    while text and text[-1] in SPACE:
        text = text[:-1]
    return text


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def is_index(key: str) -> bool:
    return key.isascii() and key.isdigit() and str(int(key)) == key and int(key) < 2**32 - 1


def schema_faults(sent: Any) -> list[str]:
    if not is_object(sent):
        return ['"arguments" must be an object']
    if "todos" not in sent:
        return ['missing required property "todos"']
    todos = sent["todos"]
    if not is_array(todos):
        return ['"todos" must be an array']
    return [fault for index, item in enumerate(todos) for fault in item_faults(f"todos[{index}]", item)]


def item_faults(at: str, item: Any) -> list[str]:
    if not is_object(item):
        return [f'"{at}" must be an object']
    declared = ("content", "status")
    faults = [f'missing required property "{at}.{key}"' for key in declared if key not in item]
    for key in declared:
        if key in item and not isinstance(item[key], str):
            faults.append(f'"{at}.{key}" must be a string')
        elif key == "status" and key in item and item[key] not in {"pending", "in_progress", "completed"}:
            faults.append(f'"{at}.status" must be one of ["pending","in_progress","completed"]')
    extra = [key for key in item if key not in declared]
    listed = sorted(filter(is_index, extra), key=int) + [key for key in extra if not is_index(key)]
    readable = [re.sub("[\ud800-\udfff]", "\ufffd", key) for key in listed]
    return faults + [f'"{at}.{key}" is not a declared property (additionalProperties: false)' for key in readable]


def oracle(sent: Any, *, parallel: bool) -> list[tuple[str, str]] | str:
    """The contract of the check, told once more and as plainly as possible."""
    if faults := schema_faults(sent):
        return "Error: invalid arguments: " + "; ".join(faults)
    done: list[tuple[str, str]] = []
    for item in sent["todos"]:
        content = trimmed(item["content"])
        if content == "":
            return "Error: invalid todo: `content` must be a non-empty string"
        if any("\ud800" <= character <= "\udfff" for character in content):
            return "Error: invalid todo: `content` must be well-formed Unicode"
        if content in [earlier for earlier, _ in done]:
            return f"Error: invalid todos: duplicate content {stringify(content)}"
        done.append((content, item["status"]))
    working = len([status for _, status in done if status == "in_progress"])
    if working > 1 and not parallel:
        return f"Error: invalid todos: at most one task may be in_progress (got {working})"
    return done


def answer(sent: Any, *, parallel: bool) -> list[tuple[str, str]] | str:
    """What check makes of it: pairs, or the text of the rejection. Any other exception fails the test."""
    try:
        todos = check(sent, allow_parallel_in_progress=parallel)
    except Rejected as rejected:
        return str(rejected)
    return [(todo.content, todo.status) for todo in todos]


any_text = st.text(st.characters(exclude_categories=()), max_size=6)
any_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)
# Few letters make duplicates, and what is trimmed, escaped or refused stands among them.
contents = st.text(st.sampled_from('ab "\\\n\x00\x1c\x7f\x85\u2028\ufeff\ud800'), max_size=4) | any_text
statuses = st.sampled_from(["pending", "in_progress", "completed"])
keys = st.sampled_from(["id", "0", "9", "10", "01", "4294967294", "4294967295", "__proto__"]) | any_text


def merged(parts: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    return {**parts[0], **parts[1]}


sound_items = st.fixed_dictionaries({"content": contents, "status": statuses})
broken_items: st.SearchStrategy[Any] = (
    st.fixed_dictionaries({}, optional={"content": contents | any_json, "status": statuses | any_json, "id": any_json})
    | st.tuples(st.dictionaries(keys, st.none(), max_size=5), sound_items).map(merged)
    | any_json
)


def calls(item: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"todos": st.lists(item, max_size=6)}, optional={"note": any_json})


arguments = (
    calls(sound_items) | calls(sound_items | broken_items) | st.fixed_dictionaries({"todos": any_json}) | any_json
)


@settings(max_examples=500, deadline=None)
@given(arguments, st.booleans())
def test_any_json_value_is_answered_as_the_contract_says(sent: Any, parallel: bool) -> None:
    assert answer(sent, parallel=parallel) == oracle(sent, parallel=parallel)


@settings(deadline=None)
@given(calls(sound_items), st.booleans())
def test_an_accepted_list_is_accepted_again_and_unchanged(sent: Any, parallel: bool) -> None:
    accepted = answer(sent, parallel=parallel)
    if isinstance(accepted, list):
        again = {"todos": [{"content": content, "status": status} for content, status in accepted]}
        assert answer(again, parallel=parallel) == accepted


@settings(deadline=None)
@given(arguments)
def test_what_is_accepted_with_one_in_progress_is_accepted_with_several(sent: Any) -> None:
    strict = answer(sent, parallel=False)
    if isinstance(strict, list):
        assert answer(sent, parallel=True) == strict
