"""The agent's commands, run as processes: what they print, what they store, with which code they end."""

import json
import time
from importlib.resources import files
from typing import Any

import pytest
from redis.asyncio import Redis

from command import Command, Done
from servers import Server
from stored import Stored
from todo_projection.embedded import free_port
from todo_write.arguments import read_arguments
from todo_write.schema import definition

PLAN = {"todos": [{"content": "build", "status": "in_progress"}, {"content": "ship", "status": "pending"}]}
TEXT = "Updated todo list: 1 pending, 1 in progress, 0 completed.\n"
COMMANDS = ("call", "append", "turn", "schema", "serve", "mcp", "import", "delete", "script", "demo")
WITHIN_S = 5.0


@pytest.fixture
def todo_write(redis_url: str, namespace: str) -> Command:
    return Command("todo-write", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)


@pytest.fixture
def stored(redis: Redis, namespace: str) -> Stored:
    return Stored(redis, namespace, "s1")


def nowhere() -> str:
    return f"redis://:secret@127.0.0.1:{free_port()}/0"


def is_one_line(text: str) -> bool:
    return text.count("\n") == 1 and text.endswith("\n")


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        (" \n", {}),
        ("null", None),
        ('{"a": [1, "\\ud800"]}', {"a": [1, "\ud800"]}),
        ("no json", "no json"),
        ('{"todos": []', '{"todos": []'),
        ('{"todos": NaN}', '{"todos": NaN}'),
        ("[" * 100_000, "[" * 100_000),
        ("9" * 5000, "9" * 5000),
    ],
    ids=["empty", "blank", "null", "surrogate", "text", "cut off", "NaN", "deep", "long number"],
)
def test_arguments_are_json_or_else_the_text_itself_and_nothing_is_an_empty_object(text: str, arguments: Any) -> None:
    assert read_arguments(text) == arguments


