"""Hostile input to every decoder: a typed refusal or a sound value, never a crash and never half of it accepted.

The same examples each time; ``make fuzz EXAMPLES=20000`` tries more, others each time, and prints how many.
"""

import io
import os
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostile import NASTY, near, odd_bytes, values
from todo_projection.boards import parse_cursor
from todo_projection.fold import Fold
from todo_projection.frames import Frame, Rev, decode_published
from todo_projection.parameters import (
    BoardStreamParameters,
    ListParameters,
    PageParameters,
    PlanStreamParameters,
    read,
)
from todo_projection.refusal import Refusal
from todo_projection.row import CorruptRow, decode_row
from todo_projection.settings import Settings
from todo_projection.token_list import InvalidTokens, read_list
from todo_projection.tokens import Tokens
from todo_projection.unit import mounted_units
from todo_write.arguments import read_arguments
from todo_write.claude import read_claude
from todo_write.events import (
    Event,
    InvalidEvent,
    InvalidSession,
    Position,
    Unsound,
    check_session,
    decode_entry,
    encode_data,
    sound_todos,
)
from todo_write.notice import Unread, read_notice
from todo_write.request import BadLine, Call, read_request
from todo_write.schema import Rejected, check
from todo_write.tasks import Unfit
from todo_write.transcript import Draft, Refused, Skipped, read_lines
from todo_write.upstream import read_upstream

EXAMPLES = int(os.environ.get("TODO_FUZZ_EXAMPLES", "60"))
FIXED = "TODO_FUZZ_EXAMPLES" not in os.environ

