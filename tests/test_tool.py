"""One call: a checked list becomes one event in the session's log and one text for the model."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from redis.asyncio import Redis

from proxy import Proxy
from servers import Server
from todo_write.events import Keys, Position
from todo_write.log import Client, connect
from todo_write.schema import parameters
from todo_write.tool import Logs, Rejected, TodoWrite, execute

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "conformance" / "todo_write.jsonl").read_text(encoding="utf-8").splitlines()
]
MODES = {"parallel": True, "single": False}
BUDGET_S = 5.0
SLACK_S = 1.5


def plan(*contents: str) -> dict[str, Any]:
    return {"todos": [{"content": content, "status": "pending"} for content in contents]}


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


Logged = Callable[[str], Awaitable[list[dict[str, Any]]]]


@pytest.fixture
def logged(redis: Redis, namespace: str) -> Logged:
    """The events of a session as they stand in its stream, data as stored text."""
    keys = Keys(namespace)

    async def read(session: str) -> list[dict[str, Any]]:
        entries: Any = await redis.xrange(keys.log(session))  # typed for str and bytes alike
        return [
            {"id": id.decode(), "type": fields[b"type"].decode(), "data": fields[b"data"].decode()}
            for id, fields in entries
        ]

    return read


@pytest.fixture
def tool(client: Client) -> TodoWrite:
    return TodoWrite(client, allow_parallel_in_progress=True)


# --- recorded behaviour


@pytest.mark.every_server
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("owned", [True, False], ids=["session", "no session"])
async def test_every_recorded_call_is_answered_and_logged_as_recorded(
    client: Client, logged: Logged, mode: str, owned: bool
) -> None:
    tool = TodoWrite(client, allow_parallel_in_progress=MODES[mode])
    rows = [row for row in ROWS if (row["mode"], row["session"]) == (mode, owned)]
    assert len(rows) == 56
    for number, row in enumerate(rows):
        session = f"s{number}"
        outcome = await tool.run(row["args"], session if owned else None)
        assert (outcome.ok, outcome.text) == (row["ok"], row["text"]), row["name"]
        assert compact(outcome.result) == compact(row.get("result")), row["name"]
        events = [(event["type"], event["data"]) for event in await logged(session)]
        assert events == [(event["type"], compact(event["data"])) for event in row["logged"]], row["name"]


class HostSession:
    """A host's own log."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def append(self, type: str, data: Any) -> int:
        self.events.append((type, data))
        return len(self.events)


class AwaitedSession(HostSession):
    """The same, with an append that must be awaited."""

    async def append(self, type: str, data: Any) -> int:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().append(type, data)


def host(session: Any) -> Any:
    return SimpleNamespace(agent=SimpleNamespace(session=session))


@pytest.mark.parametrize("kind", [HostSession, AwaitedSession])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['mode']}-{row['name']}-{row['session']}")
async def test_a_host_gets_the_recorded_results_and_events(row: dict[str, Any], kind: type[HostSession]) -> None:
    session = kind()
    exec = host(session if row["session"] else None)
    result: Any = None
    text: str | None = None
    try:
        result = await execute(row["args"], exec, allow_parallel_in_progress=MODES[row["mode"]])
    except Rejected as rejected:
        text = str(rejected)
    assert compact(result) == compact(row.get("result"))
    assert text == (None if row["ok"] else row["text"])
    assert compact(session.events) == compact([[event["type"], event["data"]] for event in row["logged"]])


# --- a call


async def test_a_tool_tells_its_name_description_and_schema(client: Client) -> None:
    parallel = TodoWrite(client, allow_parallel_in_progress=True)
    single = TodoWrite(client, allow_parallel_in_progress=False)
    assert parallel.name == single.name == "todo_write"
    assert "several at once" in parallel.description
    assert "at most one" in single.description
    assert parallel.parameters == single.parameters == parameters()


async def test_the_mode_has_no_default(client: Client) -> None:
    with pytest.raises(TypeError, match="allow_parallel_in_progress"):
        TodoWrite(client)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]  that is the case
    with pytest.raises(TypeError, match="allow_parallel_in_progress"):
        await execute({}, None)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]  that is the case


async def test_call_is_the_text_of_run_and_run_tells_the_position(tool: TodoWrite, logged: Logged) -> None:
    assert await tool.call(plan("a"), "s1") == "Updated todo list: 1 pending, 0 in progress, 0 completed."
    outcome = await tool.run(plan("b", "c"), "s1")
    assert outcome.saved == "accepted"
    assert outcome.position is not None
    assert outcome.position.seq == 1
    assert [event["id"] for event in await logged("s1")] == [
        str(Position(outcome.position.epoch, 0)),
        str(outcome.position),
    ]


async def test_a_rejected_call_appends_nothing_and_says_so(tool: TodoWrite, logged: Logged) -> None:
    outcome = await tool.run(plan("a", "a"), "s1")
    assert (outcome.saved, outcome.ok, outcome.result, outcome.position) == ("rejected", False, None, None)
    assert await logged("s1") == []


