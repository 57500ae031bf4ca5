"""todo-write serve: one process for a host in any language, every request answered, each session in order."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from command import Command, Done
from eventually import eventually
from proxy import Proxy
from servers import Server
from stored import Stored
from todo_write.lines import LineReader, LineWriter
from todo_write.log import Client, connect
from todo_write.room import Room
from todo_write.serve import LINE_BYTES_MAX, Service
from todo_write.tool import TodoWrite

BUDGET_S = 5.0
SLACK_S = 2.0


def plan(*contents: str) -> dict[str, Any]:
    return {"todos": [{"content": content, "status": "pending"} for content in contents]}


def updated(count: int) -> str:
    return f"Updated todo list: {count} pending, 0 in progress, 0 completed."


def lines(*requests: dict[str, Any] | str) -> str:
    return "".join((request if isinstance(request, str) else json.dumps(request)) + "\n" for request in requests)


def answers(done: Done) -> list[dict[str, Any]]:
    assert done.code == 0, done
    return [json.loads(line) for line in done.out.splitlines()]


@pytest.fixture
def todo_write(redis_url: str, namespace: str) -> Command:
    return Command("todo-write", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)


@pytest.fixture
def stored(redis: Redis, namespace: str) -> Stored:
    return Stored(redis, namespace, "s1")


class Host:
    """A program that keeps one child for all its sessions."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    def ask(self, *requests: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(lines(*requests).encode())

    async def answer(self) -> dict[str, Any]:
        assert self.process.stdout
        answer: dict[str, Any] = json.loads(await asyncio.wait_for(self.process.stdout.readline(), 20))
        return answer


@pytest.fixture
async def host(todo_write: Command) -> AsyncIterator[Host]:
    async with todo_write.started("serve", "--parallel") as process:
        yield Host(process)


# --- what is asked


@pytest.mark.every_server
async def test_calls_and_events_are_stored_in_order_and_answered(todo_write: Command, stored: Stored) -> None:
    done = await todo_write(
        "serve",
        "--parallel",
        input=lines(
            {"id": 1, "session": "s1", "type": "turn/start", "data": {"turn": 1}},
            {"id": "two", "session": "s1", "call": plan("a", "b")},
            {"id": 3, "session": "s1", "call": plan("a", "a")},
            {"id": 4, "session": "s1", "type": "turn/end"},
        ),
    )
    ids = await stored.ids()
    assert answers(done) == [
        {"id": 1, "position": ids[0]},
        {"id": "two", "text": updated(2), "ok": True},
        {"id": 3, "text": 'Error: invalid todos: duplicate content "a"', "ok": False},
        {"id": 4, "position": ids[2]},
    ]
    assert done.err == ""
    assert await stored.contents() == [{"turn": 1}, plan("a", "b"), {}]


SENT: dict[str, tuple[Any, str]] = {
    "todos as a string": ({"todos": "[]"}, 'Error: invalid arguments: "todos" must be an array'),
    "todos as strings": ({"todos": ["a"]}, 'Error: invalid arguments: "todos[0]" must be an object'),
    "more keys": (
        {"todos": [{"content": "a", "status": "pending", "id": "1", "priority": "high", "activeForm": "A"}]},
        "Error: invalid arguments: "
        + "; ".join(
            f'"todos[0].{key}" is not a declared property (additionalProperties: false)'
            for key in ("id", "priority", "activeForm")
        ),
    ),
    "no status": (
        {"todos": [{"content": "a"}]},
        'Error: invalid arguments: missing required property "todos[0].status"',
    ),
    "an empty list": ({"todos": []}, updated(0)),
    "500 items": (plan(*(f"step {number}" for number in range(500))), updated(500)),
    "text": ("no object", 'Error: invalid arguments: "arguments" must be an object'),
    "null": (None, 'Error: invalid arguments: "arguments" must be an object'),
    "a lone surrogate": (plan("\ud800"), "Error: invalid todo: `content` must be well-formed Unicode"),
    "a huge number": ({"todos": 10**400}, 'Error: invalid arguments: "todos" must be an array'),
}