class TestCall:
    async def test_an_accepted_call_prints_the_models_text_and_stores_the_list(
        self, todo_write: Command, stored: Stored
    ) -> None:
        assert await todo_write("call", "s1", "--parallel", input=json.dumps(PLAN)) == Done(0, TEXT, "")
        assert await stored.contents() == [PLAN]

    async def test_a_rejected_call_ends_with_1_and_stores_nothing(self, todo_write: Command, stored: Stored) -> None:
        both = {"todos": [{"content": c, "status": "in_progress"} for c in "ab"]}
        done = await todo_write("call", "s1", "--single", input=json.dumps(both))
        assert done == Done(1, "Error: invalid todos: at most one task may be in_progress (got 2)\n", "")
        assert await stored.contents() == []

    @pytest.mark.parametrize(
        ("input", "text"),
        [(b"\n", 'missing required property "todos"'), (b'{"todos": "\xff', '"arguments" must be an object')],
    )
    async def test_what_the_model_sent_is_judged_by_the_tool_whatever_it_is(
        self, todo_write: Command, input: bytes, text: str
    ) -> None:
        done = await todo_write("call", "s1", "--single", input=input)
        assert done == Done(1, f"Error: invalid arguments: {text}\n", "")

    async def test_json_says_how_it_ended(self, todo_write: Command, stored: Stored) -> None:
        done = await todo_write("call", "s1", "--parallel", "--json", input=json.dumps(PLAN))
        counts = {"pending": 1, "inProgress": 1, "completed": 0}
        assert (done.code, done.err, is_one_line(done.out)) == (0, "", True)
        assert json.loads(done.out) == {
            "ok": True,
            "text": TEXT.strip(),
            "result": {**PLAN, "counts": counts},
            "position": (await stored.ids())[0],
        }

    async def test_json_says_why_it_was_rejected(self, todo_write: Command) -> None:
        done = await todo_write("call", "s1", "--parallel", "--json", input='{"todos": 1}')
        text = 'Error: invalid arguments: "todos" must be an array'
        assert done.code == 1
        assert json.loads(done.out) == {"ok": False, "text": text, "result": None, "position": None}

    async def test_text_goes_out_as_utf_8_whatever_the_locale(self, todo_write: Command) -> None:
        twice = {"todos": [{"content": "Maß ✓", "status": "pending"}] * 2}
        done = await todo_write.having(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")(
            "call", "s1", "--parallel", input=json.dumps(twice, ensure_ascii=False)
        )
        assert done.out == 'Error: invalid todos: duplicate content "Maß ✓"\n'

    @pytest.mark.parametrize(("variable", "flags", "code"), [("false", [], 1), ("false", ["--parallel"], 0)])
    async def test_the_mode_comes_from_the_variable_or_else_the_flag(
        self, todo_write: Command, variable: str, flags: list[str], code: int
    ) -> None:
        both = {"todos": [{"content": c, "status": "in_progress"} for c in "ab"]}
        configured = todo_write.having(TODO_ALLOW_PARALLEL_IN_PROGRESS=variable)
        assert (await configured("call", "s1", *flags, input=json.dumps(both))).code == code

    @pytest.mark.parametrize("command", [("call", "s1"), ("schema",)], ids=["call", "schema"])
    async def test_the_mode_has_no_default(self, todo_write: Command, command: tuple[str, ...], stored: Stored) -> None:
        done = await todo_write(*command, input=json.dumps(PLAN))
        assert (done.code, done.out, is_one_line(done.err)) == (2, "", True)
        for way in ("--parallel", "--single", "TODO_ALLOW_PARALLEL_IN_PROGRESS"):
            assert way in done.err
        assert await stored.contents() == []

    async def test_the_session_comes_from_the_variable_too(self, todo_write: Command, stored: Stored) -> None:
        done = await todo_write.having(TODO_SESSION="s1")("call", "--parallel", input=json.dumps(PLAN))
        assert (done.code, await stored.contents()) == (0, [PLAN])

    async def test_without_a_session_the_model_is_told_as_by_the_tool(self, todo_write: Command) -> None:
        done = await todo_write("call", "--parallel", input=json.dumps(PLAN))
        assert (done.code, done.out) == (1, "Error: todo_write requires an owning agent session\n")
        assert "TODO_SESSION" in done.err

    async def test_no_server_is_told_within_5_seconds(self, todo_write: Command) -> None:
        began = time.monotonic()
        done = await todo_write.having(TODO_REDIS_URL=nowhere())("call", "s1", "--parallel", input=json.dumps(PLAN))
        took_s = time.monotonic() - began
        assert done.code == 2
        assert done.out.startswith("Error: todo list not saved: ")
        assert is_one_line(done.out)
        assert done.err == ""
        assert took_s < WITHIN_S

    async def test_a_server_that_goes_silent_is_told_as_it_is(self, todo_write: Command, own_server: Server) -> None:
        own_server.freeze()
        began = time.monotonic()
        done = await todo_write("call", "s1", "--parallel", input=json.dumps(PLAN))
        assert (done.code, time.monotonic() - began < WITHIN_S) == (2, True)
        assert done.out.startswith("Error: todo list not saved: ")

    async def test_a_key_of_another_type_is_told(self, todo_write: Command, redis: Redis, stored: Stored) -> None:
        await redis.set(stored.log, "mine")
        done = await todo_write("call", "s1", "--parallel", input=json.dumps(PLAN))
        assert done.code == 2
        assert done.out.startswith("Error: todo list not saved: ")
        assert "WRONGTYPE" in done.out
        assert await redis.get(stored.log) == b"mine"