async def test_five_hundred_items_are_stored_in_one_event(tool: TodoWrite, logged: Logged) -> None:
    sent = plan(*(f"step {number}" for number in range(500)))
    assert await tool.call(sent, "s1") == "Updated todo list: 500 pending, 0 in progress, 0 completed."
    assert [event["data"] for event in await logged("s1")] == [compact(sent)]


async def test_a_list_too_large_for_an_event_is_refused_with_its_size(tool: TodoWrite, logged: Logged) -> None:
    outcome = await tool.run(plan("x" * 300_000), "s1")
    assert outcome.saved == "rejected"
    assert outcome.text.startswith("Error: todo list not saved: ")
    assert "at most 262144 are allowed" in outcome.text
    assert await logged("s1") == []


@pytest.mark.parametrize(
    ("session", "reason"),
    [("", "0 bytes"), ("x" * 257, "257 bytes"), ("a\nb", "control character"), ("a{b", "brace"), ("\ud800", "Unicode")],
)
async def test_a_session_id_that_cannot_be_used_is_refused_with_the_reason(
    tool: TodoWrite, redis: Redis, namespace: str, session: str, reason: str
) -> None:
    outcome = await tool.run(plan("a"), session)
    assert outcome.saved == "rejected"
    assert outcome.text.startswith("Error: session id ")
    assert reason in outcome.text
    assert await redis.keys(f"{namespace}:*log:*") == []


async def test_the_arguments_are_checked_before_the_session(tool: TodoWrite) -> None:
    assert await tool.call({}, None) == 'Error: invalid arguments: missing required property "todos"'
    assert await tool.call({}, "a{b") == 'Error: invalid arguments: missing required property "todos"'


# --- a host


@pytest.mark.parametrize(
    "exec",
    [None, SimpleNamespace(), SimpleNamespace(agent=None), SimpleNamespace(agent=SimpleNamespace()), host(None)],
    ids=["no exec", "no agent", "agent None", "no session", "session None"],
)
async def test_a_host_call_without_a_session_is_rejected(exec: Any) -> None:
    with pytest.raises(Rejected, match=r"^Error: todo_write requires an owning agent session$"):
        await execute(plan("a"), exec, allow_parallel_in_progress=True)


async def test_what_a_hosts_append_raises_reaches_the_host() -> None:
    class Full(HostSession):
        def append(self, type: str, data: Any) -> int:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await execute(plan("a"), host(Full()), allow_parallel_in_progress=True)


async def test_a_host_that_changes_the_result_does_not_change_its_log() -> None:
    session = HostSession()
    result = await execute(plan("a"), host(session), allow_parallel_in_progress=True)
    result["todos"].clear()
    assert session.events == [("todo/write", plan("a"))]


# --- several calls


async def test_calls_of_one_session_at_once_are_stored_in_the_order_given_and_all_answered(
    tool: TodoWrite, logged: Logged
) -> None:
    plans = [plan(f"{number}") for number in range(30)]
    outcomes = await asyncio.gather(*(tool.run(sent, "s1") for sent in plans))
    assert [outcome.position and outcome.position.seq for outcome in outcomes] == list(range(30))
    assert [event["data"] for event in await logged("s1")] == [compact(sent) for sent in plans]


async def test_the_session_that_waits_for_the_store_keeps_no_other_waiting(
    server: Server, namespace: str, logged: Logged
) -> None:
    async with Proxy(server.host, server.port) as proxy, connect(proxy.url, namespace=namespace) as client:
        tool = TodoWrite(client, allow_parallel_in_progress=True)
        held = proxy.hold_request(b"slow")
        slow = asyncio.create_task(tool.call(plan("a"), "slow"))
        await held.hit.wait()
        assert (await tool.call(plan("b"), "quick")).startswith("Updated")
        assert not slow.done()
        held.release()
        assert (await slow).startswith("Updated")
    assert [event["data"] for event in await logged("slow")] == [compact(plan("a"))]


async def test_a_cancelled_call_lets_the_next_one_have_its_turn(server: Server, namespace: str, logged: Logged) -> None:
    async with Proxy(server.host, server.port) as proxy, connect(proxy.url, namespace=namespace) as client:
        tool = TodoWrite(client, allow_parallel_in_progress=True)
        held = proxy.hold_request(b"s1")
        first, cancelled, last = (asyncio.create_task(tool.call(plan(name), "s1")) for name in "abc")
        await held.hit.wait()
        cancelled.cancel()
        held.release()
        assert (await first).startswith("Updated")
        assert (await last).startswith("Updated")
        assert cancelled.cancelled()
    assert [event["data"] for event in await logged("s1")] == [compact(plan("a")), compact(plan("c"))]


