"""The commands of repair, as people run them: what they print, how they end, and that a kill costs nothing."""

import json
import re
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from command import Command
from eventually import eventually
from repairs import MOUNTED, POISON, TALK, TURN, Yard, fill, write
from running import call, operator, running
from todo_projection.cli import main
from todo_projection.mandate import read_mandate
from todo_projection.wire import Wire
from todo_write.events import Keys

COMMANDS = ["verify", "rebuild", "stale", "explain", "retention", "units set", "units show", "units clear"]


@pytest.fixture
async def yard(redis: Redis, namespace: str, wire: Wire) -> Yard:
    yard = Yard(redis, namespace, wire)
    await yard.redis.hset(yard.keys.meta, mapping={"layout": 1, "partitions": 1})
    return yard


@pytest.fixture
def command(redis_url: str, namespace: str) -> Command:
    return operator(redis_url, namespace, TODO_BEAT_MS="200")


@asynccontextmanager
async def worker_at_work(command: Command) -> AsyncGenerator[None]:
    """A worker as a process, which leaves it to the command to find what is to be mended."""
    async with running(command, "worker", "--audit-rate", "0") as worker:
        await worker.says("partitions")
        yield


async def reached(yard: Yard, seq: int) -> bool:
    return (await yard.row())["pos"].endswith(f"-{seq}")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example_and_the_exit_codes(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(main, *command.split(), "--help", settings={}, patch=monkeypatch) == 0
    shown = capsys.readouterr().out
    assert "Exit codes:" in shown
    assert f"todo-projection {command}" in shown.partition("Examples:")[2]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("verify", "--all"),
        ("verify s --all", "one of the three"),
        ("verify s --remove-orphans", "needs --all"),
        ("rebuild", "--session"),
        ("rebuild --all --session s", "one of the two"),
        ("rebuild --all --partial", "needs --session"),
        ("rebuild --all --unit nope", "board, todos"),
        ("rebuild --all --rate 0", "0.1"),
        ("retention", "--keep-events"),
        ("retention --idle 30", "30d"),
        ("retention --idle 30d", "--yes"),
        ("units set todos", "board:1,todos:2"),
        ("units set todos:1,todos:2", "twice"),
        ("show s{ --at 1", "session id"),
        ("explain s{", "session id"),
    ],
)
def test_wrong_usage_is_told_with_what_is_right(
    arguments: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("/dev/null").open() as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        assert call(main, *arguments.split(), settings={}, patch=monkeypatch) == 2
    assert told in re.sub(r"\s+", " ", capsys.readouterr().err)


# --- verify


async def test_verify_says_that_all_agrees(yard: Yard, command: Command) -> None:
    for session in ("a", "b"):
        await yard.project(write("x"), session=session)
    ran = await command("verify", "--all", "--json")
    assert (ran.code, json.loads(ran.out)) == (0, {"checked": 2, "unsound": 0, "left": 0, "findings": []})
    assert (await command("verify", "--sample", "5")).code == 0
    assert (await command("verify", "a")).code == 0


async def test_verify_of_a_session_nobody_wrote_to_says_so(yard: Yard, command: Command) -> None:
    await yard.project(write("x"))
    ran = await command("verify", "s", "nobody")
    assert ran.code == 1
    assert "nobody" in ran.out
    assert "unknown" in ran.out
    assert (await command("verify", "s")).code == 0


async def test_verify_prints_the_differences_and_a_repair_mends_them(yard: Yard, command: Command) -> None:
    for session in ("a", "b", "lost"):
        await yard.project(write("x"), session=session)
    await yard.redis.hset(yard.keys.row("a"), "todos", '[{"content":"forged","status":"pending"}]')
    await yard.redis.delete(yard.keys.row("lost"))
    ran = await command("verify", "--all")
    assert ran.code == 1
    assert "forged" in ran.out
    assert "nothing points at it" in ran.out
    async with worker_at_work(command):
        ran = await command("verify", "--all", "--repair", "--json")
    assert ran.code == 0
    assert {name: json.loads(ran.out)[name] for name in ("unsound", "left")} == {"unsound": 2, "left": 0}
    await yard.assert_right("a", "b", "lost")


async def test_without_a_worker_a_repair_says_so_and_is_done_when_one_starts(yard: Yard, command: Command) -> None:
    await yard.project(write("x"))
    await yard.redis.hset(yard.keys.row("s"), "todos", "[]")
    ran = await command("verify", "s", "--repair")
    assert ran.code == 1
    assert "no worker is beating" in ran.err
    await yard.work()
    await yard.assert_right("s")


async def test_rows_without_a_log_are_removed_on_request_alone(yard: Yard, command: Command) -> None:
    await yard.project(write("x", status="in_progress"))
    await yard.project(write("x"), session="fine")
    await yard.redis.delete(yard.keys.log("s"))
    await yard.redis.zadd(yard.keys.recent(0), {"ghost": 5})
    assert (await command("verify", "--all")).code == 1
    ran = await command("verify", "--all", "--remove-orphans")
    assert ran.code == 2  # nobody can be asked
    assert await yard.redis.exists(yard.keys.row("s"))
    ran = await command("verify", "--all", "--remove-orphans", "--yes", "--json")
    assert (ran.code, json.loads(ran.out)["removed"]) == (0, 2)
    assert set(await yard.indexed("recent")) == {"fine"}
    assert await yard.indexed("working") == {}
    assert (await command("verify", "--all")).code == 0


async def test_what_stands_in_the_index_of_another_partition_is_removed(
    redis_url: str, namespace: str, redis: Redis, command: Command
) -> None:
    await fill(redis_url, namespace, "s")
    keys = Keys(namespace, 4)
    other = keys.recent((keys.partition("s") + 1) % 4)
    await redis.zadd(other, {"s": 5})
    ran = await command("verify", "--all", "--remove-orphans", "--yes")
    assert "another partition" in ran.out
    assert ran.code == 0
    assert not await redis.exists(other)


# --- rebuild


async def test_a_rebuild_waits_until_all_is_folded_again(yard: Yard, command: Command) -> None:
    for session in ("a", "b"):
        await yard.project(write("x"), session=session)
        await yard.redis.hset(yard.keys.row(session), "todos", "[]")
    async with worker_at_work(command):
        ran = await command("rebuild", "--all", "--json")
    assert ran.code == 0
    told = json.loads(ran.out)
    assert (told["asked"], told["folded"], told["failed"]) == (2, 2, {})
    await yard.assert_right("a", "b")


async def test_a_rebuild_of_a_trimmed_log_says_that_it_is_not_from_the_start(yard: Yard, command: Command) -> None:
    await yard.project(TALK, TURN, write("x"))
    assert (await command("retention", "--keep-events", "2", "--yes")).code == 0
    async with worker_at_work(command):
        ran = await command("rebuild", "--session", "s")
    assert ran.code == 0
    assert "not from the start" in ran.err
    assert (await yard.verify()).sound


async def test_a_foreign_log_is_refused_and_adopted_when_asked_to(yard: Yard, command: Command) -> None:
    await yard.project(write("a"), TURN, write("b"))
    await yard.redis.xdel(yard.keys.log("s"), (await yard.log())[0][0])
    ran = await command("rebuild", "--session", "s")
    assert ran.code == 1
    assert "--partial" in ran.err
    async with worker_at_work(command):
        ran = await command("rebuild", "--session", "s", "--partial")
    assert ran.code == 0
    assert (await yard.verify()).sound


async def test_killed_it_goes_on_where_it_was_and_all_is_folded(
    redis_url: str, namespace: str, yard: Yard, command: Command
) -> None:
    sessions = [f"s{number}" for number in range(1500)]
    for session in sessions:
        await yard.append(session, write("a"))
    await yard.work()
    for session in sessions:
        await yard.redis.hset(yard.keys.row(session), "todos", "[]")
    field = "rebuild:" + ",".join(sorted(MOUNTED))
    async with worker_at_work(command):
        async with running(command, "rebuild", "--all", "--rate", "500") as rebuild:
            await eventually(lambda: yard.redis.hexists(yard.keys.meta, field), within=30)
            rebuild.send(signal.SIGKILL)
            await rebuild.ended()
        ran = await command("rebuild", "--all", "--rate", "100000", "--json")
    assert ran.code == 0
    assert 0 < json.loads(ran.out)["resumed"] < len(sessions)
    assert "going on" in ran.err
    await yard.assert_right(*sessions)
    assert not await yard.redis.hexists(yard.keys.meta, field)


# --- stale, explain, show --at


async def test_stale_lists_marks_with_their_event_and_what_heals_them(yard: Yard, command: Command) -> None:
    assert (await command("stale")).code == 0
    await yard.project(write("a"), POISON)
    await yard.append("broken", write("a"))
    await yard.redis.set(yard.keys.row("broken"), "x")
    await yard.work()
    ran = await command("stale", "--json")
    assert ran.code == 1
    marks = {(one["sessionId"], one["unit"]): one for one in json.loads(ran.out)}
    assert set(marks) == {("s", "todos"), ("s", "board"), ("broken", "")}
    one = marks["s", "todos"]
    assert (one["seq"], one["type"], one["since"]) == (1, "todo/write", 1_000_001)
    assert "todo/write or turn/start" in one["heals"]
    assert "rename or delete" in marks["broken", ""]["heals"]
    ran = await command("stale", "s")
    assert ran.code == 1
    assert "non-empty" in ran.out
    assert "broken" not in ran.out


async def test_explain_tells_causes_what_waits_and_what_comes_next(yard: Yard, command: Command) -> None:
    (first,) = await yard.append("s", write("a"))
    await yard.work()
    await yard.append("s", TALK, TURN)
    assert len(await yard.deliver("frozen", count=1)) == 1
    ran = await command("explain", "s", "--json")
    assert ran.code == 0
    told: dict[str, Any] = json.loads(ran.out)
    cause = told["values"]["todos"]["cause"]
    assert (cause["position"], cause["type"], cause["time"]) == (first, "todo/write", 1_000_000)
    assert (told["standing"], told["waitingCount"], told["nextCount"]) == ("behind", 2, 2)
    held, unread = told["waiting"]
    assert (held["consumer"], held["delivered"], unread["consumer"]) == ("frozen", 1, None)
    assert [(one["type"], one["units"]) for one in told["next"]] == [
        ("assistant/chunk", []),
        ("turn/start", ["board", "todos"]),
    ]
    shown = (await command("explain", "s")).out
    assert "in the hands of frozen" in shown
    assert "not read yet" in shown
    assert (await command("explain", "nobody")).code == 1


async def test_explain_tells_when_a_value_was_committed_and_by_which_worker(yard: Yard, command: Command) -> None:
    await yard.append("s", write("a"))
    async with running(command, "worker") as worker:
        await eventually(lambda: yard.redis.hexists(yard.keys.row("s"), "pos"))
        (name,) = await yard.redis.hkeys(yard.keys.workers)
        seconds, _ = await yard.redis.time()
        told: dict[str, Any] = json.loads((await command("explain", "s", "--json")).out)
        await yard.append("s", ("turn/end", {"turn": 1}))  # changes what is not published
        await eventually(lambda: reached(yard, 1))
        assert f"-{worker.pid}-" in name.decode()
    committed = told["committed"]
    assert committed["worker"] == name.decode()
    assert abs(committed["time"] - seconds * 1000) < 10_000
    assert told["values"]["todos"]["committed"] == committed
    assert told["values"]["board"]["committed"] is None
    again: dict[str, Any] = json.loads((await command("explain", "s", "--json")).out)
    assert again["committed"] == committed
    assert f"by {name.decode()}" in (await command("explain", "s")).out
    await yard.redis.delete(yard.keys.workers)  # nobody knows the names of those who are gone
    assert f"by …{name.decode()[-4:]}" in (await command("explain", "s")).out


async def test_explain_reads_who_committed_it_as_older_workers_wrote_it(yard: Yard, command: Command) -> None:
    await yard.project(write("a"))
    await yard.redis.hset(yard.keys.row("s"), "by", "1796099775441 vm-3203-VIEKnoM4")
    told: dict[str, Any] = json.loads((await command("explain", "s", "--json")).out)
    assert told["committed"] == {"time": 1796099775441, "worker": "vm-3203-VIEKnoM4"}


async def test_explain_of_a_broken_row_says_so_and_ends_with_1(yard: Yard, command: Command) -> None:
    await yard.project(write("a"))
    await yard.redis.hset(yard.keys.row("s"), "pos", "nowhere")
    ran = await command("explain", "s")
    assert (ran.code, "is broken" in ran.err, "nowhere" in ran.err) == (1, True, True)
    await yard.redis.delete(yard.keys.row("s"))
    await yard.redis.set(yard.keys.row("s"), "x")
    ran = await command("explain", "s")
    assert (ran.code, "is no hash" in ran.err) == (1, True)


async def test_explain_of_a_log_of_several_epochs_has_no_next_event_until_it_is_adopted(
    yard: Yard, command: Command
) -> None:
    await yard.project(write("a"))
    fields = {"type": "todo/write", "time": 1, "op": "o", "data": '{"todos": []}'}
    await yard.redis.xadd(yard.keys.log("s"), fields, id="4000000000000-0")
    told = json.loads((await command("explain", "s", "--json")).out)
    assert (told["nextCount"], told["next"]) == (0, [])
    assert "several epochs" in told["foreign"]


async def test_show_at_folds_up_to_an_event(yard: Yard, command: Command) -> None:
    await yard.project(write("a"), TURN, write("b"))
    values = [json.loads((await command("show", "s", "--at", str(seq))).out)["values"]["todos"] for seq in range(3)]
    assert values == [[{"content": "a", "status": "pending"}], None, [{"content": "b", "status": "pending"}]]
    ran = await command("show", "s", "--at", "3")
    assert ran.code == 1
    assert "ends with 2" in ran.err
    await yard.redis.xdel(yard.keys.log("s"), (await yard.log())[0][0])
    told = json.loads((await command("show", "s", "--at", "1")).out)
    assert told["asOfSeq"] == 1
    assert (await command("show", "nobody", "--at", "0")).code == 1


# --- retention, units


async def test_retention_shows_first_and_changes_nothing(yard: Yard, command: Command) -> None:
    await yard.project(*[TALK] * 9, TURN, write("x"))
    ran = await command("retention", "--keep-events", "2", "--dry-run", "--json")
    assert (ran.code, json.loads(ran.out)) == (0, {"sessions": 1, "events": 9, "whole": 0, "stayed": {}})
    assert len(await yard.log()) == 11
    ran = await command("retention", "--idle", "1s", "--dry-run", "--json")
    assert json.loads(ran.out)["dropped"] == 0
    await yard.redis.zadd(yard.keys.recent(0), {"s": 5})
    ran = await command("retention", "--idle", "1s", "--yes", "--json")
    assert (ran.code, json.loads(ran.out)) == (0, {"idle": 1, "dropped": 1, "stayed": {}})
    assert (await command("verify", "--all")).code == 0


async def test_the_word_on_units_is_kept_shown_and_taken_back(yard: Yard, command: Command) -> None:
    assert await read_mandate(yard.wire, yard.keys) is None
    assert (await command("units", "set", "todos:1,board:1")).code == 0
    assert await read_mandate(yard.wire, yard.keys) == {"board": 1, "todos": 1}
    assert json.loads((await command("units", "show")).out) == {"mounted": MOUNTED, "set": {"board": 1, "todos": 1}}
    assert (await command("units", "clear")).code == 0
    assert json.loads((await command("units", "show")).out)["set"] is None
