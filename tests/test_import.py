"""Import: which events a transcript gives, and how they meet a log that may hold some of them."""

import asyncio
import json
import tracemalloc
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from command import Command, Done
from proxy import Proxy
from stored import Stored
from todo_projection.embedded import free_port
from todo_write.claude import read_claude
from todo_write.importing import import_file
from todo_write.intake import SESSIONS_MAX
from todo_write.log import Client, SessionLog, connect
from todo_write.report import SKIPPED_SHOWN_MAX, FileReport
from todo_write.transcript import LINE_BYTES_MAX, Draft, Malformed, Skipped, compact, read_lines
from todo_write.upstream import read_upstream

TRANSCRIPTS = Path(__file__).parent / "transcripts"
HARNESS = TRANSCRIPTS / "harness.jsonl"
CLAUDE = TRANSCRIPTS / "claude.jsonl"
SAMPLES = Path(__file__).parents[2] / "shared" / "samples"

NOON = 1764504000000

Lines = list[str]


def todos(**statuses: str) -> dict[str, Any]:
    return {"todos": [{"content": content, "status": status} for content, status in statuses.items()]}


def header(**more: Any) -> str:
    return json.dumps({"type": "session", "id": "s1", **more})


def event(type: str, data: Any, **more: Any) -> str:
    return json.dumps({"type": type, "data": data, **more})


def said(kind: str, content: Any, **more: Any) -> str:
    return json.dumps({"type": kind, "sessionId": "s1", "message": {"role": kind, "content": content}, **more})


def called(id: str, list: Any, **more: Any) -> str:
    return said("assistant", [{"type": "tool_use", "id": id, "name": "TodoWrite", "input": {"todos": list}}], **more)


def answered(id: str, **more: Any) -> str:
    return said("user", [{"type": "tool_result", "tool_use_id": id, "content": "ok"}], **more)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "transcript.jsonl"


def write(path: Path, *lines: str, end: str = "\n") -> Path:
    path.write_text("\n".join(lines) + end)
    return path


@pytest.fixture
def stored(redis: Redis, namespace: str) -> Stored:
    return Stored(redis, namespace, "s1")


async def logged(redis: Redis, namespace: str, session: str) -> list[tuple[str, int, Any]]:
    entries = await Stored(redis, namespace, session).entries()
    return [(fields["type"], int(fields["time"]), json.loads(fields["data"])) for _, fields in entries]


def drafts(found: Iterator[Draft | Skipped]) -> list[tuple[str, str, Any]]:
    return [(each.session, each.type, json.loads(bytes(each.data))) for each in found if isinstance(each, Draft)]


def lines_of(*lines: str) -> Any:
    return read_lines(BytesIO("\n".join(lines).encode()))


def counts(report: FileReport) -> list[tuple[str, int, int]]:
    return [(session.session, session.appended, session.already_there) for session in report.sessions]


def reasons(report: FileReport) -> dict[int, str]:
    return {skipped.line: skipped.reason for skipped in report.skipped}


