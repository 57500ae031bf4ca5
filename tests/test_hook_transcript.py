"""What a hook finds in the transcript, beside what other hooks of the session have brought."""

import json
import time
from pathlib import Path

import pytest
from redis.asyncio import Redis

from hooking import TASKS, TODOS, Bring, Log, from_transcript, todos, told, updated
from todo_write.importing import import_file
from todo_write.log import Client
from todo_write.tasks import Unfit
from todo_write.trail import BEHIND_BYTES_MAX, Trail


@pytest.fixture
def log(redis: Redis, namespace: str) -> Log:
    return Log(redis, namespace)


@pytest.fixture
def tell(client: Client) -> Bring:
    return Bring(client)


class TestTranscript:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "transcript.jsonl"

    @pytest.mark.parametrize("path", [TASKS, TODOS], ids=["tasks", "todos"])
    async def test_hooks_the_transcript_and_an_import_give_the_same_list(
        self, tell: Bring, client: Client, log: Log, path: Path
    ) -> None:
        for given in from_transcript(path):
            try:
                await tell(given | {"session_id": "hooks"})
            except Unfit:
                continue  # the tool refused it
        await tell(told("Stop", "transcript", transcript_path=str(path)))
        await import_file(client, path, "import")
        by_hand = {
            TASKS: [("reproduce", "completed"), ("mend it", "in_progress"), ("cart", "pending")],
            TODOS: [("reproduce", "completed"), ("mend", "in_progress"), ("review", "pending")],
        }[path]
        assert [await log.plan(session) for session in ("hooks", "transcript", "import")] == [by_hand] * 3

    @pytest.mark.parametrize("event", ["Stop", "UserPromptSubmit", "SessionEnd"])
    async def test_what_no_hook_brought_is_found_at_the_turns_end_or_the_next_ones_start(
        self, tell: Bring, log: Log, event: str
    ) -> None:
        await tell(told("UserPromptSubmit", "t-1"))
        lines = await tell(told(event, "t-1", transcript_path=str(TASKS)))
        assert [type for type, _ in await log("t-1")][2:4] == ["todo/write", "turn/end"]
        assert any("Invalid enum value 'blocked'" in line for line in lines)

    async def test_what_hooks_brought_is_not_written_again(self, tell: Bring, log: Log, file: Path) -> None:
        await tell(told("UserPromptSubmit", "t-1"), *from_transcript(TASKS, ["k1", "k2", "k3", "k4"]))
        before = await log("t-1")
        file.write_text("".join(TASKS.read_text().splitlines(keepends=True)[:9]))
        await tell(told("Stop", "t-1", transcript_path=str(file)))
        file.write_text(TASKS.read_text())
        await tell(told("Stop", "t-1", transcript_path=str(file)))
        after = await log("t-1")
        assert after[: len(before)] == before
        assert [type for type, _ in after[len(before) :]] == ["turn/end", "todo/write"]

    async def test_a_transcript_that_lags_behind_the_hooks_takes_nothing_back(
        self, tell: Bring, log: Log, file: Path
    ) -> None:
        await tell(told("UserPromptSubmit", "t-1"), *from_transcript(TASKS, ["k1", "k2", "k3", "k4", "k8"]))
        lines = TASKS.read_text().splitlines(keepends=True)
        for length in (7, 9):
            file.write_text("".join(lines[:length]))
            await tell(told("Stop", "t-1", transcript_path=str(file)))
        assert (await log.types("t-1"))[-1] == "turn/end"

    async def test_a_transcript_that_grows_is_read_on_wherever_it_was_cut(
        self, tell: Bring, log: Log, file: Path
    ) -> None:
        whole = TASKS.read_bytes()
        for end in [*range(500, len(whole), 487), len(whole)]:
            file.write_bytes(whole[:end])
            await tell(told("Stop", "t-1", transcript_path=str(file)))
        grown = await log("t-1")
        assert await log.plan("t-1") == [("reproduce", "completed"), ("mend it", "in_progress"), ("cart", "pending")]
        await tell(told("Stop", "t-1", transcript_path=str(file)))
        assert await log("t-1") == grown

    async def test_each_byte_is_read_once(self, tell: Bring, client: Client, file: Path) -> None:
        file.write_text(TASKS.read_text())
        first = Trail(file).read(None, until=time.monotonic() + 5)
        again = Trail(file).read(first.place, until=time.monotonic() + 5)
        assert (first.place.end, len(first.calls)) == (file.stat().st_size, 9)
        assert (again.place, list(again.calls), again.lost, again.complete) == (first.place, [], False, True)

    def test_a_reading_that_runs_out_of_time_goes_on_from_there(self, file: Path) -> None:
        file.write_text(TASKS.read_text())
        first = Trail(file).read(None, until=0)
        assert (first.place.end, list(first.calls)) == (len(TASKS.read_bytes().splitlines(keepends=True)[0]), [])
        rest = Trail(file).read(first.place, until=time.monotonic() + 5)
        assert [call.key for call in rest.calls] == ["k1", "k3", "k2", "k4", "k5", "k8", "k9", "k10", "k11"]
        assert (first.complete, rest.complete, rest.place.end) == (False, True, file.stat().st_size)

    def test_a_call_that_waits_for_its_answer_is_read_again(self, file: Path) -> None:
        lines = TASKS.read_text().splitlines(keepends=True)
        file.write_text("".join(lines[:6]))  # the answer to k2 is missing
        reading = Trail(file).read(None, until=time.monotonic() + 5)
        assert ([call.key for call in reading.calls], reading.complete) == (["k1", "k3"], False)
        assert reading.place.end == sum(len(line.encode()) for line in lines[:2])
        file.write_text("".join(lines[:7]))
        assert [call.key for call in Trail(file).read(reading.place, until=time.monotonic() + 5).calls] == ["k3", "k2"]

    def test_a_call_that_is_never_answered_does_not_hold_the_place_for_ever(self, file: Path) -> None:
        lines = TASKS.read_text().splitlines(keepends=True)
        other = json.dumps({"type": "assistant", "message": {"content": "x" * 100_000}}) + "\n"
        file.write_text(lines[1] + other * (BEHIND_BYTES_MAX // 100_000 + 1))
        assert Trail(file).read(None, until=time.monotonic() + 5).place.end == file.stat().st_size

    async def test_a_transcript_that_was_replaced_adds_only_what_is_new(
        self, tell: Bring, log: Log, file: Path
    ) -> None:
        lines = TASKS.read_text().splitlines(keepends=True)
        file.write_text("".join(lines[:17]))
        await tell(told("Stop", "t-1", transcript_path=str(file)))
        before = await log("t-1")
        file.write_text('{"type":"summary","summary":"x"}\n' + "".join(lines[3:17]))
        await tell(told("Stop", "t-1", transcript_path=str(file)))
        assert await log("t-1") == before
        with file.open("a") as more:
            more.write("".join(lines[17:]))
        await tell(told("Stop", "t-1", transcript_path=str(file)))
        assert await log.plan("t-1") == [("reproduce", "completed"), ("mend it", "in_progress"), ("cart", "pending")]

    async def test_a_transcript_that_is_not_there_or_can_not_be_read_does_not_hold_up_the_turn(
        self, tell: Bring, log: Log, tmp_path: Path
    ) -> None:
        assert await tell(told("UserPromptSubmit", transcript_path=str(tmp_path / "none.jsonl"))) == []
        (line,) = await tell(told("Stop", transcript_path=str(tmp_path)))
        assert "can't be read" in line
        assert await log.types() == ["session/start", "turn/start", "turn/end"]

    async def test_a_hook_goes_on_where_an_import_ended(self, tell: Bring, client: Client, log: Log) -> None:
        await import_file(client, TASKS)
        imported = await log("t-1")
        await tell(told("UserPromptSubmit", "t-1", transcript_path=str(TASKS)))
        await tell(updated(4, "completed", session_id="t-1"))
        added = (await log("t-1"))[len(imported) :]
        assert added == [
            ("turn/end", {"turn": 2, "reason": {"kind": "interrupted"}}),
            ("turn/start", {"turn": 3}),
            ("todo/write", todos(reproduce="completed", **{"mend it": "in_progress"}, cart="completed")),
        ]
