"""What a model is told about the tool, and the check of what it sends. Pure: nothing is read or written."""

import copy
import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Annotated, Any, Literal, TypeGuard, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, InstanceOf, ValidationError
from pydantic_core import ErrorDetails

from todo_write.events import Status, Todo, trim

NAME = "todo_write"

Format = Literal["json-schema", "openai", "anthropic", "mcp"]

_STATUSES: tuple[Status, ...] = get_args(Status)
_ONE_OF = json.dumps(_STATUSES, separators=(",", ":"))
_SURROGATE = re.compile("[\ud800-\udfff]")
_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_ARRAY_INDEX_MAX = 2**32 - 2

_PURPOSE = (
    "Keep the plan of your current work as a todo list that people can watch. Send the whole list on every call: it "
    "replaces the former one; there are no partial updates and no per-item edits. Plan multi-step work with it and "
    "show your progress: add one todo per concrete step before you start. "
)
_PARALLEL = (
    "Mark every todo that is actually being worked on `in_progress`: several at once when work truly runs in parallel "
    "(subagents, background commands), just one when the work is sequential; while work remains, at least one todo is "
    "`in_progress`. "
)
_SINGLE = "Keep at most one todo `in_progress` at any time; while work remains, exactly one todo is `in_progress`. "
_HABITS = (
    "Mark a todo `completed` as soon as it is done, one by one and not in batches. Leave no todo `in_progress` only "
    "once all work is complete. Skip the list for a trivial one-step task. What the statuses mean: `pending` is not "
    "started, `in_progress` is being worked on now, `completed` is finished."
)

# Prompt caches of model providers compare bytes: neither the order of keys nor a word may change without need.
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "todos": {
            "type": "array",
            "description": "The whole list, in order; it replaces the former one.",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "content": {
                        "type": "string",
                        "description": "The step to take, as a short instruction; no two items share one.",
                    },
                    "status": {
                        "type": "string",
                        "description": "Where the step stands: not started, being worked on now, or finished.",
                        "enum": list(_STATUSES),
                    },
                },
                "required": ["content", "status"],
            },
        },
    },
    "required": ["todos"],
}


class Rejected(ValueError):
    """The call is refused, and its ``str()`` is the whole text for the model, ``Error: …``. Only the model retries."""


def description(*, allow_parallel_in_progress: bool) -> str:
    """What the model reads about the tool; the mode changes one sentence."""
    return _PURPOSE + (_PARALLEL if allow_parallel_in_progress else _SINGLE) + _HABITS


def parameters() -> dict[str, Any]:
    """JSON Schema of the arguments, the same in both modes; a fresh copy, in a key order that never changes."""
    return copy.deepcopy(_PARAMETERS)


def definition(format: Format, *, allow_parallel_in_progress: bool) -> dict[str, Any]:
    """The tool as a provider or protocol lists it; ``json-schema`` is the schema of the arguments alone."""
    text = description(allow_parallel_in_progress=allow_parallel_in_progress)
    named: dict[str, Any] = {"name": NAME, "description": text}
    match format:
        case "json-schema":
            return parameters()
        case "openai":
            return {"type": "function", "function": {**named, "parameters": parameters()}}
        case "anthropic":
            return {**named, "input_schema": parameters()}
        case "mcp":
            return {**named, "inputSchema": parameters()}
    raise ValueError(f"format {format!r}: allowed are {', '.join(get_args(Format))}")


def check(arguments: Any, *, allow_parallel_in_progress: bool) -> list[Todo]:
    """The list a call asks for, contents trimmed; ``arguments`` is any JSON value. Raises Rejected, nothing else."""
    try:
        items = _Arguments.model_validate(arguments).todos
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        raise Rejected(f"Error: invalid arguments: {'; '.join(_violations(arguments, found))}") from None
    todos: list[Todo] = []
    seen: set[str] = set()
    for item in items:
        content = _check_content(item.content, seen)
        seen.add(content)
        todos.append(Todo(content, item.status))
    active = sum(todo.status == "in_progress" for todo in todos)
    if active > 1 and not allow_parallel_in_progress:
        raise Rejected(f"Error: invalid todos: at most one task may be in_progress (got {active})")
    return todos


def _check_content(text: str, seen: set[str]) -> str:
    content = trim(str.__str__(text))  # a subclass of str, which a Python host may pass, ends here
    if not content:
        raise Rejected("Error: invalid todo: `content` must be a non-empty string")
    if _SURROGATE.search(content):
        raise Rejected("Error: invalid todo: `content` must be well-formed Unicode")
    if content in seen:
        # With ensure_ascii off, Python escapes exactly what JSON.stringify does.
        raise Rejected(f"Error: invalid todos: duplicate content {json.dumps(content, ensure_ascii=False)}")
    return content


def _is_object(value: Any) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def _readable_keys(item: Any) -> Any:
    # pydantic gives up on an object at a key that is not well-formed and would miss its other violations.
    if not _is_object(item) or item.keys() <= _DECLARED:
        return item
    return {_printed(key): value for key, value in item.items()}


def _printed(key: Any) -> str:
    return _SURROGATE.sub("\ufffd", str(key))


class _Item(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    # Not `str`: pydantic would refuse a lone surrogate here, out of the order in which a list is checked.
    content: InstanceOf[str]
    status: Status


_DECLARED = frozenset(_Item.model_fields)


class _Arguments(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    todos: list[Annotated[_Item, BeforeValidator(_readable_keys)]]


def _violations(arguments: Any, found: Sequence[ErrorDetails]) -> Iterator[str]:
    for place, details in groupby(found, key=lambda detail: detail["loc"][:2]):
        if not place:
            yield '"arguments" must be an object'
        elif len(place) == 1:
            missing = next(details)["type"] == "missing"
            yield 'missing required property "todos"' if missing else '"todos" must be an array'
        else:
            index = int(place[1])
            yield from _item_violations(f"todos[{index}]", arguments["todos"][index], list(details))


def _item_violations(path: str, item: Any, found: Sequence[ErrorDetails]) -> Iterator[str]:
    if not _is_object(item):
        yield f'"{path}" must be an object'
        return
    for detail in found:
        if detail["type"] == "missing":
            yield f'missing required property "{path}.{detail["loc"][2]}"'
    for detail in found:
        if detail["type"] not in {"missing", "extra_forbidden"}:
            rule = f"one of {_ONE_OF}" if isinstance(detail["input"], str) else "a string"
            yield f'"{path}.{detail["loc"][2]}" must be {rule}'
    if any(detail["type"] == "extra_forbidden" for detail in found):
        undeclared = [_printed(key) for key in item if key not in _DECLARED]
        for key in sorted(undeclared, key=_javascript_rank):
            yield f'"{path}.{key}" is not a declared property (additionalProperties: false)'


def _javascript_rank(key: str) -> int:
    # Object.keys lists array indexes first, ascending; the rest keep their order, which sorted() preserves.
    is_index = _ARRAY_INDEX.fullmatch(key) is not None and int(key) <= _ARRAY_INDEX_MAX
    return int(key) if is_index else _ARRAY_INDEX_MAX + 1