async def test_idle_logs_are_kept_up_to_a_bound_and_one_in_use_is_never_dropped(client: Client) -> None:
    logs = Logs(client, idle_max=2)
    with logs.of("held") as held:
        for number in range(5):
            with logs.of(f"s{number}"):
                assert f"s{number}" in logs.busy
        assert list(logs.idle) == ["s3", "s4"]
        with logs.of("held") as again:
            assert again is held
        assert list(logs.busy) == ["held"]
    assert list(logs.idle) == ["s4", "held"]
    with logs.of("s4"):
        pass
    assert list(logs.idle) == ["held", "s4"]
    assert logs.busy == {}


# --- the store away, frozen, full


async def test_without_redis_the_model_is_told_within_the_budget_that_nothing_was_saved(
    own_server: Server, tool: TodoWrite, caplog: pytest.LogCaptureFixture
) -> None:
    own_server.kill()
    started = time.monotonic()
    with caplog.at_level(logging.WARNING):
        outcome = await tool.run(plan("a secret step"), "s1")
    assert time.monotonic() - started < BUDGET_S + SLACK_S
    assert (outcome.saved, outcome.ok, outcome.result, outcome.position) == ("not_saved", False, None, None)
    assert outcome.text.startswith("Error: todo list not saved: ")
    assert "'s1'" in caplog.text
    assert "secret" not in caplog.text
    own_server.restart()
    assert (await tool.call(plan("a"), "s1")).startswith("Updated")


async def test_a_store_that_does_not_answer_leaves_the_outcome_open_and_the_model_is_told_so(
    own_server: Server, namespace: str, logged: Logged
) -> None:
    async with connect(own_server.url, namespace=namespace, append_budget_ms=1000, append_attempt_ms=300) as client:
        tool = TodoWrite(client, allow_parallel_in_progress=True)
        await tool.call(plan("a"), "s1")
        own_server.freeze()
        outcome = await tool.run(plan("b"), "s1")
        assert outcome.saved == "not_saved"
        assert outcome.text.startswith("Error: todo list may not have been saved: ")
        own_server.thaw()
        assert (await tool.call(plan("c"), "s1")).startswith("Updated")
    data = [event["data"] for event in await logged("s1")]
    assert data in ([compact(plan(*step)) for step in steps] for steps in ("ac", "abc"))


async def test_a_full_store_is_told_as_not_saved(launch: Callable[..., Server], namespace: str) -> None:
    server = launch("--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
    async with connect(server.url, namespace=namespace, append_budget_ms=500) as client:
        outcome = await TodoWrite(client, allow_parallel_in_progress=True).run(plan("a"), "s1")
    assert outcome.saved == "not_saved"
    assert outcome.text.startswith("Error: todo list not saved: ")
    assert "maxmemory" in outcome.text


REWOUND = "the session's log lost its last events; send the whole list again"


async def test_a_log_that_went_back_is_told_once_and_the_next_call_is_saved(
    own_server: Server, redis: Redis, tool: TodoWrite, logged: Logged
) -> None:
    await tool.call(plan("a"), "s1")
    await redis.flushall()
    outcome = await tool.run(plan("b"), "s1")
    assert outcome.saved == "not_saved"
    assert outcome.text == f"Error: todo list not saved: {REWOUND}"
    assert await tool.call(plan("c"), "s1") == "Updated todo list: 1 pending, 0 in progress, 0 completed."
    assert [event["data"] for event in await logged("s1")] == [compact(plan("c"))]


async def test_a_log_that_went_back_after_a_try_without_an_answer_leaves_the_outcome_open(
    own_server: Server, redis: Redis, namespace: str
) -> None:
    async with Proxy(own_server.host, own_server.port) as proxy, connect(proxy.url, namespace=namespace) as client:
        tool = TodoWrite(client, allow_parallel_in_progress=True)
        await tool.call(plan("a"), "s1")
        await redis.flushall()
        proxy.cut_before(b"s1")
        outcome = await tool.run(plan("b"), "s1")
    assert outcome.saved == "not_saved"
    assert outcome.text == f"Error: todo list may not have been saved: {REWOUND}"


async def test_a_namespace_laid_out_otherwise_is_told_as_not_saved(
    redis: Redis, redis_url: str, namespace: str
) -> None:
    await redis.hset(Keys(namespace).meta, mapping={"layout": 1, "partitions": 16})
    async with connect(redis_url, namespace=namespace, partitions=32) as client:
        outcome = await TodoWrite(client, allow_parallel_in_progress=True).run(plan("a"), "s1")
    assert outcome.saved == "not_saved"
    assert outcome.text.startswith("Error: todo list not saved: ")
    assert "16" in outcome.text
    assert "32" in outcome.text
    assert await redis.keys(f"{namespace}:*log:*") == []


async def test_a_key_of_another_type_under_the_logs_name_is_told_and_other_sessions_go_on(
    tool: TodoWrite, redis: Redis, namespace: str
) -> None:
    await redis.set(Keys(namespace).log("s1"), "not a stream")
    outcome = await tool.run(plan("a"), "s1")
    assert outcome.saved == "not_saved"
    assert outcome.text.startswith("Error: todo list not saved: ")
    assert "WRONGTYPE" in outcome.text
    assert (await tool.call(plan("a"), "s2")).startswith("Updated")