async def test_what_models_send_is_answered_with_the_tools_text(host: Host, redis: Redis, namespace: str) -> None:
    for name, (arguments, text) in SENT.items():
        host.ask({"id": name, "session": name, "call": arguments})
        ok = text.startswith("Updated")
        assert await host.answer() == {"id": name, "text": text, "ok": ok}
        assert await Stored(redis, namespace, name).contents() == ([arguments] if ok else [])


async def test_the_mode_is_the_one_that_was_said(todo_write: Command) -> None:
    asked = {"todos": [{"content": content, "status": "in_progress"} for content in "ab"]}
    single = await todo_write("serve", "--single", input=lines({"id": 1, "session": "s1", "call": asked}))
    assert answers(single)[0]["text"] == "Error: invalid todos: at most one task may be in_progress (got 2)"
    unsaid = await todo_write("serve", input=lines({"id": 1, "session": "s1", "call": asked}))
    assert (unsaid.code, unsaid.out) == (2, "")
    assert "--parallel or --single" in unsaid.err


async def test_a_request_that_names_no_session_gets_that_of_the_process(todo_write: Command, stored: Stored) -> None:
    asked = lines({"id": 1, "call": plan("a")}, {"id": 2, "type": "x", "data": 0})
    assert answers(await todo_write.having(TODO_SESSION="s1")("serve", "--parallel", input=asked))[0]["ok"] is True
    assert await stored.contents() == [plan("a"), 0]
    assert answers(await todo_write("serve", "--parallel", input=asked)) == [
        {"id": 1, "text": "Error: todo_write requires an owning agent session", "ok": False},
        {"id": 2, "error": "line 2: `session` is missing"},
    ]


async def test_a_line_that_asks_for_nothing_is_told_by_its_id_or_number_and_the_next_is_served(host: Host) -> None:
    either = "a request has either `call`, or `type` and `data`"
    for number, (line, place, reason) in enumerate(
        [
            ("nonsense", None, "JSON is malformed"),
            ("[]", None, "Expected `object`, got `array`"),
            ('{"session": "s1", "call": {}}', None, "missing required field `id`"),
            ('{"id": null, "session": "s1", "call": {}}', None, "Expected `int | str`, got `null` - at `$.id`"),
            ('{"id": 5, "session": 1, "call": {}}', 5, "Expected `str | null`, got `int` - at `$.session`"),
            ('{"id": "f", "session": "s1"}', "f", either),
            ('{"id": "g", "session": "s1", "data": {}}', "g", either),
            ('{"id": "h", "session": "s1", "call": {}, "type": "x", "data": {}}', "h", either),
            ('{"id": "i", "session": "s1", "type": 1, "data": {}}', "i", "Expected `str`, got `int` - at `$.type`"),
            ('{"id": "j", "type": "x", "data": {}}', "j", "`session` is missing"),
            ('{"id": "k", "session": "s1", "call": ' + "[" * 100_000, None, "recursion"),
            ("\udcff", None, "can't decode"),
            ("x" * (LINE_BYTES_MAX + 1), None, f"longer than {LINE_BYTES_MAX} bytes"),
        ],
        start=1,
    ):
        assert host.process.stdin
        host.process.stdin.write(line.encode("utf-8", "surrogateescape") + b"\n")
        answer = await host.answer()
        error = answer.pop("error")
        assert answer == ({"line": number} if place is None else {"id": place}), line[:100]
        assert error.startswith(f"line {number}: ")
        assert reason in error
    host.ask({"id": 1, "session": "s1", "call": plan()})
    assert await host.answer() == {"id": 1, "text": updated(0), "ok": True}


async def test_an_event_that_cannot_be_appended_is_told_why(host: Host, redis: Redis, stored: Stored) -> None:
    await redis.set(Stored(redis, stored.log.partition(":")[0], "taken").log, "mine")
    for session, type, data, reason in (
        ("s1", "todo/write", plan(" a"), "unsound event: todo/write at 0: todos[0].content must be non-empty"),
        ("s1", "", {}, "event type ''"),
        ("s1", "x", "x" * 1024 * 1024, "at most 1048576 are allowed"),
        ("a{b", "x", {}, "session id 'a{b': has a brace"),
        ("taken", "x", {}, "not saved: "),
    ):
        host.ask({"id": 1, "session": session, "type": type, "data": data})
        answer = await host.answer()
        assert reason in answer["error"], answer
    assert await stored.entries() == []