class TestAppend:
    @pytest.mark.parametrize(
        ("arguments", "input", "data"),
        [
            (('{"title":  "Maß"}',), "", {"title": "Maß"}),
            (("-",), "[1, 2]", [1, 2]),
            ((), '{"a": null}', {"a": None}),
            ((), "", {}),
        ],
        ids=["argument", "dash", "standard input", "nothing"],
    )
    async def test_it_prints_the_position_of_what_it_stored(
        self, todo_write: Command, stored: Stored, arguments: tuple[str, ...], input: str, data: Any
    ) -> None:
        done = await todo_write("append", "s1", "session/title", *arguments, input=input)
        assert done == Done(0, f"{(await stored.ids())[0]}\n", "")
        assert await stored.contents() == [data]

    @pytest.mark.parametrize(
        ("type", "data", "why"),
        [
            ("todo/write", '{"todos": [{"content": " a ", "status": "pending"}]}', "trimmed"),
            ("x", '{"a": ', "not JSON"),
            ("x", json.dumps("x" * 1024 * 1024), "at most 1048576"),
        ],
    )
    async def test_what_can_not_be_stored_is_refused_with_1(
        self, todo_write: Command, stored: Stored, type: str, data: str, why: str
    ) -> None:
        done = await todo_write("append", "s1", type, "-", input=data)
        assert (done.code, done.out, is_one_line(done.err)) == (1, "", True)
        assert why in done.err
        assert await stored.contents() == []

    @pytest.mark.parametrize(
        ("command", "session", "why"),
        [
            ("append", "", "0 bytes"),
            ("call", "a{b", "brace"),
        ],
    )
    async def test_a_session_id_that_can_not_be_used_is_refused_with_the_reason(
        self, todo_write: Command, redis: Redis, namespace: str, command: str, session: str, why: str
    ) -> None:
        more = ["--parallel"] if command == "call" else ["x", "{}"]
        done = await todo_write(command, session, *more, input=json.dumps(PLAN))
        assert (done.code, done.out) == (2, "")
        assert why in done.err
        assert "Traceback" not in done.err
        assert await redis.keys(f"{namespace}:*") == []

    async def test_not_saved_ends_with_2(self, todo_write: Command) -> None:
        done = await todo_write.having(TODO_REDIS_URL=nowhere())("append", "s1", "x", "{}")
        assert (done.code, done.out, is_one_line(done.err)) == (2, "", True)
        assert done.err.startswith("Error: not saved: ")


class TestTurn:
    async def test_turns_are_numbered_on(self, todo_write: Command, stored: Stored) -> None:
        words = [("start",), ("end",), ("start",), ("end", "--reason", "interrupted")]
        done = [await todo_write("turn", "s1", *word) for word in words]
        assert [(one.code, one.out) for one in done] == [(0, "1\n"), (0, "1\n"), (0, "2\n"), (0, "2\n")]
        assert await stored.contents() == [
            {"turn": 1},
            {"turn": 1, "reason": {"kind": "completed"}},
            {"turn": 2},
            {"turn": 2, "reason": {"kind": "interrupted"}},
        ]

    async def test_the_end_of_no_turn_is_refused(self, todo_write: Command, stored: Stored) -> None:
        done = await todo_write("turn", "s1", "end")
        assert (done.code, is_one_line(done.err), await stored.contents()) == (1, True, [])
        assert "no open turn" in done.err


class TestSchema:
    @pytest.mark.parametrize(
        ("format", "mode"),
        [("json-schema", "--single"), ("anthropic", "--parallel"), ("mcp", "--single")],
    )
    async def test_each_format_in_its_mode(self, format: Any, mode: str) -> None:
        done = await Command("todo-write")("schema", "--format", format, mode)
        expected = definition(format, allow_parallel_in_progress=mode == "--parallel")
        assert (done.code, done.err) == (0, "")
        assert json.dumps(json.loads(done.out)) == json.dumps(expected)

    async def test_another_format_is_a_usage_error_that_names_those_there_are(self) -> None:
        done = await Command("todo-write")("schema", "--format", "yaml", "--parallel")
        assert (done.code, done.out) == (2, "")
        assert "anthropic" in done.err


