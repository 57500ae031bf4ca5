"""Import into a log that holds some of it, into a store that fails, by the command, and of real recordings."""

import asyncio
import json
import tracemalloc
from pathlib import Path

import pytest
from redis.asyncio import Redis

from command import Command, Done
from proxy import Proxy
from stored import Stored
from todo_projection.embedded import free_port
from todo_write.importing import import_file
from todo_write.log import Client, SessionLog, connect
from todo_write.report import SKIPPED_SHOWN_MAX
from transcribing import (
    CLAUDE,
    HARNESS,
    SAMPLES,
    counts,
    event,
    header,
    logged,
    reasons,
    write,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "transcript.jsonl"


@pytest.fixture
def stored(redis: Redis, namespace: str) -> Stored:
    return Stored(redis, namespace, "s1")


class TestAgain:
    @pytest.mark.parametrize("path", [HARNESS, CLAUDE], ids=["harness", "claude"])
    async def test_twice_adds_nothing(self, client: Client, path: Path) -> None:
        first = await import_file(client, path)
        second = await import_file(client, path)
        assert [(s, 0, appended) for s, appended, _ in counts(first)] == counts(second)
        assert [session.refused for session in second.sessions] == [None] * len(first.sessions)

    @pytest.mark.parametrize("path", [HARNESS, CLAUDE], ids=["harness", "claude"])
    async def test_a_file_that_grows_line_by_line_ends_as_if_imported_whole(
        self, client: Client, redis: Redis, namespace: str, file: Path, path: Path
    ) -> None:
        lines = path.read_text().splitlines()
        for length in range(1, len(lines) + 1):
            report = await import_file(client, write(file, *lines[:length]))
            assert not any(session.refused for session in report.sessions)
        session = "h-1" if path == HARNESS else "c-1"
        grown = await logged(redis, namespace, session)
        await SessionLog(client, session).delete()
        await import_file(client, path)
        assert await logged(redis, namespace, session) == grown

    async def test_a_log_that_goes_on_after_the_file_is_left_alone(
        self, client: Client, file: Path, stored: Stored
    ) -> None:
        await import_file(client, write(file, header(), event("x", 1), event("x", 2)))
        report = await import_file(client, write(file, header(), event("x", 1)))
        assert (report.clean, counts(report)) == (True, [("s1", 0, 2)])
        assert await stored.contents() == [{}, 1, 2]

    @pytest.mark.parametrize(
        ("other", "why"),
        [
            (event("y", 1, time=5), "'x' stands at"),
            (event("x", 2, time=5), "other data"),
            (event("x", True, time=5), "other data"),
            (event("x", 1, time=6), "another time"),
        ],
    )
    async def test_a_file_that_differs_is_refused_with_the_line_and_nothing_is_added(
        self, client: Client, file: Path, stored: Stored, other: str, why: str
    ) -> None:
        await import_file(client, write(file, header(), event("x", 0), event("x", 1, time=5)))
        report = await import_file(client, write(file, header(), event("x", 0), "", other, event("x", 3)))
        refused = report.sessions[0].refused
        assert (report.clean, counts(report)) == (False, [("s1", 0, 2)])
        assert refused is not None
        assert refused.startswith("line 4 ")
        assert why in refused
        assert await stored.contents() == [{}, 0, 1]

    async def test_the_same_json_written_otherwise_is_no_difference(
        self, client: Client, file: Path, stored: Stored
    ) -> None:
        await SessionLog(client, "s1").append_all(
            [("session/start", {}), ("x", {"b": [1, 2.5], "a": "é"}, 5), ("x", 100)]
        )
        same = '{"type": "x", "data": {"a": "\\u00e9", "b": [1.0, 25e-1]}}'
        report = await import_file(client, write(file, header(), same, '{"type":"x","data":1e2}', event("x", 3)))
        assert (report.clean, counts(report)) == (True, [("s1", 1, 3)])
        assert (await stored.contents())[3:] == [3]

    async def test_a_time_that_the_file_does_not_give_is_not_compared(self, client: Client, file: Path) -> None:
        await SessionLog(client, "s1").append_all([("session/start", {}, 1000), ("x", 1, 2000)])
        report = await import_file(client, write(file, header(createdAt=1000), event("x", 1)))
        assert (report.clean, counts(report)) == (True, [("s1", 0, 2)])

    async def test_what_was_trimmed_off_the_log_counts_as_there(
        self, client: Client, redis: Redis, file: Path, stored: Stored
    ) -> None:
        events = [event("x", n) for n in range(5)]
        await import_file(client, write(file, header(), *events[:4]))
        await redis.xtrim(stored.log, maxlen=2, approximate=False)
        report = await import_file(client, write(file, header(), *events))
        assert (report.clean, counts(report)) == (True, [("s1", 1, 5)])
        assert [id.partition("-")[2] for id in await stored.ids()] == ["3", "4", "5"]

    async def test_a_gap_in_the_log_is_refused(self, client: Client, redis: Redis, file: Path, stored: Stored) -> None:
        await import_file(client, write(file, header(), event("x", 1), event("x", 2)))
        await redis.xdel(stored.log, (await stored.ids())[1])
        report = await import_file(client, file)
        assert "gap" in str(report.sessions[0].refused)

    async def test_of_imports_at_once_every_event_comes_in_once(
        self, redis_url: str, namespace: str, file: Path, stored: Stored
    ) -> None:
        write(file, header(), *(event("x", n) for n in range(500)))
        async with connect(redis_url, namespace=namespace) as one, connect(redis_url, namespace=namespace) as other:
            await asyncio.gather(*(import_file(client, file) for client in (one, other, one, other)))
        contents = await stored.contents()
        assert contents == [{}, *range(len(contents) - 1)]
        assert len(contents) >= 200

    async def test_a_writer_that_appends_meanwhile_stops_the_import(
        self, client: Client, proxy: Proxy, namespace: str, file: Path, stored: Stored
    ) -> None:
        write(file, header(), event("x", 1))
        held = proxy.hold_request(b"EVALSHA")
        async with connect(proxy.url, namespace=namespace) as slow:
            importing = asyncio.create_task(import_file(slow, file))
            await held.hit.wait()
            await SessionLog(client, "s1").append("y", 0)
            held.release()
            report = await importing
        assert "line 1: another writer" in str(report.sessions[0].refused)
        assert (report.clean, await stored.contents()) == (False, [0])


class TestStore:
    async def test_an_answer_that_is_lost_doubles_nothing(
        self, proxy: Proxy, namespace: str, file: Path, stored: Stored
    ) -> None:
        write(file, header(), *(event("x", n) for n in range(450)))
        lost = proxy.lose_reply(b"EVALSHA", nth=2)
        async with connect(proxy.url, namespace=namespace, append_attempt_ms=300) as client:
            report = await import_file(client, file)
        assert (lost.hit.is_set(), report.clean, counts(report)) == (True, True, [("s1", 451, 0)])
        assert await stored.contents() == [{}, *range(450)]

    async def test_when_the_store_goes_away_half_way_the_same_import_goes_on_later(
        self, proxy: Proxy, client: Client, namespace: str, file: Path, stored: Stored
    ) -> None:
        write(file, header(), *(event("x", n) for n in range(450)))
        held = proxy.hold_request(b"EVALSHA", nth=2)
        async with connect(proxy.url, namespace=namespace, append_budget_ms=500, append_attempt_ms=200) as away:
            importing = asyncio.create_task(import_file(away, file))
            await held.hit.wait()
            proxy.refuse()
            report = await importing
        assert (report.not_saved is None, counts(report)) == (False, [("s1", 200, 0)])
        report = await import_file(client, file)
        assert report.clean
        assert await stored.contents() == [{}, *range(450)]

    @pytest.mark.parametrize("before", [0, 1], ids=["appending", "comparing"])
    async def test_memory_does_not_grow_with_the_file_or_its_faults(
        self, client: Client, file: Path, before: int
    ) -> None:
        with file.open("w") as out:
            out.write(header() + "\n")
            for n in range(10_000):
                out.write(event("x", ["x" * 2000, n]) + "\n{oops " + "y" * 100 + "\n")
        for _ in range(before):
            await import_file(client, file)
        tracemalloc.start()
        report = await import_file(client, file)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes < file.stat().st_size / 2
        assert (report.skipped_count, len(report.skipped)) == (10_000, SKIPPED_SHOWN_MAX)


class TestCommand:
    @pytest.fixture
    def todo_write(self, redis_url: str, namespace: str) -> Command:
        return Command("todo-write", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)

    async def test_it_tells_what_it_did_and_ends_with_0_when_all_is_in(self, todo_write: Command) -> None:
        done = await todo_write("import", HARNESS)
        assert (done.code, done.err) == (0, "")
        assert done.out == f"{HARNESS}\n  session h-1: 8 appended, 0 already there\n"

    async def test_it_goes_on_with_the_next_file_and_ends_with_1_when_something_was_left_out(
        self, todo_write: Command, tmp_path: Path
    ) -> None:
        broken = write(tmp_path / "broken.jsonl", header(), "{oops", event("x", 1))
        done = await todo_write("import", broken, HARNESS)
        assert (done.code, done.err) == (1, "")
        assert "  session s1: 2 appended, 0 already there\n" in done.out
        assert "  line 2 skipped: not JSON" in done.out
        assert "  session h-1: 8 appended" in done.out

    async def test_json_is_the_report(self, todo_write: Command) -> None:
        done = await todo_write("import", "--json", CLAUDE, "--session", "r")
        (report,) = json.loads(done.out)
        assert done.code == 1
        assert report["file"] == str(CLAUDE)
        assert [(s["session"], s["appended"], s["already_there"]) for s in report["sessions"]] == [
            ("r", 5, 0),
            ("r/a7", 3, 0),
        ]
        assert [skipped["line"] for skipped in report["skipped"]] == [10, 12, 13, 24]

    async def test_a_file_that_is_no_transcript_is_refused_with_1(self, todo_write: Command, file: Path) -> None:
        done = await todo_write("import", write(file, "hello", "world"), HARNESS)
        assert (done.code, done.err) == (1, "")
        assert "  refused: not a file of JSON lines: line 1: " in done.out
        assert "  session h-1: 8 appended" in done.out

    async def test_a_file_that_is_not_there_is_a_usage_error(self, todo_write: Command, tmp_path: Path) -> None:
        done = await todo_write("import", tmp_path / "none")
        assert done == Done(2, "", f"Error: {tmp_path / 'none'}: there is no such file that can be read\n")

    async def test_a_bar_shows_the_progress_on_a_terminal_and_the_report_stays(self, todo_write: Command) -> None:
        shown, code = await todo_write.on_terminal("import", HARNESS)
        assert (code, "━" in shown) == (0, True)
        assert shown.rstrip().endswith("session h-1: 8 appended, 0 already there")

    async def test_without_a_store_it_ends_with_2(self, todo_write: Command) -> None:
        away = todo_write.having(TODO_REDIS_URL=f"redis://:secret@127.0.0.1:{free_port()}")
        done = await away("import", HARNESS, CLAUDE)
        assert done.code == 2
        assert "not saved" in done.out
        assert "secret" not in done.out + done.err
        assert "Traceback" not in done.err


class TestSamples:
    """Recordings of other people's agents, where they are at hand."""

    @pytest.fixture(autouse=True)
    def present(self) -> None:
        if not SAMPLES.is_dir():
            pytest.skip(f"no recorded sessions at {SAMPLES}")

    async def test_sessions_of_the_upstream_harness(self, client: Client, redis: Redis, namespace: str) -> None:
        for name in ("todo-write", "subagent"):
            path = SAMPLES / "dsh" / f"{name}.jsonl"
            report = await import_file(client, path)
            head, *events = (json.loads(line) for line in path.read_text().splitlines())
            assert (report.clean, counts(report)) == (True, [(head["id"], len(events) + 1, 0)])
            found = await logged(redis, namespace, head["id"])
            assert found[1:] == [(each["type"], head["createdAt"], each["data"]) for each in events]
            assert found[0][2].get("parentSession") == head.get("parentSession")

    async def test_a_transcript_with_odd_lines(self, client: Client, redis: Redis, namespace: str) -> None:
        report = await import_file(client, SAMPLES / "claude-code" / "edge_cases.jsonl")
        assert counts(report) == [("edge_cases", 4, 0)]
        assert list(reasons(report)) == [10, 11, 13, 14, 15, 16, 17, 18]
        found = await logged(redis, namespace, "edge_cases")
        assert [(type, data) for type, _, data in found] == [
            ("session/start", {"cwd": "/srv/project"}),
            *(("turn/start", {"turn": turn}) for turn in (1, 2, 3)),
        ]
