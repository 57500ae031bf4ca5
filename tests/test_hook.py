"""The hook of Claude Code, run as Claude Code runs it; and several of them at once."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from hooking import QUIET, SUBAGENT, TASKS, TODOS, Bring, Hook, Log, called, created, notice, todos, told, updated
from proxy import Proxy
from stored import Stored
from todo_write.hooks import bring, run_claude_code
from todo_write.log import Client, SessionLog, connect

SLACK_S = 0.5


@pytest.fixture
def log(redis: Redis, namespace: str) -> Log:
    return Log(redis, namespace)


@pytest.fixture
def hook(redis_url: str, namespace: str) -> Hook:
    return Hook(redis_url, namespace)


@pytest.fixture
def tell(client: Client) -> Bring:
    return Bring(client)


class TestProcess:
    async def test_a_session_from_its_start_to_its_end(self, hook: Hook, log: Log) -> None:
        for given in (
            told("SessionStart", source="startup"),
            told("SessionStart", source="compact"),
            told("UserPromptSubmit", prompt="go"),
            created(1, "build"),
            created(2, "test"),
            updated(1, "completed"),
            told("Stop", stop_hook_active=False),
            told("Stop", stop_hook_active=True),
            told("SessionEnd", reason="other"),
        ):
            assert await hook(given) == QUIET
        assert await log() == [
            ("session/start", {"cwd": "/srv/shop"}),
            ("turn/start", {"turn": 1}),
            ("todo/write", todos(build="pending")),
            ("todo/write", todos(build="pending", test="pending")),
            ("todo/write", todos(build="completed", test="pending")),
            ("turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
        ]

    async def test_todo_write_is_content_and_status(self, hook: Hook, log: Log) -> None:
        items = [{"content": "a", "status": "in_progress", "activeForm": "A", "id": "1", "priority": "high"}]
        assert await hook(called("TodoWrite", "t", {"todos": items}, {"oldTodos": []})) == QUIET
        assert await log() == [("session/start", {"cwd": "/srv/shop"}), ("todo/write", todos(a="in_progress"))]

    @pytest.mark.parametrize(
        ("input", "line"),
        [
            (b"", "not what Claude Code sends"),
            (b"hello", "not what Claude Code sends"),
            (b"[1]", "not what Claude Code sends"),
            (b'{"session_id": "s1"}', "hook_event_name"),
            (b'{"hook_event_name": "Stop", "session_id": 7}', "session_id"),
            (b"\xff\xfe", "not what Claude Code sends"),
            (b"[" * 100_000, "not what Claude Code sends"),
            (json.dumps(told("PreToolUse")).encode(), "'PreToolUse' is not used"),
            (json.dumps(told("Stop", "a{b}")).encode(), "brace"),
            (json.dumps(called("TodoWrite", "t", {"todos": [{"content": "a"}]})).encode(), "status"),
            (json.dumps(called("TodoWrite", "t", {"todos": "[]"})).encode(), "Expected `array`"),
            (json.dumps(called("TaskCreate", "t", {"subject": "a"}, "done")).encode(), "id of the task"),
            (json.dumps(updated(9, "completed")).encode(), "no task '9'"),
        ],
        ids=lambda value: str(value)[:40],
    )
    async def test_what_can_not_be_used_is_one_line_on_standard_error_and_writes_nothing(
        self, hook: Hook, redis: Redis, namespace: str, input: bytes, line: str
    ) -> None:
        done = await hook(input)
        assert (done.code, done.out, line in done.err, done.err.count("\n")) == (0, "", True, 1), done
        assert await redis.keys(f"{namespace}:*log:*") == []

    async def test_other_tools_are_none_of_its_business(self, hook: Hook, log: Log) -> None:
        assert await hook(called("Read", "r", {"file_path": "x"}, "y" * 1000)) == QUIET
        assert await log() == []

    def test_it_starts_without_the_library_of_commands(self) -> None:
        look = "import sys, todo_write.start, todo_write.hooks; print({'typer', 'rich'} & set(sys.modules))"
        assert subprocess.run([sys.executable, "-c", look], capture_output=True, check=True).stdout == b"set()\n"

    async def test_five_hundred_items_are_a_list(self, hook: Hook, log: Log) -> None:
        items = [{"content": f"step {n}", "status": "pending", "activeForm": "x"} for n in range(500)]
        assert await hook(called("TodoWrite", "t", {"todos": items})) == QUIET
        assert len(await log.plan() or []) == 500

    async def test_five_megabytes_are_read(self, hook: Hook, log: Log) -> None:
        big = "x" * 5_000_000
        assert await hook(created(1, "a", prompt=big) | {"more": [big[:1000]] * 10}) == QUIET
        assert await hook(called("Bash", "b", {"command": "cat"}, {"stdout": big})) == QUIET
        assert await log.plan() == [("a", "pending")]

    @pytest.mark.parametrize("how", ["silent", "refusing"])
    async def test_a_store_that_is_away_is_one_line_and_never_the_agents_matter(
        self, proxy: Proxy, namespace: str, how: str
    ) -> None:
        if how == "silent":
            proxy.hold_request(b"HMGET")
        else:
            proxy.refuse()
        done = await Hook(proxy.url, namespace)(told("UserPromptSubmit"))
        assert (done.code, done.out, done.err.count("not saved"), done.err.count("\n")) == (0, "", 1, 1)

    @pytest.mark.parametrize(("age_ms", "within_s"), [(0, 1.0), (600, 0.4), (5000, 0.4)])
    async def test_it_gives_up_when_its_process_is_a_second_old(
        self, proxy: Proxy, namespace: str, monkeypatch: pytest.MonkeyPatch, age_ms: int, within_s: float
    ) -> None:
        monkeypatch.setattr("todo_write.hooks.age_ms", lambda: age_ms)
        proxy.hold_request(b"HMGET")
        text = json.dumps(told("UserPromptSubmit")).encode()
        began = time.monotonic()
        lines = await asyncio.to_thread(run_claude_code, text, redis_url=proxy.url, namespace=namespace)
        assert lines == ["not saved: the store did not answer in time"]
        assert time.monotonic() - began < within_s + SLACK_S

    async def test_a_bad_setting_is_told_and_never_the_agents_matter(self, hook: Hook) -> None:
        hook.command = hook.command.having(TODO_REDIS_URL="redis://:secret@x/y")
        done = await hook(told("Stop"))
        assert (done.code, done.out, "TODO_REDIS_URL" in done.err, "secret" in done.err) == (0, "", True, False)

    async def test_settings_can_be_flags(self, hook: Hook, redis_url: str, namespace: str, log: Log) -> None:
        hook.command = hook.command.having(TODO_REDIS_URL="redis://127.0.0.1:1", TODO_NAMESPACE="other")
        flags = ["--redis-url", redis_url, "--namespace", namespace]
        done = await hook.command("hook", "claude-code", *flags, input=json.dumps(created(1, "a")))
        assert done == QUIET
        assert await log.plan() == [("a", "pending")]

    @pytest.mark.parametrize("arguments", [["hook"], ["hook", "x"], ["hook", "claude-code", "--nope"]], ids=str)
    async def test_a_mistake_in_the_settings_never_ends_with_the_code_that_stops_an_agent(
        self, hook: Hook, arguments: list[str]
    ) -> None:
        assert (await hook.command(*arguments)).code == 1

    async def test_processes_at_once_for_one_session_lose_and_double_nothing(self, hook: Hook, log: Log) -> None:
        await hook(told("UserPromptSubmit"))
        done = await asyncio.gather(*(hook(created(number, f"task {number}")) for number in (3, 1, 2)))
        assert done == [QUIET] * 3
        assert await log.plan() == [("task 1", "pending"), ("task 2", "pending"), ("task 3", "pending")]
        assert (await log.types()).count("todo/write") == 3


class TestAtOnce:
    async def test_every_call_lands_once_and_the_last_list_holds_them_all(
        self, redis_url: str, namespace: str, log: Log
    ) -> None:
        given = [notice(created(number, f"task {number}")) for number in range(1, 21)]
        async with connect(redis_url, namespace=namespace) as one, connect(redis_url, namespace=namespace) as other:
            until = time.monotonic() + 5
            await asyncio.gather(*(bring(one if n % 2 else other, each, until=until) for n, each in enumerate(given)))
        assert await log.plan() == [(f"task {number}", "pending") for number in range(1, 21)]
        assert [len(data["todos"]) for type, data in await log() if type == "todo/write"] == list(range(1, 21))
        assert (await log.types()).count("session/start") == 1

    async def test_one_that_was_overtaken_reads_again_and_lands_behind(
        self, proxy: Proxy, namespace: str, tell: Bring, log: Log
    ) -> None:
        await tell(created(1, "a"))
        held = proxy.hold_request(b"EVALSHA")
        async with connect(proxy.url, namespace=namespace) as slow:
            late = asyncio.create_task(bring(slow, notice(created(2, "b")), until=time.monotonic() + 5))
            await held.hit.wait()
            await tell(updated(1, "completed"))
            held.release()
            await late
        assert await log.plan() == [("a", "completed"), ("b", "pending")]

    async def test_an_answer_that_is_lost_doubles_nothing(
        self, proxy: Proxy, namespace: str, tell: Bring, log: Log
    ) -> None:
        await tell(created(1, "a"))
        lost = proxy.lose_reply(b"EVALSHA")
        async with connect(proxy.url, namespace=namespace, append_attempt_ms=300) as client:
            await bring(client, notice(created(2, "b")), until=time.monotonic() + 5)
        assert lost.hit.is_set()
        assert (await log.types()).count("todo/write") == 2

    async def test_a_log_that_was_deleted_meanwhile_begins_anew(
        self, proxy: Proxy, namespace: str, client: Client, tell: Bring, redis: Redis
    ) -> None:
        stored = Stored(redis, namespace, "s1")
        await tell(created(1, "a"))
        held = proxy.hold_request(b"EVALSHA")
        async with connect(proxy.url, namespace=namespace) as slow:
            late = asyncio.create_task(bring(slow, notice(created(2, "b")), until=time.monotonic() + 5))
            await held.hit.wait()
            await SessionLog(client, "s1").delete()
            held.release()
            await late
        left = [json.loads(fields["data"]) for _, fields in await stored.entries()]
        assert left[:2] == [{"cwd": "/srv/shop"}, todos(b="pending")]


class TestTurns:
    async def test_a_turn_nobody_ended_was_interrupted_and_the_next_numbers_on(self, tell: Bring, log: Log) -> None:
        await tell(told("UserPromptSubmit"), told("UserPromptSubmit"), told("SessionEnd"))
        await tell(told("SessionStart"), told("UserPromptSubmit"), told("StopFailure", error="overloaded"))
        assert (await log())[1:] == [
            ("turn/start", {"turn": 1}),
            ("turn/end", {"turn": 1, "reason": {"kind": "interrupted"}}),
            ("turn/start", {"turn": 2}),
            ("turn/end", {"turn": 2, "reason": {"kind": "interrupted"}}),
            ("turn/start", {"turn": 3}),
            ("turn/end", {"turn": 3, "reason": {"kind": "error"}}),
        ]

    @pytest.mark.parametrize("event", ["Stop", "SessionEnd", "StopFailure", "SubagentStop"])
    async def test_an_end_without_a_turn_writes_nothing(self, tell: Bring, log: Log, event: str) -> None:
        assert await tell(told(event, agent_id="a1" if event == "SubagentStop" else None)) == []
        assert (await log(), await log("s1/a1")) == ([], [])

    async def test_turns_of_other_writers_count(self, tell: Bring, client: Client, log: Log) -> None:
        await tell(told("UserPromptSubmit"), created(1, "a"), told("Stop"))
        other = SessionLog(client, "s1")
        assert await other.start_turn() == 2
        await other.append_all([("x", 0)] * 300)
        await tell(told("Stop"), told("UserPromptSubmit"), updated(1, "completed"))
        assert (await log())[-4:] == [
            ("x", 0),
            ("turn/end", {"turn": 2, "reason": {"kind": "completed"}}),
            ("turn/start", {"turn": 3}),
            ("todo/write", todos(a="completed")),
        ]


class TestSubagents:
    async def test_a_subagents_list_is_a_childs_and_never_touches_its_parents(self, tell: Bring, log: Log) -> None:
        child: dict[str, Any] = {"agent_id": "a7", "agent_type": "Explore"}
        await tell(
            told("UserPromptSubmit"), created(1, "a"), created(1, "b", **child), updated(1, "completed", **child)
        )
        await tell(told("SubagentStop", **child), told("Stop"))
        assert await log() == [
            ("session/start", {"cwd": "/srv/shop"}),
            ("turn/start", {"turn": 1}),
            ("todo/write", todos(a="pending")),
            ("turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
        ]
        assert await log("s1/a7") == [
            ("session/start", {"parentSession": "s1", "cwd": "/srv/shop", "label": "Explore"}),
            ("turn/start", {"turn": 1}),
            ("todo/write", todos(b="pending")),
            ("todo/write", todos(b="completed")),
            ("turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
        ]

    async def test_its_own_transcript_is_read_at_its_end(self, tell: Bring, log: Log) -> None:
        told_end = told("SubagentStop", "t-1", agent_id="a7", agent_transcript_path=str(SUBAGENT))
        await tell(told_end | {"transcript_path": str(TASKS)})
        assert await log.types("t-1/a7") == ["session/start", "turn/start", "todo/write", "turn/end"]
        assert await log.plan("t-1/a7") == [("search", "in_progress")]
        assert await log("t-1") == []

    async def test_lines_of_subagents_in_the_parents_transcript_are_a_childs_too(
        self, tell: Bring, log: Log, tmp_path: Path
    ) -> None:
        path = tmp_path / "old.jsonl"
        path.write_text(TODOS.read_text() + SUBAGENT.read_text().replace(',"agentId":"a7"', ""))
        await tell(told("Stop", "t-1", transcript_path=str(path)))
        await tell(told("SubagentStop", "t-1", transcript_path=str(path)))
        assert await log.plan("t-1") == [("reproduce", "completed"), ("mend", "in_progress"), ("review", "pending")]
        assert await log.plan("t-1/sidechain") == [("search", "in_progress")]