class TestDelete:
    async def test_yes_deletes(self, todo_write: Command, stored: Stored, redis: Redis) -> None:
        await todo_write("append", "s1", "x", "{}")
        assert await todo_write("delete", "s1", "--yes") == Done(0, "session 's1': deleted\n", "")
        assert not await redis.exists(stored.log)

    async def test_where_nobody_can_be_asked_it_deletes_nothing(self, todo_write: Command, stored: Stored) -> None:
        await todo_write("append", "s1", "x", "{}")
        done = await todo_write("delete", "s1", input="y\n")
        assert (done.code, "--yes" in done.err) == (2, True)
        assert await stored.contents() == [{}]

    @pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, 1), ("y", 0, 0)])
    async def test_on_a_terminal_it_asks(
        self, todo_write: Command, stored: Stored, answer: str, code: int, left: int
    ) -> None:
        await todo_write("append", "s1", "x", "{}")
        screen, status = await todo_write.on_terminal("delete", "s1", question="?", answer=answer)
        assert "'s1'" in screen
        assert (status, len(await stored.entries())) == (code, left)

    async def test_nothing_there_ends_with_1(self, todo_write: Command) -> None:
        done = await todo_write("delete", "s1", "--yes")
        assert (done.code, is_one_line(done.err)) == (1, True)


class TestSettings:
    @pytest.mark.parametrize(
        ("variable", "value", "allowed"),
        [
            ("TODO_PARTITIONS", "many", "1 to 1024"),
            ("TODO_REDIS_URL", "http://127.0.0.1", "redis://"),
        ],
    )
    async def test_a_malformed_one_is_named_with_its_value_and_what_is_allowed(
        self, todo_write: Command, stored: Stored, variable: str, value: str, allowed: str
    ) -> None:
        done = await todo_write.having(**{variable: value})("append", "s1", "x", "{}")
        assert (done.code, done.out, is_one_line(done.err)) == (2, "", True)
        assert all(part in done.err for part in (variable, value, allowed))
        assert await stored.contents() == []

    async def test_a_flag_overrules_the_variable(self, todo_write: Command, redis_url: str, stored: Stored) -> None:
        elsewhere = todo_write.having(TODO_REDIS_URL=nowhere(), TODO_PARTITIONS="many")
        done = await elsewhere("append", "s1", "x", "{}", "--redis-url", redis_url, "--partitions", "64")
        assert (done.code, await stored.contents()) == (0, [{}])

    async def test_other_partitions_than_stored_are_refused_with_both_numbers_and_nothing_is_written(
        self, todo_write: Command, stored: Stored
    ) -> None:
        await todo_write("append", "s1", "x", "{}")
        done = await todo_write.having(TODO_PARTITIONS="32")("append", "s1", "x", "{}")
        assert (done.code, is_one_line(done.err)) == (2, True)
        assert all(number in done.err for number in ("64", "32"))
        assert await stored.contents() == [{}]

    async def test_no_password_is_shown(self, todo_write: Command) -> None:
        away = todo_write.having(TODO_REDIS_URL=nowhere(), TODO_APPEND_BUDGET_MS="100")
        done = await away("turn", "s1", "start")
        assert done.code == 2
        assert "secret" not in done.out + done.err


@pytest.mark.parametrize("command", COMMANDS)
async def test_help_has_an_example_and_the_exit_codes_and_no_colours_without_a_terminal(command: str) -> None:
    done = await Command("todo-write")(command, "--help")
    assert (done.code, done.err) == (0, "")
    assert "Example: " in done.out
    assert "Exit codes: 0 " in done.out or command == "script"
    assert "\x1b" not in done.out


async def test_help_lists_every_command() -> None:
    done = await Command("todo-write")("--help")
    assert all(f" {command} " in done.out for command in COMMANDS)


@pytest.mark.parametrize("name", ["append", "delete"])
async def test_script_prints_what_is_sent_to_the_server(name: str) -> None:
    done = await Command("todo-write")("script", name)
    assert done == Done(0, files("todo_write").joinpath(f"{name}.lua").read_text("utf-8"), "")
