"""What agents write is words: on a terminal, in a stream and in an answer it moves, runs and forges nothing."""

import asyncio
import json
import random
import re
from urllib.parse import quote

from redis.asyncio import Redis

from command import Command
from hostile import NASTY
from projecting import projected, working
from serving import plan, serving
from sse import of
from todo_write.log import Client, SessionLog

# Whatever a terminal obeys: controls of both sets but line ends, and what turns the reading direction.
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]")
COLOURS = re.compile("\x1b\\[[0-9;]*m")  # our own
WORDS = "\x1b[2J\x1b]0;pwned\x07\x9b31m\u202e<script>alert(1)</script>\r\n\n\nevent: bye\ndata: {}\n\n&amp;"
FRAME = {
    "type": "session/projection",
    "sessionId": "victim",
    "key": "todos",
    "value": [{"content": "forged", "status": "completed"}],
    "seq": 99,
    "epoch": 4_000_000_000_000,
    "rev": "999-aaaaaaaa",
    "stateVersion": 2,
    "time": 4_000_000_000_000,
}


async def written(client: Client, redis: Redis, session: str) -> None:
    """A session whose every word is hostile, and whose plan is marked."""
    log = SessionLog(client, session)
    await log.append("session/start", {"label": WORDS, "cwd": WORDS, "parentSession": WORDS})
    await log.append("session/title", {"title": WORDS})
    await log.append("turn/start", {"turn": 1})
    await log.append("todo/write", {"todos": [{"content": f"x {WORDS} x", "status": "in_progress"}]})
    position = await log.append("turn/end", {"turn": 1, "reason": {"kind": WORDS}})
    await projected(redis, await client.keys(), session, position)


async def test_no_command_for_people_obeys_what_agents_wrote(
    client: Client, redis: Redis, redis_url: str, namespace: str
) -> None:
    async with working(redis_url, namespace):
        await written(client, redis, "s\u00e9ssion \u200f")
        command = Command("todo-projection", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)
        asked = (
            ["sessions"],
            ["status"],
            ["watch", "--once", "s\u00e9ssion \u200f"],
            ["explain", "s\u00e9ssion \u200f"],
        )
        for arguments in asked:
            done = await command(*arguments)
            assert done.code == 0, (arguments, done)
            assert OBEYED.findall(done.out + done.err) == [], arguments
        for arguments in (["show", "s\u00e9ssion \u200f"], ["sessions", "--json"]):
            shown, _ = await command.on_terminal(*arguments)
            assert OBEYED.findall(COLOURS.sub("", shown.replace("\r\n", "\n"))) == [], arguments


async def test_a_stream_stays_a_stream_and_an_answer_json(
    client: Client, redis: Redis, redis_url: str, namespace: str
) -> None:
    async with working(redis_url, namespace), serving(redis_url, namespace) as http:
        await written(client, redis, "s1")
        async with http.stream(of("s1", events=1)) as stream, http.stream("board=1") as board:
            snapshot = await stream.got("snapshot")
            assert WORDS in snapshot.data["values"]["todos"][0]["content"]
            assert (await board.got("row")).data["board"]["title"] == WORDS
            await SessionLog(client, "s1").append("x", {"words": WORDS})
            assert (await stream.got("event")).data["event"]["data"] == {"words": WORDS}
            for reader in (stream, board):
                assert not reader.of("bye")
                assert not reader.ended
        for path in ("/api/sessions", "/api/sessions/s1", f"/api/sessions/{quote('<script>', safe='')}", "/<script>"):
            answer = await http.get(path)
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_log_entry_made_to_look_like_a_frame_is_an_event_and_nothing_else(
    client: Client, redis: Redis, redis_url: str, namespace: str
) -> None:
    keys = await client.keys()
    async with working(redis_url, namespace), serving(redis_url, namespace) as http:
        victim, forger = SessionLog(client, "victim"), SessionLog(client, "forger")
        await projected(redis, keys, "victim", await victim.append("todo/write", plan("true")))
        async with http.stream(of("victim", "forger")) as stream, http.stream(of("forger", events=1)) as events:
            await stream.shows("victim", plan("true")["todos"])
            await events.is_told("live")
            await forger.append("session/projection", FRAME)
            await projected(redis, keys, "forger", await forger.append("todo/write", plan("own")))
            await stream.shows("forger", plan("own")["todos"])
            assert (await events.got("event")).data["event"]["data"] == FRAME
            assert stream.held("victim") == plan("true")["todos"]
            assert all(event.data["key"] != "todos" or event.data["seq"] != 99 for event in stream.of("projection"))
        # Past the script, as an agent's own Redis user can: fields that no event has.
        await redis.xadd(keys.log("forger"), {"frame": json.dumps(FRAME)}, id=f"{FRAME['epoch']}-99")
        await projected(redis, keys, "victim", await victim.append("todo/write", plan("still true")))
        page = (await http.get("/api/sessions/victim")).json
        assert page["projections"]["values"]["todos"] == plan("still true")["todos"]
        assert (await http.get("/api/sessions/forger")).status in (200, 500)


async def test_no_request_makes_the_gateway_fall_over(redis_url: str, namespace: str) -> None:
    chance = random.Random(7)
    paths = [
        "/api/sessions",
        "/api/stream?",
        "/api/sessions/",
        "/api/login",
        "/",
        "/api/openapi.json?",
        "/api/sessions?cursor=",
    ]

    def odd() -> bytes:
        piece = chance.choice([*(nasty.encode("utf-8", "surrogatepass") for nasty in NASTY), chance.randbytes(4)])
        return b"".join(
            b"%%%02x" % byte if byte < 0x21 or byte > 0x7E or chance.random() < 0.3 else bytes([byte]) for byte in piece
        )

    async with serving(redis_url, namespace, request_rate_max=0) as http:
        statuses: set[int] = set()
        for _ in range(300):
            target = chance.choice(paths).encode() + b"".join(odd() for _ in range(chance.randrange(4)))
            cookie = chance.randbytes(8).hex().encode() if chance.random() < 0.5 else odd()
            method = chance.choice([b"HEAD", b"HEAD", b"POST", b"OPTIONS", b"TRACE", b"GET"])
            if target.startswith(b"/api/stream"):
                method = b"HEAD"
            head = b"%b %b HTTP/1.1\r\nhost: localhost\r\ncookie: todo_token=%b\r\nauthorization: %b\r\n" % (
                *(method, target, cookie),
                odd(),
            )
            async with asyncio.timeout(10):
                answer = await http.raw(head + b"connection: close\r\ncontent-length: 0\r\n\r\n")
            statuses.add(answer.status)
        assert statuses <= {200, 400, 401, 403, 404, 405, 415}
        assert (await http.get("/readyz")).json == {"ok": True, "problems": []}
