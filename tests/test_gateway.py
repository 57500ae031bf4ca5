"""The gateway's JSON routes, their errors, its document, its health, and its end."""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
from redis.asyncio import Redis

from command import Command
from eventually import eventually
from projecting import projected, working
from proxy import Proxy
from servers import Server
from serving import plan, serving
from sse import Http, of
from todo_projection.embedded import free_port
from todo_projection.settings import InvalidSetting, Settings
from todo_write.events import Keys
from todo_write.log import Client, SessionLog

ODD = ["a/b", "/", "//x/", "50%", "%2F", "a b+c", "计划/一", "é?#&=;", "..a", "~"]


@pytest.fixture
async def http(redis_url: str, namespace: str) -> AsyncIterator[Http]:
    async with serving(redis_url, namespace) as http:
        yield http


@pytest.fixture
async def worker(redis_url: str, namespace: str) -> AsyncIterator[None]:
    async with working(redis_url, namespace):
        yield


async def written(client: Client, redis: Redis, session: str, *plans: list[str]) -> None:
    """Write these plans, and wait until they are projected."""
    log = SessionLog(client, session)
    positions = await log.append_all([("todo/write", plan(*items)) for items in plans])
    await projected(redis, await client.keys(), session, positions[-1])


@pytest.mark.parametrize("session", ODD)
async def test_a_session_id_may_hold_anything_a_url_can_carry(
    http: Http, client: Client, redis: Redis, worker: None, session: str
) -> None:
    await written(client, redis, session, ["x"])
    page = await http.get(f"/api/sessions/{quote(session, safe='')}")
    assert (page.status, page.json["projections"]["sessionId"]) == (200, session)
    async with http.stream(of(session)) as stream:
        assert (await stream.got("snapshot")).data["sessionId"] == session
    (entry,) = (await http.get(f"/api/sessions?{of(text=session).replace('session', 'text')}")).json["sessions"]
    assert entry["sessionId"] == session


