"""What a model is told about the tool: every point is made, in the shape each provider wants, and nothing drifts."""

import json
import re
from pathlib import Path

import pytest

from todo_write.schema import Format, definition, description, parameters

HERE = Path(__file__).parent
CONFORMANCE = HERE / "conformance"
POINTS: dict[str, list[str]] = json.loads((CONFORMANCE / "description.json").read_text(encoding="utf-8"))
MODES = {"parallel": True, "single": False}

# One clause of the description must match all patterns of a point.
CLAIMS: dict[str, list[str]] = {
    "the whole list is sent on every call and replaces the former one; no partial or per-item edit": [
        r"whole list on every call.*replaces the former one.*no partial updates.*no per-item edits",
    ],
    "plan multi-step work and show progress: one todo per concrete step, added before starting": [
        r"plan multi-step work",
        r"show your progress",
        r"one todo per concrete step before you start",
    ],
    "mark a todo completed as soon as it is done, not in batches": [
        r"mark a todo `completed` as soon as it is done",
        r"not in batches",
    ],
    "no in_progress item only once all work is complete": [r"no todo `in_progress` only once all work is complete"],
    "skip the list for trivial one-step tasks": [r"skip the list", r"trivial one-step"],
    "what the three statuses mean: pending not started, in_progress being worked on now, completed finished": [
        r"`pending` is not started, `in_progress` is being worked on now, `completed` is finished",
    ],
    "mark every todo that is actually being worked on in_progress, several at once when work truly runs in parallel, "
    "one for sequential work": [
        r"mark every todo that is actually being worked on `in_progress`",
        r"several at once when work truly runs in parallel",
        r"one when the work is sequential",
    ],
    "while work remains at least one is in_progress": [r"while work remains.*at least one todo is `in_progress`"],
    "keep at most one todo in_progress": [r"keep at most one todo `in_progress`"],
    "while work remains exactly one is in_progress": [r"while work remains.*exactly one todo is `in_progress`"],
}


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=\.) ", text)


def stating(point: str, text: str) -> list[str]:
    return [
        sentence
        for sentence in sentences(text)
        if all(re.search(claim, sentence, re.IGNORECASE) for claim in CLAIMS[point])
    ]


def test_every_point_of_the_description_has_its_claims() -> None:
    assert set(CLAIMS) == {point for points in POINTS.values() for point in points}


@pytest.mark.parametrize(
    ("mode", "point"), [(mode, point) for mode in MODES for point in (*POINTS["both"], *POINTS[mode])]
)
def test_one_sentence_of_the_description_makes_the_point(mode: str, point: str) -> None:
    text = description(allow_parallel_in_progress=MODES[mode])
    found = stating(point, text)
    assert len(found) == 1
    assert not stating(point, text.replace(found[0], ""))


@pytest.mark.parametrize(("mode", "other"), [("parallel", "single"), ("single", "parallel")])
def test_a_mode_does_not_make_the_points_of_the_other(mode: str, other: str) -> None:
    text = description(allow_parallel_in_progress=MODES[mode])
    assert [point for point in POINTS[other] if stating(point, text)] == []


def test_the_mode_changes_one_sentence_and_nothing_else() -> None:
    parallel, single = (sentences(description(allow_parallel_in_progress=mode)) for mode in (True, False))
    assert len(parallel) == len(single)
    assert sum(one != other for one, other in zip(parallel, single, strict=True)) == 1


def test_the_schema_is_the_published_one_key_by_key_plus_descriptions() -> None:
    told, descriptions = re.subn(r', "description": "[^"]+"', "", json.dumps(parameters()))
    assert told == json.dumps(json.loads((CONFORMANCE / "schema.json").read_text(encoding="utf-8")))
    assert descriptions == 3


def test_a_caller_that_changes_its_schema_changes_nobody_elses() -> None:
    parameters()["properties"]["todos"]["items"]["required"].clear()
    assert parameters()["properties"]["todos"]["items"]["required"] == ["content", "status"]


@pytest.mark.parametrize("mode", MODES)
def test_name_description_and_schema_are_stable_byte_for_byte(mode: str) -> None:
    told = definition("mcp", allow_parallel_in_progress=MODES[mode])
    snapshot = (HERE / "snapshots" / f"todo_write.{mode}.json").read_text(encoding="utf-8")
    assert json.dumps(told, indent=2) + "\n" == snapshot


@pytest.mark.parametrize(
    ("format", "path", "schema"),
    [("openai", ["function"], "parameters"), ("anthropic", [], "input_schema"), ("mcp", [], "inputSchema")],
)
@pytest.mark.parametrize("mode", MODES)
def test_each_provider_gets_its_own_shape(format: Format, path: list[str], schema: str, mode: str) -> None:
    told = definition(format, allow_parallel_in_progress=MODES[mode])
    if format == "openai":
        assert list(told) == ["type", "function"]
        assert told["type"] == "function"
    for step in path:
        told = told[step]
    text = description(allow_parallel_in_progress=MODES[mode])
    assert told == {"name": "todo_write", "description": text, schema: parameters()}
    assert list(told) == ["name", "description", schema]


def test_json_schema_is_the_schema_of_the_arguments_alone() -> None:
    assert definition("json-schema", allow_parallel_in_progress=True) == parameters()


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'xml': allowed are json-schema, openai, anthropic, mcp"):
        definition("xml", allow_parallel_in_progress=True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  that is the case
