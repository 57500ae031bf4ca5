"""Who may see what through the gateway: each route, each token, and what none of them may tell of others' sessions."""

import itertools
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import pytest
from redis.asyncio import Redis

from command import Command
from granting import MINE, OTHERS, TOKENS, Guarded, bearer, guarding, write_tokens
from serving import plan, serving
from sse import Http, of
from todo_projection.access import RULES, Access, Rule, check_exposure
from todo_projection.embedded import free_port
from todo_projection.page import page_routes
from todo_projection.routes import every_route
from todo_projection.settings import InvalidSetting, Settings
from todo_projection.tokens import Tokens
from todo_write.log import Client, SessionLog

SECURITY = Path(__file__).parents[1] / "SECURITY.md"

A, B = quote(MINE, safe=""), quote(OTHERS, safe="")

# What each token gets of each route: none, one that is wrong, one that is expired, one without any claim, plans of its
# own prefix, one session with events and board, and all.
WHO = ("", "wrong", "expired", "nothing", "plans", "mine", "all")
TABLE = {
    ("GET", "/api/sessions"): (401, 401, 401, 403, 403, 200, 200),
    ("GET", f"/api/sessions/{A}"): (401, 401, 401, 404, 200, 200, 200),
    ("GET", f"/api/sessions/{B}"): (401, 401, 401, 404, 404, 404, 200),
    ("GET", f"/api/sessions/{B}?atSeq=0"): (401, 401, 401, 403, 403, 404, 200),
    ("GET", f"/api/sessions/{A}?atSeq=0"): (401, 401, 401, 403, 403, 200, 200),
    ("GET", f"/api/sessions/{B}?beforeSeq=1"): (401, 401, 401, 403, 403, 404, 200),
    ("GET", "/api/sessions/nobody"): (401, 401, 401, 404, 404, 404, 404),
    ("HEAD", "/api/stream?session=x"): (401, 401, 401, 200, 200, 200, 200),
    ("HEAD", f"/api/stream?session={A}&session={B}"): (401, 401, 401, 200, 200, 200, 200),
    ("HEAD", f"/api/stream?session={B}&events=1"): (401, 401, 401, 403, 403, 200, 200),
    ("HEAD", "/api/stream?board=1"): (401, 401, 401, 403, 403, 200, 200),
    ("GET", "/api/login"): (200,) * 7,
    ("POST", "/api/logout"): (200,) * 7,
    ("GET", "/api/openapi.json"): (200,) * 7,
    ("GET", "/livez"): (200,) * 7,
    ("GET", "/readyz"): (200,) * 7,
    ("GET", "/api/about"): (401, 401, 401, 200, 200, 200, 200),
    ("GET", "/"): (200,) * 7,
    ("GET", "/page/main.js"): (200,) * 7,
    ("GET", "/nope"): (404,) * 7,
}


@pytest.fixture
async def guarded(
    client: Client, redis: Redis, tmp_path: Path, redis_url: str, namespace: str
) -> AsyncIterator[Guarded]:
    async with guarding(client, redis, tmp_path, redis_url, namespace) as guarded:
        yield guarded


async def test_each_token_gets_what_it_allows_of_each_route(guarded: Guarded) -> None:
    found = {
        (method, path): tuple(
            [(await guarded.http.get(path, bearer(who) if who else {}, method=method)).status for who in WHO]
        )
        for method, path in TABLE
    }
    assert found == TABLE


def test_every_route_has_a_rule_and_is_in_the_table() -> None:
    parts = SimpleNamespace(access=Access(Tokens(Settings())), prefix="")
    routes: list[Any] = every_route(cast("Any", parts), page_routes())
    assert {route.path for route in routes} == set(RULES), "a new route: give it a rule in access.py, and a line above"
    asked = [path.partition("?")[0] for _, path in TABLE]
    posts = {"/api/login"}  # POST: the tests of the log-in
    for route in routes:
        assert route.path in posts or any(route.path_regex.match(path.replace("%2F", "/")) for path in asked), route


async def test_a_route_that_somebody_adds_needs_a_token(redis_url: str, namespace: str, tmp_path: Path) -> None:
    assert RULES.get("/more", Rule.TOKEN) is Rule.TOKEN
    tokens = write_tokens(tmp_path / "tokens.jsonl")
    async with serving(redis_url, namespace, gateway_tokens_file=str(tokens), more=["/more"]) as http:
        assert (await http.get("/more")).status == 401
        assert (await http.get("/more", bearer("nothing"))).status == 200


