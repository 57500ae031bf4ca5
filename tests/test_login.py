"""The log-in of a page, tokens that end while they are in use, and signed ones that only look right."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from command import Command
from eventually import eventually
from granting import MINE, TOKENS, Guarded, bearer, guarding, write_tokens
from serving import serving
from sse import Answer, Http, of
from todo_projection.embedded import free_port
from todo_projection.settings import Settings
from todo_projection.token_list import InvalidTokens, Line, digest
from todo_projection.tokens import Tokens
from todo_write.log import Client

X = digest("x")
JSON = {"content-type": "application/json"}


@pytest.fixture
async def guarded(
    client: Client, redis: Redis, tmp_path: Path, redis_url: str, namespace: str
) -> AsyncIterator[Guarded]:
    async with guarding(client, redis, tmp_path, redis_url, namespace, gateway_prefix="/plans") as guarded:
        yield guarded


async def log_in(http: Http, token: Any, **headers: str) -> Answer:
    return await http.get("/api/login", {**JSON, **headers}, "POST", json.dumps({"token": token}).encode())


async def test_a_page_exchanges_its_token_for_a_cookie_no_script_reads_and_no_other_site_sends(
    guarded: Guarded,
) -> None:
    http = guarded.http
    assert (await http.get("/api/login")).json == {"required": True, "name": None} | {
        "board": False,
        "events": False,
        "expiresAt": None,
    }
    answer = await log_in(http, "mine")
    assert (answer.status, answer.json["name"], answer.json["board"]) == (200, "mine", True)
    cookie, *flags = answer.headers["set-cookie"].split("; ")
    assert {flag.lower() for flag in flags} == {"httponly", "path=/plans/", "samesite=strict"}
    with_cookie = {"cookie": cookie}
    assert (await http.get("/api/sessions", with_cookie)).status == 200
    assert (await http.get("/api/login", with_cookie)).json["name"] == "mine"
    async with http.stream(of(MINE), with_cookie) as stream:
        await stream.got("snapshot")
    gone = await http.get("/api/logout", with_cookie, "POST")
    assert "max-age=0" in gone.headers["set-cookie"].lower()


async def test_over_tls_the_cookie_stays_there(guarded: Guarded) -> None:
    http = guarded.http
    answer = await log_in(http, "mine", origin=f"https://{http.host}:{http.port}")
    assert "; secure" in answer.headers["set-cookie"].lower()


async def test_a_log_in_that_is_none_is_refused_and_sets_nothing(guarded: Guarded) -> None:
    http, port = guarded.http, guarded.http.port
    refused = [
        (401, await log_in(http, "wrong")),
        (401, await log_in(http, "expired")),
        (400, await log_in(http, 7)),
        (400, await http.get("/api/login", JSON, "POST", b'{"token": "mine"')),
        (415, await http.get("/api/login", {"content-type": "text/plain"}, "POST", b'{"token": "mine"}')),
        (413, await http.get("/api/login", JSON, "POST", b'{"token": "' + b"x" * 20_000 + b'"}')),
        (403, await log_in(http, "mine", origin="https://evil.example")),
        (403, await log_in(http, "mine", origin="null")),
        (403, await log_in(http, "mine", origin=f"http://{http.host}.evil:{port}")),
        (403, await log_in(http, "mine", **{"sec-fetch-site": "cross-site"})),
    ]
    for status, answer in refused:
        assert (answer.status, "set-cookie" in answer.headers) == (status, False), answer.body
        assert answer.headers["content-type"] == "application/json"


async def test_no_page_of_another_origin_logs_anybody_out(guarded: Guarded) -> None:
    crossed = {"cookie": "todo_token=mine", "origin": "https://evil.example"}
    assert (await guarded.http.get("/api/logout", crossed, "POST")).status == 403


async def test_a_bearer_counts_before_a_cookie(guarded: Guarded) -> None:
    both = {"cookie": "todo_token=all", **bearer("wrong")}
    assert (await guarded.http.get("/api/sessions", both)).status == 401
    assert (
        await guarded.http.get("/api/sessions", {"authorization": "Basic YWxs", "cookie": "todo_token=all"})
    ).status == 401


async def test_a_token_taken_away_ends_its_open_streams_and_no_others(guarded: Guarded) -> None:
    http = guarded.http
    async with (
        http.stream(of(MINE), bearer("mine")) as lost,
        http.stream("board=1", {"cookie": "todo_token=mine"}) as lost_too,
        http.stream(of(MINE), bearer("all")) as kept,
    ):
        for stream in (lost, lost_too, kept):
            await stream.got("status")
        write_tokens(guarded.tokens, {name: line for name, line in TOKENS.items() if name != "mine"})
        for stream in (lost, lost_too):
            assert (await stream.got("bye")).data["reason"] == "revoked"
            await stream.finished()
        assert not kept.ended
    assert (await http.get("/api/sessions", bearer("mine"))).status == 401


async def test_a_token_that_allows_less_than_before_begins_anew(guarded: Guarded) -> None:
    less = Line(name="mine", sha256=digest("mine"), sessions=["other"])
    async with guarded.http.stream(of(MINE), bearer("mine")) as stream:
        await stream.got("status")
        write_tokens(guarded.tokens, {**TOKENS, "mine": less})
        assert (await stream.got("bye")).data["reason"] == "revoked"


async def test_a_list_that_can_t_be_read_leaves_the_tokens_as_they_are(guarded: Guarded) -> None:
    async with guarded.http.stream(of(MINE), bearer("mine")) as stream:
        await stream.got("status")
        tokens = Tokens(Settings(gateway_tokens_file=guarded.tokens))
        guarded.tokens.write_text('{"name": "mi')
        assert not tokens.reload()
        assert tokens.grant("mine")
        assert not stream.ended
    assert (await guarded.http.get("/api/sessions", bearer("mine"))).status == 200


async def test_a_token_that_expires_ends_its_open_stream(guarded: Guarded) -> None:
    soon = Line(name="soon", sha256=digest("soon"), all=True, expires=time.time() + 3)
    write_tokens(guarded.tokens, {**TOKENS, "soon": soon})
    await eventually(lambda: _status(guarded.http, "soon", 404))
    async with guarded.http.stream(of(MINE), bearer("soon")) as stream:
        assert (await stream.got("bye")).data["reason"] == "expired"
        await stream.finished()
    assert await _status(guarded.http, "soon", 401)


async def test_a_hangup_reads_the_tokens_and_does_not_end_it(redis_url: str, namespace: str, tmp_path: Path) -> None:
    tokens, port = write_tokens(tmp_path / "tokens.jsonl"), free_port()
    named = {"TODO_NAMESPACE": namespace, "TODO_GATEWAY_TOKENS_FILE": str(tokens)}
    gateway = Command("todo-projection", TODO_REDIS_URL=redis_url, **named)
    async with gateway.started("gateway", "--port", str(port)) as process:
        http = Http("127.0.0.1", port)
        await eventually(lambda: _status(http, "all", 404), within=20)
        tokens.write_bytes(b"")
        process.send_signal(signal.SIGHUP)
        await eventually(lambda: _status(http, "all", 401))
        process.send_signal(signal.SIGTERM)
        _, said = await process.communicate()
    assert process.returncode == 0
    assert b"tokens read anew" in said


async def test_no_log_line_has_a_token(redis_url: str, namespace: str, tmp_path: Path) -> None:
    tokens, port = write_tokens(tmp_path / "tokens.jsonl"), free_port()
    gateway = Command("todo-projection", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace, TODO_LOG_LEVEL="debug")
    async with gateway.started("gateway", "--port", str(port), "--tokens-file", str(tokens)) as process:
        http = Http("127.0.0.1", port)
        await eventually(lambda: _status(http, "all", 404), within=20)
        await http.get("/api/sessions?token=a-secret-token", bearer("a-secret-token"))
        await http.get("/api/sessions", {"cookie": "todo_token=a-secret-token"})
        await log_in(http, "a-secret-token")
        process.send_signal(signal.SIGTERM)
        out, said = await process.communicate()
    assert b"a-secret-token" not in out + said


async def test_the_command_makes_a_token_that_counts_and_keeps_its_hash_only(
    redis_url: str, namespace: str, tmp_path: Path
) -> None:
    path = tmp_path / "tokens.jsonl"
    command = Command("todo-projection", TODO_GATEWAY_TOKENS_FILE=str(path))
    made = await command("token", "alice", "--prefix", "team-a/", "--board", "--days", "1")
    another = json.loads((await command("token", "bob", "--all", "--json")).out)["token"]
    token = made.out.strip()
    assert (made.code, path.stat().st_mode & 0o777, len(token)) == (0, 0o600, 43)
    assert token not in path.read_text()
    grant = Tokens(Settings(gateway_tokens_file=path)).grant(token)
    assert grant is not None
    assert (grant.name, grant.board, grant.events) == ("alice", True, False)
    assert (grant.scope.holds("team-a/1"), grant.scope.holds("team-b/1")) == (True, False)
    async with serving(redis_url, namespace, gateway_tokens_file=str(path)) as http:
        assert await _status(http, another, 404)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"name": "x"}', "line 1: .*sha256"),
        ('{"name": "x", "sha256": "abc"}', "line 1: .*sha256"),
        (f'\n# a comment\n{{"name": "x", "sha256": "{X}", "al": true}}', "line 3: .*al"),
        (f'{{"name": "x", "sha256": "{X}", "prefixes": [""]}}', "line 1: .*prefixes"),
        (f'{{"name": "x", "sha256": "{X}"}}\n' * 2, "line 2: an earlier line"),
        ("[" * 100_000, "line 1"),
    ],
)
def test_a_line_that_says_what_nobody_knows_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "tokens.jsonl"
    path.write_text(text)
    with pytest.raises(InvalidTokens, match=why):
        Tokens(Settings(gateway_tokens_file=path))


async def _status(http: Http, token: str, status: int) -> bool:
    try:
        return (await http.get("/api/sessions/nobody", bearer(token))).status == status
    except (ConnectionError, asyncio.IncompleteReadError):
        return False