class TestSessionFiles:
    """Those of the upstream harness."""

    async def test_the_header_starts_the_session_and_every_event_follows(
        self, client: Client, redis: Redis, namespace: str
    ) -> None:
        report = await import_file(client, HARNESS)
        assert (report.kind, report.clean, counts(report)) == ("upstream", True, [("h-1", 8, 0)])
        began = 1764500000000
        assert await logged(redis, namespace, "h-1") == [
            ("session/start", began, {"parentSession": "h-0", "cwd": "/srv/shop", "label": "Checkout"}),
            ("session/title", began + 100, {"title": "Fix the checkout"}),
            ("turn/start", began, {"turn": 1}),
            ("user/message", began + 300, {"content": [{"type": "text", "text": "Fix it, bitte ✓"}], "n": 1.0}),
            ("todo/write", began + 1000, todos(reproduce="in_progress", mend="pending")),
            ("something/nobody knows", began, [1, {"b": 2, "a": None}]),
            ("todo/write", began + 2000, todos(reproduce="completed", mend="in_progress")),
            ("turn/end", began + 3000, {"turn": 1, "reason": {"kind": "completed"}}),
        ]

    async def test_data_is_stored_as_written_without_the_space_between_its_parts(
        self, client: Client, file: Path, stored: Stored
    ) -> None:
        big = '{ "n": 123456789012345678901234567890, "f": 1.50,  "s": "a  \\u00e9" }'
        await import_file(client, write(file, header(), f'{{"type": "x", "data": {big}}}'))
        (_, fields) = (await stored.entries())[1]
        assert fields["data"] == '{"n":123456789012345678901234567890,"f":1.50,"s":"a  \\u00e9"}'

    @pytest.mark.parametrize(
        ("line", "why"),
        [
            ("{oops", "not JSON"),
            ("[1]", "Expected `object`"),
            ('{"data": {}}', "`type`"),
            ('{"type": "x"}', "`data`"),
            ('{"type": "x", "data": {}, "time": "now"}', "$.time"),
            ('{"type": "x", "data": {}, "time": -1}', "since 1970"),
            ('{"type": "x", "data": "\\ud800"}', "not JSON"),
            ('{"type": "x", "data": 1e999}', "out of range"),
            ('{"type": "", "data": {}}', "event type"),
            (event("todo/write", todos(**{" a": "pending"})), "unsound"),
            (event("todo/write", {"todos": [{"content": "a", "status": "done"}]}), "unsound"),
            (event("x", "x" * 1024 * 1024), "at most"),
            (header(), "a second header"),
            (f'{{"type": "x", "data": {"[" * 100_000 + "]" * 100_000}}}', "not JSON"),
        ],
        ids=lambda value: value[:20],
    )
    async def test_a_line_that_can_not_be_an_event_is_reported_with_its_number_and_the_rest_imported(
        self, client: Client, file: Path, stored: Stored, line: str, why: str
    ) -> None:
        report = await import_file(client, write(file, header(), event("x", 1), "", line, event("x", 2)))
        assert (list(reasons(report)), report.clean) == ([4], False)
        assert why in reasons(report)[4]
        assert await stored.contents() == [{}, 1, 2]

    async def test_a_line_cut_off_at_the_end_is_reported_and_comes_in_when_it_is_whole(
        self, client: Client, file: Path, stored: Stored
    ) -> None:
        first = await import_file(client, write(file, header(), event("x", 1), '{"type":"x","da', end=""))
        assert "cut off in the middle" in reasons(first)[3]
        second = await import_file(client, write(file, header(), event("x", 1), event("x", 2), end=""))
        assert (second.clean, counts(second)) == (True, [("s1", 1, 2)])
        assert await stored.contents() == [{}, 1, 2]

    async def test_a_line_that_is_not_utf_8_is_reported(self, client: Client, file: Path, stored: Stored) -> None:
        file.write_bytes(b'{"type":"session","id":"s1"}\n{"type":"x","data":"\xff"}\n{"type":"x","data":1}\n')
        assert "UTF-8" in reasons(await import_file(client, file))[2]
        assert await stored.contents() == [{}, 1]

    async def test_a_line_too_long_to_be_held_is_reported(self, client: Client, file: Path, stored: Stored) -> None:
        report = await import_file(client, write(file, header(), "x" * (2 * LINE_BYTES_MAX), event("x", 1)))
        assert "longer than" in reasons(report)[2]
        assert await stored.contents() == [{}, 1]

    def test_windows_line_ends_blank_lines_and_a_byte_order_mark_are_no_matter(self) -> None:
        lines = read_lines(BytesIO(b'\xef\xbb\xbf{"type":"session","id":"s1"}\r\n\r\n  \r\n{"type":"x","data":1}\r\n'))
        assert drafts(read_upstream(lines, None)) == [("s1", "session/start", {}), ("s1", "x", 1)]

    async def test_events_without_a_header_need_a_session(self, client: Client, file: Path, stored: Stored) -> None:
        write(file, event("x", 1), event("x", 2))
        report = await import_file(client, file)
        assert report.refused is not None
        assert "line 1" in report.refused
        assert "--session" in report.refused
        assert await stored.contents() == []
        assert (await import_file(client, file, "s1")).clean
        assert await stored.contents() == [1, 2]


def test_json_too_deep_to_be_read_is_malformed() -> None:
    with pytest.raises(Malformed):
        compact(b"[" * 100_000 + b"]" * 100_000)


class TestOtherFiles:
    @pytest.mark.parametrize(
        ("content", "why"),
        [
            (b"", "empty"),
            (b"\n \n", "empty"),
            (b"hello\nworld\n", "not a file of JSON lines: line 1"),
            (b'{\n  "type": "session"\n}\n', "not a file of JSON lines: line 1"),
            (bytes(range(256)) * 20, "not a file of JSON lines"),
            (b'{"silly": "this"}\n', "neither session events nor a Claude Code transcript"),
            (b'{"type":"session","id":"a{b"}\n', "brace"),
        ],
        ids=["empty", "blank", "text", "document", "binary", "other", "session"],
    )
    async def test_a_file_that_is_no_transcript_is_refused_and_nothing_written(
        self, client: Client, file: Path, redis: Redis, namespace: str, content: bytes, why: str
    ) -> None:
        file.write_bytes(content)
        report = await import_file(client, file)
        refused = report.refused or report.sessions[0].refused
        assert refused is not None
        assert why in refused
        assert not report.clean
        assert await redis.keys(f"{namespace}:*") == []