async def test_a_session_one_may_not_see_answers_as_one_nobody_wrote_to(guarded: Guarded) -> None:
    for question in ("", "?limit=5", "?atSeq=0", "?beforeSeq=1", "?atSeq=9"):
        hidden = await guarded.http.get(f"/api/sessions/{B}{question}", bearer("mine"))
        unknown = await guarded.http.get(f"/api/sessions/team-b%2F2{question}", bearer("all"))
        assert (hidden.status, unknown.status) == (404, 404)
        assert hidden.body.replace(OTHERS.encode(), b"?") == unknown.body.replace(b"team-b/2", b"?")
        assert set(hidden.headers) == set(unknown.headers)


async def test_beside_a_session_one_may_see_another_stays_as_unknown_for_ever(guarded: Guarded, client: Client) -> None:
    async with (
        guarded.http.stream(of(OTHERS, MINE), bearer("mine")) as stream,
        guarded.http.stream(of(OTHERS), bearer("all")) as witness,
    ):
        await stream.got("snapshot", 2)
        await witness.got("snapshot")
        await SessionLog(client, OTHERS).append("todo/write", plan("news"))
        await witness.got("projection")
        await SessionLog(client, MINE).append("todo/write", plan("news"))
        await stream.shows(MINE, plan("news")["todos"])
        told = {event.data["sessionId"]: event.data for event in stream.of("snapshot")}
        assert (told[OTHERS]["asOfSeq"], told[OTHERS]["epoch"], told[OTHERS]["values"]) == (-1, None, {})
        assert {event.data["sessionId"] for event in stream.of("projection")} == {MINE}


async def test_going_on_in_a_log_one_may_not_see_tells_what_it_tells_of_none(guarded: Guarded) -> None:
    place = {"last-event-id": "1764517000000-1"}
    async with (
        guarded.http.stream(of(OTHERS, events=1), {**bearer("mine"), **place}) as hidden,
        guarded.http.stream(of("team-b/2", events=1), {**bearer("all"), **place}) as unknown,
    ):
        for stream in (hidden, unknown):
            await stream.got("rewound")
            await stream.got("status")
        shown = [
            [str(event).replace(OTHERS, "?").replace("team-b/2", "?") for event in stream.of("snapshot", "rewound")]
            for stream in (hidden, unknown)
        ]
        assert sorted(shown[0]) == sorted(shown[1])


async def test_a_board_and_its_counts_hold_what_one_may_see(guarded: Guarded) -> None:
    for query in ("", "?text=secret", f"?text={B}", "?sort=longest"):
        page = await guarded.http.get(f"/api/sessions{query}", bearer("mine"))
        assert OTHERS not in page.body.decode()
        assert sum(page.json["counts"].values()) <= 1
    all_of_them = (await guarded.http.get("/api/sessions", bearer("all"))).json
    assert {entry["sessionId"] for entry in all_of_them["sessions"]} == {MINE, OTHERS}
    async with guarded.http.stream("board=1", bearer("mine")) as board:
        assert (await board.got("row")).data["sessionId"] == MINE
        await board.got("counts")
        assert {event.data["sessionId"] for event in board.of("row")} == {MINE}
        assert sum(board.of("counts")[-1].data.values()) == 1


async def test_without_the_claim_for_events_a_page_has_none(guarded: Guarded) -> None:
    page = (await guarded.http.get(f"/api/sessions/{A}", bearer("plans"))).json
    assert (page["events"], page["hasMore"]) == ([], False)
    assert page["projections"]["values"]["todos"]


LIKE_MINE = [
    *("team-a/1 ", " team-a/1", "TEAM-A/1", "team-a/1/", "team-a//1", "team-a%2F1", "team-a/%31", "team-a/\uff11"),
    *("team-a/1\u200b", "team-b/../team-a/1", "team-a/../team-b/1", "./team-a/1"),
]


async def test_an_id_that_is_nearly_one_s_own_is_another(guarded: Guarded) -> None:
    for session in LIKE_MINE:
        answer = await guarded.http.get(f"/api/sessions/{quote(session, safe='')}", bearer("mine"))
        assert (answer.status, answer.json["error"]["value"]) == (404, session)
    assert (await guarded.http.get(f"/api/sessions/{A}%00", bearer("mine"))).status == 400


