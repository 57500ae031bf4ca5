"""Import: which events a transcript gives."""

from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from stored import Stored
from todo_write.claude import read_claude
from todo_write.importing import import_file
from todo_write.intake import SESSIONS_MAX
from todo_write.log import Client
from todo_write.transcript import LINE_BYTES_MAX, Draft, Malformed, Skipped, compact, read_lines
from todo_write.upstream import read_upstream
from transcribing import (
    CLAUDE,
    HARNESS,
    NOON,
    answered,
    called,
    counts,
    drafts,
    event,
    header,
    lines_of,
    logged,
    reasons,
    said,
    todos,
    write,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "transcript.jsonl"


@pytest.fixture
def stored(redis: Redis, namespace: str) -> Stored:
    return Stored(redis, namespace, "s1")


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