class TestClaudeCode:
    async def test_prompts_become_turns_and_accepted_calls_become_writes_a_subagents_in_a_child(
        self, client: Client, redis: Redis, namespace: str
    ) -> None:
        report = await import_file(client, CLAUDE)
        assert (report.kind, counts(report)) == ("claude-code", [("c-1", 5, 0), ("c-1/a7", 3, 0)])
        at = NOON
        assert await logged(redis, namespace, "c-1") == [
            ("session/start", at + 4000, {"cwd": "/srv/shop"}),
            ("turn/start", at + 4000, {"turn": 1}),
            ("todo/write", at + 6000, todos(reproduce="in_progress", mend="pending")),
            ("turn/start", at + 15000, {"turn": 2}),
            ("todo/write", at + 20000, todos(reproduce="completed", mend="in_progress")),
        ]
        assert await logged(redis, namespace, "c-1/a7") == [
            ("session/start", at + 16000, {"parentSession": "c-1", "cwd": "/srv/shop"}),
            ("turn/start", at + 16000, {"turn": 1}),
            ("todo/write", at + 19000, todos(search="in_progress")),
        ]

    async def test_calls_that_did_not_count_are_reported_with_their_lines(self, client: Client) -> None:
        found = reasons(await import_file(client, CLAUDE))
        assert list(found) == [10, 12, 13, 24]
        assert "must be one of" in found[10]
        assert "Expected `object`" in found[12]
        assert "answered with an error" in found[13]
        assert "no answer" in found[24]

    @pytest.mark.parametrize(
        "content",
        [
            "<command-name>/clear</command-name>",
            "<local-command-stdout>x</local-command-stdout>",
            "<bash-input>ls</bash-input>",
            "Caveat: The messages below were generated by the user while running local commands.",
            "[Request interrupted by user]",
            " ",
            [],
            [{"type": "text", "text": "<system-reminder>x</system-reminder>"}],
            [{"type": "tool_result", "tool_use_id": "t", "content": "x"}, {"type": "text", "text": "and this"}],
        ],
    )
    def test_what_a_user_did_not_type_starts_no_turn(self, content: Any) -> None:
        assert drafts(read_claude(lines_of(said("user", content)), None)) == []

    @pytest.mark.parametrize("mark", ["isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"])
    def test_a_marked_line_starts_no_turn(self, mark: str) -> None:
        assert drafts(read_claude(lines_of(said("user", "text", **{mark: True})), None)) == []

    @pytest.mark.parametrize(
        "content", ["text", [{"type": "text", "text": "text"}], [{"type": "image", "source": {}}]], ids=str
    )
    def test_what_a_user_typed_or_pasted_starts_a_turn(self, content: Any) -> None:
        found = drafts(read_claude(lines_of(said("user", content)), None))
        assert found == [("s1", "session/start", {}), ("s1", "turn/start", {"turn": 1})]

    def test_a_list_the_tool_would_reject_is_no_write(self) -> None:
        twice = [{"content": "a", "status": "pending"}, {"content": "a ", "status": "pending"}]
        (found,) = read_claude(lines_of(called("t", twice), answered("t")), None)
        assert found == Skipped(1, 'TodoWrite: invalid todos: duplicate content "a"')

    def test_several_in_progress_are_accepted(self) -> None:
        both = [{"content": "a", "status": "in_progress"}, {"content": "b", "status": "in_progress"}]
        found = drafts(read_claude(lines_of(called("t", both), answered("t")), None))
        assert [type for _, type, _ in found] == ["session/start", "todo/write"]

    def test_a_call_stands_where_its_answer_does_so_that_a_growing_file_only_adds(self) -> None:
        lines = CLAUDE.read_text().splitlines()
        whole = [each for each in read_claude(lines_of(*lines), None) if isinstance(each, Draft)]
        for length in range(len(lines)):
            part = [each for each in read_claude(lines_of(*lines[:length]), None) if isinstance(each, Draft)]
            assert part == whole[: len(part)]

    def test_lines_without_a_time_take_that_of_the_line_before(self) -> None:
        lines = lines_of(said("user", "a", timestamp="2025-11-30T12:00:00.500Z"), said("user", "b", timestamp="soon"))
        found = [each for each in read_claude(lines, None) if isinstance(each, Draft)]
        assert [(each.time, each.dated) for each in found] == [
            (NOON + 500, True),
            (NOON + 500, True),
            (NOON + 500, False),
        ]

    def test_a_line_of_another_session_goes_to_that_one_and_all_to_the_one_that_was_named(self) -> None:
        lines = [said("user", "a"), said("user", "b", sessionId="s0"), said("user", "c", isSidechain=True, agentId="x")]
        assert {session for session, *_ in drafts(read_claude(lines_of(*lines), None))} == {"s1", "s0", "s1/x"}
        assert {session for session, *_ in drafts(read_claude(lines_of(*lines), "r"))} == {"r", "r/x"}

    async def test_more_sessions_than_a_file_may_hold_are_refused(self, client: Client, file: Path) -> None:
        lines = [said("user", "a", sessionId=f"s{n}") for n in range(SESSIONS_MAX + 1)]
        report = await import_file(client, write(file, *lines))
        assert f"line {SESSIONS_MAX + 1}" in str(report.refused)
        assert counts(report) == [(f"s{n}", 2, 0) for n in range(SESSIONS_MAX)]


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