# --- order, and how much at once


async def test_a_session_that_waits_keeps_its_order_and_no_other_waiting(
    proxy: Proxy, todo_write: Command, stored: Stored
) -> None:
    async with todo_write.having(TODO_REDIS_URL=proxy.url).started("serve", "--parallel") as process:
        host = Host(process)
        host.ask({"id": 0, "session": "s1", "call": plan()})
        await host.answer()
        held = proxy.hold_request(b"s1")
        host.ask(
            {"id": 1, "session": "s1", "call": plan("first")},
            {"id": 2, "session": "s1", "call": {"todos": "rejected at once"}},
            {"id": 3, "session": "s1", "type": "x", "data": "third"},
            {"id": 4, "session": "other", "call": plan("other")},
        )
        await held.hit.wait()
        assert (await host.answer())["id"] == 4
        held.release()
        assert [(await host.answer())["id"] for _ in range(3)] == [1, 2, 3]
    assert await stored.contents() == [plan(), plan("first"), "third"]


async def test_two_calls_of_one_session_at_once_are_both_answered_in_order(host: Host, stored: Stored) -> None:
    host.ask(*({"id": number, "session": "s1", "call": plan(str(number))} for number in range(2)))
    assert [await host.answer() for _ in range(2)] == [
        {"id": number, "text": updated(1), "ok": True} for number in range(2)
    ]
    assert await stored.contents() == [plan("0"), plan("1")]


async def test_all_of_a_long_input_is_answered_though_nobody_reads_for_a_while(
    todo_write: Command, redis: Redis, namespace: str, tmp_path: Path
) -> None:
    count, sessions = 6000, 7
    asked = lines(*({"id": n, "session": f"s{n % sessions}", "type": "x", "data": n} for n in range(count)))
    (tmp_path / "in").write_text(asked.removesuffix("\n"))
    with (tmp_path / "in").open("rb") as source:
        async with todo_write.started("serve", "--parallel", stdin=source.fileno()) as process:
            stored = Stored(redis, namespace, "s0")
            await eventually(stored.entries, within=20)
            assert process.stdout
            out = await asyncio.wait_for(process.stdout.read(), 60)
            assert await process.wait() == 0
    told = [json.loads(line) for line in out.splitlines()]
    assert sorted(answer["id"] for answer in told) == list(range(count))
    for session in range(sessions):
        wanted = list(range(session, count, sessions))
        assert [answer["id"] for answer in told if answer["id"] % sessions == session] == wanted
        assert await Stored(redis, namespace, f"s{session}").contents() == wanted


async def test_nothing_is_begun_while_there_is_no_room(proxy: Proxy, namespace: str, redis: Redis) -> None:
    reading, writing = os.pipe()
    told, telling = os.pipe()
    async with connect(proxy.url, namespace=namespace) as client:
        tool = TodoWrite(client, allow_parallel_in_progress=True)
        reader, writer = LineReader(reading, line_bytes_max=LINE_BYTES_MAX), LineWriter(telling)
        held = [proxy.hold_request(name) for name in (b"first", b"second", b"third")]
        service = Service(tool, reader, writer, room=Room(requests_max=2))
        running = asyncio.create_task(service.run())
        names = ("first", "second", "third")
        os.write(writing, lines(*({"id": name, "session": name, "type": "x"} for name in names)).encode())
        await asyncio.gather(held[0].hit.wait(), held[1].hit.wait())
        for _ in range(10):
            await redis.ping()
        assert not held[2].hit.is_set()
        held[1].release()
        await held[2].hit.wait()
        os.close(writing)
        for fault in (held[0], held[2]):
            fault.release()
        await running
    assert service.under_way == {}
    answered = [json.loads(line)["id"] for line in os.read(told, 65536).splitlines()]
    assert answered[0] == "second"
    assert sorted(answered) == sorted(names)
    for end in (reading, told, telling):
        os.close(end)