async def test_a_slash_in_a_session_id_may_stand_as_it_is(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    await written(client, redis, "team/agent/", ["x"])
    assert (await http.get("/api/sessions/team/agent/")).json["projections"]["sessionId"] == "team/agent/"


BAD = {
    "/api/sessions?limit=0": ("parameter 'limit' can't be used", "0", "a whole number from 1 to 500"),
    "/api/sessions?limit=1.5": ("parameter 'limit' can't be used", "1.5", "a whole number from 1 to 500"),
    "/api/sessions?limit=": ("parameter 'limit' can't be used", "", "a whole number from 1 to 500"),
    "/api/sessions?limit=5&limit=6": ("parameter 'limit' is given 2 times", "6", "once"),
    "/api/sessions?page=2": ("parameter 'page' is not known here", "2", "state, text, sort, limit, cursor, parent"),
    "/api/sessions?sort=best": ("parameter 'sort' can't be used", "best", "recent"),
    "/api/sessions?state=running": ("parameter 'state' can't be used", "running", "stuck"),
    "/api/sessions?text=%FF": ("the query can't be read", "text=%FF", "percent-encoded UTF-8"),
    "/api/sessions?cursor=x": ("cursor can't be used", "x", "`next` of the page before"),
    f"/api/sessions?text={'x' * 201}": ("parameter 'text' can't be used", "x" * 201, "at most 200"),
    "/api/sessions/s1?beforeSeq=-1": ("parameter 'beforeSeq' can't be used", "-1", "0 or more"),
    "/api/sessions/s1?atSeq=1&beforeSeq=1": ("beforeSeq and atSeq are two ends of a page", None, "one of them"),
    "/api/sessions/s1?atTime=soon": ("parameter 'atTime' can't be used", "soon", "epoch ms"),
    "/api/stream?session=s1&session=s2&family=1": ("family=1 needs one session", "2 sessions", "session=… once"),
    "/api/sessions/a%00b": ("control character", None, "1-256 bytes"),
    "/api/sessions/%FF": ("the path can't be read", "/api/sessions/%FF", "percent-encoded UTF-8"),
    "/api/sessions/" + "x" * 257: ("is 257 bytes long", None, "1-256 bytes"),
    "/api/stream": ("a stream carries plans or a board", "0 sessions", "board=1"),
    "/api/stream?board=0": ("a stream carries plans or a board", "board=0", "board=1"),
    "/api/stream?board=1&session=s1": ("parameter 'session' is not known here", "s1", "board"),
    "/api/stream?board=1&limit=10001": ("parameter 'limit' can't be used", "10001", "1 to 10000"),
    "/api/stream?session=s1&session=s2&events=1": ("events=1 needs one session", "2 sessions", "session=… once"),
    "/api/stream?session=s1&events=perhaps": ("parameter 'events' can't be used", "perhaps", "1 or 0"),
    "/api/stream?session=s1&after=1-1": ("after is a place in a log", "1-1", "events=1"),
    "/api/stream?session=s1&events=1&after=1": ("the last event's id can't be used", "1", "<epoch>-<seq>"),
    "/api/stream?session=a%7Bb": ("brace", None, "1-256 bytes"),
    "/api/stream?" + "&".join(f"session=s{n}" for n in range(201)): ("a stream carries", "201 sessions", "1 to 200"),
}


@pytest.mark.parametrize("path", BAD, ids=[path[:60] for path in BAD])
async def test_a_bad_parameter_is_named_with_its_value_and_what_is_allowed(http: Http, path: str) -> None:
    answer = await http.get(path)
    what, value, allowed = BAD[path]
    assert (answer.status, answer.headers["content-type"]) == (400, "application/json")
    error = answer.json["error"]
    assert what in error["what"]
    assert error["value"] == value
    assert allowed in error["allowed"]


async def test_what_is_not_there_is_told_in_json(http: Http) -> None:
    for path, status in {"/nope": 404, "/api": 404, "/livez/": 404, "/api/sessions/nobody": 404}.items():
        answer = await http.get(path)
        assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
    answer = await http.get("/api/sessions", method="POST")
    assert (answer.status, set(answer.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})
    assert answer.json["error"]["value"] == "POST /api/sessions"


async def test_a_request_head_that_is_too_long_or_none_is_refused_in_json(http: Http) -> None:
    long = await http.raw(b"GET /livez HTTP/1.1\r\nhost: x\r\nx: " + b"x" * 300_000)
    assert (long.status, "too long" in json.loads(long.body)["error"]["what"]) == (431, True)
    broken = await http.raw(b"\x16\x03\x01\r\n\r\n")
    assert (broken.status, "error" in json.loads(broken.body)) == (400, True)
    assert (await http.get("/livez")).status == 200


async def test_two_hundred_of_the_longest_session_ids_fit_into_one_request(http: Http) -> None:
    sessions = [f"{n:03}" + "计" * 84 for n in range(200)]
    async with http.stream(of(*sessions)) as stream:
        await stream.got("snapshot", 200)


async def test_every_answer_forbids_to_sniff_and_to_store(http: Http) -> None:
    for path in ("/api/sessions", "/api/sessions/nobody", "/nope", "/livez", "/api/openapi.json"):
        headers = (await http.get(path)).headers
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store"), path
        assert "server" not in headers
    async with http.stream(of("s1")) as stream:
        assert (stream.headers["x-content-type-options"], stream.headers["cache-control"]) == ("nosniff", "no-store")


async def test_head_gets_the_headers_and_no_stream(http: Http) -> None:
    answer = await http.get("/api/stream?session=s1", method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"


async def test_the_document_names_every_json_route_with_the_parameters_it_takes(http: Http) -> None:
    answer = await http.get("/api/openapi.json")
    document = answer.json
    names = {
        path: {parameter["name"] for parameter in item["get"]["parameters"]} for path, item in document["paths"].items()
    }
    assert names == {
        "/api/sessions": {"state", "text", "sort", "limit", "cursor", "parent"},
        "/api/sessions/{session}": {"session", "beforeSeq", "atSeq", "atTime", "limit"},
        "/api/about": set(),
        "/livez": set(),
        "/readyz": set(),
    }
    limit = next(p for p in document["paths"]["/api/sessions"]["get"]["parameters"] if p["name"] == "limit")
    assert limit["schema"] == {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', answer.body.decode()))
    assert referred >= {"SessionList", "Page", "Refused", "Health", "Baseline", "Entry"}
    assert referred <= set(document["components"]["schemas"])


@pytest.mark.parametrize("proxied", ["/plans/team", ""], ids=["left on", "taken off"])
async def test_it_works_behind_a_path_prefix_that_a_proxy_leaves_on_or_takes_off(
    redis_url: str, namespace: str, proxied: str
) -> None:
    async with serving(redis_url, namespace, gateway_prefix="/plans/team") as http:
        http.prefix = proxied
        assert (await http.get("/readyz")).status == 200
        assert (await http.get("/api/openapi.json")).json["servers"] == [{"url": "/plans/team"}]
        assert (await http.get("/api/sessions/plans%2Fteam%2Fx")).json["error"]["value"] == "plans/team/x"
        async with http.stream(of("s1")) as stream:
            await stream.got("snapshot")


async def test_while_redis_is_away_pages_say_when_to_ask_again_and_health_says_why(
    proxy: Proxy, namespace: str
) -> None:
    proxy.refuse()
    async with serving(proxy.url, namespace) as http:
        for path in ("/api/sessions", "/api/sessions/s1"):
            answer = await http.get(path)
            assert (answer.status, answer.headers["retry-after"]) == (503, "2")
            assert "error" in answer.json
        ready = await http.get("/readyz")
        assert (ready.status, ready.json["ok"]) == (503, False)
        assert f"127.0.0.1:{proxy.port}" in ready.json["problems"][0]
        assert (await http.get("/livez")).status == 200
        await proxy.accept()
        await eventually(lambda: _status(http, "/readyz", 200))
        assert (await http.get("/api/sessions")).status == 200


async def test_a_key_of_another_type_is_told_and_hurts_nobody_else(
    http: Http, client: Client, redis: Redis, worker: None
) -> None:
    keys = await client.keys()
    await written(client, redis, "fine", ["x"])
    await redis.set(keys.row("odd"), "a string")
    assert (await http.get("/api/sessions/odd")).status == 500
    assert (await http.get("/api/sessions/fine")).status == 200


async def test_a_layout_that_is_another_ends_the_command_with_both_numbers(
    redis_url: str, namespace: str, redis: Redis
) -> None:
    await redis.hset(Keys(namespace).meta, mapping={"layout": "1", "partitions": "8"})
    gateway = Command("todo-projection", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)
    done = await gateway("gateway", "--port", str(free_port()), "--partitions", "16")
    assert done.code == 2
    assert "8" in done.err
    assert "16" in done.err


async def test_an_address_that_is_taken_ends_the_command_with_its_name(http: Http, redis_url: str) -> None:
    done = await Command("todo-projection", TODO_REDIS_URL=redis_url)("gateway", "--port", str(http.port))
    assert done.code == 1
    assert f"127.0.0.1:{http.port}" in done.err


@pytest.mark.parametrize("prefix", ["/api", "/api/x", "/livez", "plans", "/plans/", "/a//b", "/a b"])
def test_a_prefix_that_would_hide_a_route_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidSetting, match=re.escape(f"TODO_GATEWAY_PREFIX is {prefix!r}")):
        Settings.from_env({"TODO_GATEWAY_PREFIX": prefix})


async def test_the_platform_s_port_counts_where_no_other_is_set(target: Server, namespace: str) -> None:
    port, other = free_port(), free_port()
    gateway = Command("todo-projection", TODO_REDIS_URL=target.url, TODO_NAMESPACE=namespace, PORT=str(port))
    async with gateway.started("gateway"):
        await eventually(lambda: _status(Http("127.0.0.1", port), "/livez", 200), within=20)
    async with gateway.having(TODO_GATEWAY_PORT=str(other)).started("gateway"):
        await eventually(lambda: _status(Http("127.0.0.1", other), "/livez", 200), within=20)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_asked_to_end_it_says_goodbye_on_every_stream_and_exits_0(
    redis_url: str, namespace: str, number: signal.Signals
) -> None:
    port = free_port()
    gateway = Command("todo-projection", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace, TODO_GRACE_MS="5000")
    async with gateway.started("gateway", "--port", str(port)) as process:
        http = Http("127.0.0.1", port)
        await eventually(lambda: _status(http, "/livez", 200), within=20)
        async with (
            http.stream(of("s1")) as plans,
            http.stream("board=1") as board,
            http.stream(of("s1", events=1)) as events,
        ):
            for stream in (plans, board, events):
                await stream.got("status")
            process.send_signal(number)
            for stream in (plans, board, events):
                bye = await stream.got("bye")
                assert bye.data["reason"] == "shutdown"
                assert 500 <= bye.data["retryMs"] <= 3000
                assert stream.retry_ms == bye.data["retryMs"]
                await stream.finished()
                assert stream.events[-1] == bye
        async with asyncio.timeout(5):
            assert await process.wait() == 0


async def test_a_client_that_takes_no_goodbye_does_not_hold_up_the_end(
    redis_url: str, namespace: str, client: Client
) -> None:
    port = free_port()
    gateway = Command("todo-projection", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace, TODO_GRACE_MS="1500")
    async with gateway.started("gateway", "--port", str(port)) as process, working(redis_url, namespace):
        http = Http("127.0.0.1", port)
        await eventually(lambda: _status(http, "/livez", 200), within=20)
        async with http.deaf(of("s1")), http.stream(of("s1")) as stream:
            log = SessionLog(client, "s1")
            for n in range(100):
                await log.append("todo/write", plan(f"{n} " + "x" * 50_000))
            await stream.until(lambda: (stream.held("s1") or [{"content": ""}])[0]["content"].startswith("99 "))
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(5):
                assert await process.wait() == 0


async def _status(http: Http, path: str, status: int) -> bool:
    try:
        return (await http.get(path)).status == status
    except (ConnectionError, asyncio.IncompleteReadError):
        return False