PATHS = [
    *("/api/sessions/team-a/../team-b/1", "/api/sessions/team-a%2F..%2Fteam-b%2F1", "/api/sessions//team-b/1"),
    *("/livez/../api/sessions/team-b/1", "/api/sessions/team-a/1/../../team-b/1", "/api//sessions/team-b/1"),
    *("/API/sessions/team-b/1", "/api/sessions/team-a/1%00", "/api/sessions/%74eam-b/1", "//api/sessions/team-b/1"),
    *("/api/openapi.json/../sessions/team-b/1", "/api/login%2F..%2Fsessions", "/api/sessions;/team-b/1"),
]


async def test_no_spelling_of_a_path_gets_round_a_token(guarded: Guarded) -> None:
    for path, token in itertools.product(PATHS, ({}, bearer("mine"), bearer("plans"))):
        answer = await guarded.http.get(path, token)
        assert answer.status in (400, 401, 404), path
        assert b"secret" not in answer.body


async def test_a_token_in_the_address_is_no_token(guarded: Guarded) -> None:
    for name in ("token", "access_token", "authorization", "todo_token"):
        assert (await guarded.http.get(f"/api/sessions?{name}=all")).status == 401


async def test_who_binds_elsewhere_needs_a_log_in_or_says_so(redis_url: str) -> None:
    done = await Command("todo-projection", TODO_REDIS_URL=redis_url)(
        "gateway", "--host", "0.0.0.0", "--port", str(free_port())
    )
    assert done.code == 2
    for way_out in ("TODO_GATEWAY_HOST is '0.0.0.0'", "TODO_GATEWAY_TOKENS_FILE", "TODO_GATEWAY_JWT_KEY_FILE"):
        assert way_out in done.err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "plans.example", "127.0.0.1.example"])
def test_an_address_others_reach_is_refused_without_a_log_in(host: str) -> None:
    with pytest.raises(InvalidSetting, match=re.escape(f"TODO_GATEWAY_HOST is {host!r}")):
        check_exposure(Settings(gateway_host=host))
    check_exposure(Settings(gateway_host=host, gateway_open=True))
    check_exposure(Settings(gateway_host=host, gateway_tokens_file=Path("tokens.jsonl")))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
def test_an_address_of_this_machine_alone_needs_none(host: str) -> None:
    check_exposure(Settings(gateway_host=host))


async def test_a_foreign_name_that_leads_to_this_machine_is_refused(redis_url: str, namespace: str) -> None:
    async with serving(redis_url, namespace) as http:
        refused = await Http(http.host, http.port).raw(b"GET /api/sessions HTTP/1.1\r\nhost: evil.example\r\n\r\n")
        assert refused.status == 403
        assert (await http.get("/api/sessions")).status == 200


async def test_no_answer_lets_other_pages_read_or_frame_it(guarded: Guarded) -> None:
    for path in ("/api/sessions", f"/api/sessions/{A}", "/nope", "/livez", "/api/login", "/api/stream?session=x"):
        tokens: list[Mapping[str, str]] = [{}, bearer("mine")]
        for token in tokens:
            headers = (await guarded.http.get(path, {**token, "origin": "https://evil.example"}, method="HEAD")).headers
            assert "access-control-allow-origin" not in headers, path
            assert "default-src 'none'" in headers["content-security-policy"]
            assert (headers["referrer-policy"], headers["x-content-type-options"]) == ("no-referrer", "nosniff")


async def test_an_origin_that_is_named_may_ask_with_a_token(redis_url: str, namespace: str, tmp_path: Path) -> None:
    tokens = write_tokens(tmp_path / "tokens.jsonl", TOKENS)
    async with serving(
        redis_url, namespace, gateway_tokens_file=str(tokens), gateway_origins="https://plans.example"
    ) as http:
        asked = {**bearer("all"), "origin": "https://plans.example"}
        assert (await http.get("/api/sessions", asked)).headers["access-control-allow-origin"] == asked["origin"]
        asked["origin"] = "https://plans.example.evil"
        assert "access-control-allow-origin" not in (await http.get("/api/sessions", asked)).headers


def as_table() -> str:
    """The table as Markdown."""
    heads = ("none", "wrong", "expired", "no claim", "prefix team-a/", "session, events, board", "all")
    lines = [f"| | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for (method, path), statuses in TABLE.items():
        shown = path.replace(A, "A").replace(B, "B")
        lines.append(f"| `{method} {shown}` | {' | '.join(map(str, statuses))} |")
    return "\n".join(lines) + "\n"


def test_the_table_is_the_page_s() -> None:
    assert as_table() in SECURITY.read_text()