fuzzed = settings(
    max_examples=EXAMPLES,
    derandomize=FIXED,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

PLAN = b'{"todos": [{"content": "build", "status": "in_progress"}]}'
LINE = b'{"id": 1, "session": "s1", "call": {"todos": []}}'
APPEND = b'{"id": "a", "session": "s1", "type": "x", "data": {"n": 1.0}}'
NOTICE = (
    b'{"hook_event_name": "PostToolUse", "session_id": "s1", "transcript_path": "/t", "cwd": "/", '
    b'"tool_name": "TodoWrite", "tool_input": {"todos": []}, "tool_response": {}, "tool_use_id": "t1"}'
)
FRAME = (
    b'{"type":"session/projection","sessionId":"s1","key":"todos","value":[],"seq":7,"epoch":1764517000000,'
    b'"rev":"3-k2J9x0aQ","stateVersion":2,"time":1764517003120}'
)
ROW = (b"1764517000000-9", b"board:1,todos:2", b"3-k2J9x0aQ", b"[]", b"1764517000000-7", b"2", b"etagetag")
TRANSCRIPTS = [path.read_bytes() for path in sorted((Path(__file__).parent / "transcripts").glob("*.jsonl"))]


@fuzzed
@given(near(PLAN))
def test_arguments_are_checked_or_refused(raw: bytes) -> None:
    try:
        todos = check(read_arguments(raw.decode("utf-8", "surrogateescape")), allow_parallel_in_progress=True)
    except Rejected:
        return
    try:
        stored = encode_data("todo/write", {"todos": todos})
    except InvalidEvent:
        return
    assert len(sound_todos(Event("todo/write", 0, 0, msgspec.Raw(stored)))) == len(todos)


@fuzzed
@given(values)
def test_arguments_of_any_json_are_checked_or_refused(value: Any) -> None:
    try:
        check(value, allow_parallel_in_progress=False)
    except Rejected:
        return


@fuzzed
@given(near(LINE, APPEND))
def test_a_line_of_serve_asks_for_something_or_is_named(raw: bytes) -> None:
    try:
        asked = read_request(raw)
    except BadLine:
        return
    if isinstance(asked, Call):
        assert asked.session is None or isinstance(asked.session, str)
    else:
        msgspec.json.decode(asked.data)  # it is stored as it stands


@fuzzed
@given(near(NOTICE))
def test_the_input_of_a_hook_is_read_or_named(raw: bytes) -> None:
    try:
        notice = read_notice(raw)
        if notice.concerns_plans and notice.hook_event_name == "PostToolUse":
            notice.call()
    except (Unread, Unfit, InvalidSession):
        return


@fuzzed
@given(near(*TRANSCRIPTS), st.sampled_from([read_claude, read_upstream]))
def test_a_transcript_gives_drafts_that_can_be_stored_or_says_why_not(raw: bytes, reader: Any) -> None:
    try:
        for found in reader(read_lines(io.BytesIO(raw)), None):
            if isinstance(found, Draft):
                encode_data(found.type, found.data)
            else:
                assert isinstance(found, Skipped)
    except (Refused, InvalidEvent, InvalidSession):
        return


@fuzzed
@given(near(FRAME))
def test_a_frame_is_one_or_none(raw: bytes) -> None:
    try:
        frame = decode_published(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if isinstance(frame, Frame):
        msgspec.json.decode(frame.value)
    try:
        assert Rev.parse(frame.rev).n >= 0
    except ValueError:
        return


@fuzzed
@given(st.lists(near(*ROW), min_size=7, max_size=7))
def test_a_row_is_read_whole_or_not_at_all(cells: list[bytes]) -> None:
    names = (b"pos", b"units", b"rev", b"todos", b"todos.at", b"todos.ver", b"etag")
    try:
        row = decode_row("s1", dict(zip(names, cells, strict=True)))
    except CorruptRow:
        return
    msgspec.json.encode(row.baseline("s1"))


@fuzzed
@given(near(b"1764517000000-0"), near(b"x", b"todo/write"), near(b"1764517000000"), near(PLAN))
def test_a_stored_event_is_one_or_unsound_and_no_unit_falls_over_it(
    id: bytes, type: bytes, time: bytes, data: bytes
) -> None:
    try:
        entry = decode_entry(id, [b"type", type, b"time", time, b"op", b"opopopop", b"data", data])
    except Unsound:
        entry = None
    kinds = ["todo/write", "turn/start", "turn/end", "session/start", "session/title"]
    for kind in kinds:
        event = Event(kind, 0, 0, msgspec.Raw(data)) if entry is None else entry.event
        for unit in mounted_units():
            fold = Fold(unit, None, -1)
            fold.take(1, msgspec.structs.replace(event, type=kind))
            msgspec.json.decode(fold.cell().value or b"null")  # what it shows is JSON, whatever it was given


@fuzzed
@given(
    near(
        b"session=s1&events=1&after=1-2", b"board=1&state=stuck&text=a&limit=5", b"beforeSeq=1&limit=2", b"cursor=1:a"
    ),
    st.sampled_from([PageParameters, ListParameters, PlanStreamParameters, BoardStreamParameters]),
)
def test_a_query_is_read_or_refused(raw: bytes, shape: Any) -> None:
    try:
        found = read(raw, shape)
    except Refusal:
        return
    assert 1 <= getattr(found, "limit", 1) <= 10_000
    for text in (getattr(found, "cursor", ""), getattr(found, "after", "")):
        for parse in (parse_cursor, Position.parse):
            try:
                parse(text)
            except ValueError:
                return


@fuzzed
@given(st.text(max_size=300) | st.sampled_from(NASTY).map(lambda nasty: f"s{nasty}1"))
def test_a_session_id_is_one_or_is_refused(text: str) -> None:
    try:
        assert check_session(text) == text
    except InvalidSession:
        return
    assert 1 <= len(text.encode()) <= 256
    assert not set(text) & set("{}\x00\n\x1b\x9b")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Tokens:
    path = tmp_path_factory.mktemp("keys") / "key"
    path.write_bytes(b"k" * 64)
    return Tokens(Settings(gateway_jwt_key_file=path))


SIGNED = jwt.encode(
    {"sub": "a", "aud": "todo-projection", "exp": 4_000_000_000, "todo": {"all": True}}, b"k" * 64, algorithm="HS256"
)


@fuzzed
@given(near(SIGNED.encode(), b"eyJhbGciOiJub25lIn0.e30."))
def test_a_token_that_is_not_the_one_signed_allows_nothing(known: Tokens, raw: bytes) -> None:
    token = raw.decode("latin-1")
    # The last character of a signature has bits that say nothing: the same bytes have several spellings.
    same = token.rstrip("=")[:-1] == SIGNED[:-1]
    assert known.grant(token) is None or same


@fuzzed
@given(near(b'{"name": "a", "sha256": "' + b"0" * 64 + b'", "all": true, "prefixes": ["a/"]}'))
def test_a_list_of_tokens_is_read_whole_or_not_at_all(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.jsonl"
    path.write_bytes(raw)
    try:
        grants = read_list(path)
    except InvalidTokens:
        return
    for digest, grant in grants.items():
        assert len(digest) == 64
        assert grant.name


@fuzzed
@given(odd_bytes)
def test_a_position_is_one_or_is_refused(raw: bytes) -> None:
    try:
        position = Position.parse(raw)
    except ValueError:
        return
    assert str(position).encode() == raw