async def test_a_bug_in_one_request_is_told_and_does_not_end_the_others(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    tool = TodoWrite(client, allow_parallel_in_progress=True)

    async def broken(arguments: Any, session: str | None) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(tool, "run", broken)
    (tmp_path / "in").write_text(lines({"id": 1, "session": "s1", "call": {}}, {"id": 2, "session": "s1", "type": "x"}))
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as out:
        reader = LineReader(source.fileno(), line_bytes_max=LINE_BYTES_MAX)
        await Service(tool, reader, LineWriter(out.fileno())).run()
    first, second = (json.loads(line) for line in (tmp_path / "out").read_text().splitlines())
    assert first == {"id": 1, "error": "not known whether it was saved, by a bug: ZeroDivisionError()"}
    assert "position" in second
    assert "ZeroDivisionError" in caplog.text


# --- ends


async def test_no_input_is_no_work(todo_write: Command) -> None:
    assert await todo_write("serve", "--parallel", input="\n  \n") == Done(0, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_when_what_it_has_read_is_answered(
    proxy: Proxy, todo_write: Command, stored: Stored, number: signal.Signals
) -> None:
    async with todo_write.having(TODO_REDIS_URL=proxy.url).started("serve", "--parallel") as process:
        host = Host(process)
        host.ask({"id": 0, "session": "s1", "call": plan()})
        await host.answer()
        held = proxy.hold_request(b"s1")
        host.ask(*({"id": n, "session": "s1", "type": "x", "data": n} for n in (1, 2)))
        await held.hit.wait()
        process.send_signal(number)
        held.release()
        assert [(await host.answer())["id"] for _ in range(2)] == [1, 2]
        assert await asyncio.wait_for(process.wait(), 10) == 0
    assert await stored.contents() == [plan(), 1, 2]


async def test_a_host_that_is_gone_does_not_undo_what_it_asked_for(host: Host, stored: Stored) -> None:
    assert host.process.stdout
    host.process.stdout._transport.close()  # type: ignore[attr-defined]  # pyright: ignore  no other way to close it
    host.ask(*({"id": n, "session": "s1", "type": "x", "data": n} for n in range(50)))
    assert host.process.stderr  # its input is still open: it could go on asking
    told = (await host.process.stderr.read()).decode()
    assert await host.process.wait() == 1
    assert told == "Error: the answers can't be written: [Errno 32] Broken pipe\n"
    assert await stored.contents() == list(range(50))


# --- the store away


async def test_without_the_store_every_request_is_told_so_within_the_budget(own_server: Server, host: Host) -> None:
    host.ask({"id": 0, "session": "s1", "call": plan()})
    await host.answer()
    own_server.kill()
    started = time.monotonic()
    host.ask({"id": 1, "session": "s1", "call": plan("a")}, {"id": 2, "session": "s2", "type": "x", "data": 0})
    told = sorted([await host.answer(), await host.answer()], key=lambda answer: answer["id"])
    assert time.monotonic() - started < BUDGET_S + SLACK_S
    assert told[0]["ok"] is False
    assert told[0]["text"].startswith("Error: todo list not saved: ")
    assert told[1]["error"].startswith("not saved: ")
    own_server.restart()
    host.ask({"id": 3, "session": "s3", "call": plan("a")})
    assert await host.answer() == {"id": 3, "text": updated(1), "ok": True}


async def test_a_request_without_an_answer_is_told_as_such(
    own_server: Server, todo_write: Command, stored: Stored
) -> None:
    short = todo_write.having(TODO_APPEND_BUDGET_MS="600", TODO_APPEND_ATTEMPT_MS="200")
    async with short.started("serve", "--parallel") as process:
        host = Host(process)
        host.ask({"id": 0, "session": "s1", "call": plan()})
        await host.answer()
        own_server.freeze()
        host.ask({"id": 1, "session": "s1", "type": "x", "data": 0})
        assert (await host.answer())["error"].startswith("may not have been saved: ")
        own_server.thaw()
        host.ask({"id": 2, "session": "s1", "type": "x", "data": 2})
        assert "position" in await host.answer()
    assert await stored.contents() in ([plan(), 0, 2], [plan(), 2])
