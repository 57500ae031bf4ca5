"""The Redis roles: each does its job with the rules of ``deploy/users.acl``, and nothing else."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, ResponseError
from redis.exceptions import ConnectionError as NoConnection

from command import Command, Done
from eventually import eventually
from projecting import projected, working
from roles import FILE, PASSWORD, ROLES, create, table, with_password
from servers import Server, die_with_parent
from serving import plan, serving
from sse import of
from todo_projection.embedded import find_server, free_port, server_command, wheel_server
from todo_write.events import Keys
from todo_write.log import SessionLog, connect

PAGE = Path(__file__).parents[1] / "SECURITY.md"

every_server = pytest.mark.every_server


class Cast:
    """The users of one test's namespace on a server, and how each is reached."""

    def __init__(self, server: Server, namespace: str) -> None:
        self.server = server
        self.namespace = namespace
        self.keys = Keys(namespace)

    def url(self, role: str) -> str:
        return self.server.url.replace("redis://", f"redis://{self.namespace}-{role}:{PASSWORD}@")

    async def command(self, role: str, *arguments: str, input: str = "") -> Done:
        name = "todo-write" if role == "agent" else "todo-projection"
        return await Command(name, TODO_REDIS_URL=self.url(role), TODO_NAMESPACE=self.namespace)(
            *arguments, input=input
        )

    def refusals(self, role: str) -> list[Any]:
        """What the server has refused the role so far."""
        with self.server.connect() as admin:
            entries: Any = admin.acl_log()
        told = [
            entry
            for entry in entries
            if str(entry["username"]) in (f"{self.namespace}-{role}", f"b'{self.namespace}-{role}'")
        ]
        return [entry for entry in told if "setinfo" not in str(entry["object"])]  # 7.0 has no such rule, and no need


@pytest.fixture
def cast(target: Server, namespace: str) -> Iterator[Cast]:
    with target.connect() as admin:
        create(admin, namespace, f"{namespace}-")
        yield Cast(target, namespace)
        admin.acl_deluser(*(f"{namespace}-{role}" for role in ROLES))


@every_server
def test_what_each_role_may_do_is_what_the_page_says(cast: Cast) -> None:
    with cast.server.connect() as admin:
        assert table(admin, cast.namespace, f"{cast.namespace}-") in PAGE.read_text(), (
            "PYTHONPATH=tests python -m roles"
        )


@every_server
async def test_the_roles_do_their_jobs_together_and_are_refused_nothing(cast: Cast, redis_url: str) -> None:
    async with (
        Redis.from_url(redis_url) as store,
        working(cast.url("worker"), cast.namespace, audit_rate=10_000, beat_ms=100),
    ):
        await eventually(lambda: store.exists(cast.keys.meta))
        wrote = await cast.command("agent", "call", "s1", "--parallel", input='{"todos": []}')
        assert (wrote.code, wrote.err) == (0, "")
        async with connect(cast.url("agent"), namespace=cast.namespace) as client:
            log = SessionLog(client, "s1")
            async with log.turn():
                await log.append("todo/write", plan("a", status="in_progress"), durability="replicated")
            position = await log.append("session/title", {"title": "x"})
            assert len(await log.read_back(None, count_max=9)) == 5
        await projected(store, cast.keys, "s1", position)
        await _carriers(cast)
    for role in ROLES:
        assert cast.refusals(role) == [], role


async def _carriers(cast: Cast) -> None:
    async with serving(cast.url("carrier"), cast.namespace) as http:
        page = (await http.get("/api/sessions/s1")).json
        assert (page["projections"]["asOfSeq"], len(page["events"])) == (4, 5)
        assert (await http.get("/api/sessions/s1?atSeq=2")).status == 200
        assert [entry["sessionId"] for entry in (await http.get("/api/sessions")).json["sessions"]] == ["s1"]
        assert (await http.get("/readyz")).status == 200
        async with (
            http.stream(of("s1", events=1)) as plans,
            http.stream("board=1") as board,
            connect(cast.url("agent"), namespace=cast.namespace) as client,
        ):
            await plans.is_told("live")
            await board.got("row")
            await SessionLog(client, "s1").append("todo/write", plan("b"))
            await plans.shows("s1", plan("b")["todos"])
            await plans.got("event")


async def test_the_commands_do_their_jobs_under_their_roles(cast: Cast, redis_url: str) -> None:
    async with Redis.from_url(redis_url) as store, working(cast.url("worker"), cast.namespace):
        await eventually(lambda: store.exists(cast.keys.meta))
        wrote = await cast.command("agent", "call", "s1", "--parallel", input='{"todos": []}')
        assert (wrote.code, wrote.err) == (0, "")
        await eventually(lambda: store.hexists(cast.keys.row("s1"), "pos"))
        for role, *arguments in (
            *(["carrier", "show", "s1"], ["carrier", "sessions", "--json"], ["carrier", "status", "--json"]),
            *(["operator", "verify", "--all", "--json"], ["operator", "rebuild", "--all", "--json"]),
            *(["operator", "explain", "s1"], ["operator", "units", "set", "todos:2,board:1"]),
            ["operator", "retention", "--idle", "1s", "--yes", "--json"],
        ):
            done = await cast.command(role, *arguments)
            assert done.code == 0, (arguments, done)
        assert not await store.exists(cast.keys.log("s1"))
    for role in ROLES:
        assert cast.refusals(role) == [], role


FORBIDDEN = [
    ("HSET", "row", "todos", "[]"),
    ("HSET", "row", "pos", "1-1"),
    ("DEL", "row"),
    ("DEL", "log"),
    ("UNLINK", "log"),
    ("XTRIM", "log", "MAXLEN", "0"),
    ("XDEL", "log", "1-0"),
    ("XRANGE", "other", "-", "+"),
    ("XADD", "other", "*", "a", "b"),
    ("EVAL", "return redis.call('HSET', KEYS[1], 'pos', '9-9')", "1", "row"),
    ("EVAL", "return redis.call('UNLINK', KEYS[1])", "1", "log"),
    ("EVAL", "return redis.call('XADD', 'nothing-of-ours', '*', 'a', 'b')", "0"),
    ("EVAL", "return redis.call('XRANGE', KEYS[1], '-', '+')", "1", "other"),
    ("PUBLISH", "channel", "{}"),
    ("SUBSCRIBE", "channel"),
    ("FLUSHALL",),
    ("ACL", "WHOAMI"),
]


@every_server
def test_an_agent_s_user_can_t_reach_beyond_its_logs(cast: Cast) -> None:
    keys, others = cast.keys, Keys(f"{cast.namespace[:-1]}_")
    names = {"row": keys.row("s1"), "log": keys.log("s1"), "channel": keys.channel("s1"), "other": others.log("s1")}
    with cast.server.connect() as admin:
        admin.execute_command("AUTH", f"{cast.namespace}-agent", PASSWORD)
        for command in FORBIDDEN:
            with pytest.raises(ResponseError, match=r"(?i)permissions|can.t (access|run)|ACL"):
                admin.execute_command(*(names.get(word, word) for word in command))


async def test_without_a_layout_an_agent_is_told_whose_job_that_is(cast: Cast) -> None:
    done = await cast.command("agent", "call", "s1", "--parallel", input='{"todos": []}')
    assert (done.code, "not saved" in done.out, "permissions" in done.out) == (2, True, True)


def test_a_server_takes_the_file_once_its_hashes_are_in_and_not_before(tmp_path: Path, cast: Cast) -> None:
    path, port = tmp_path / "users.acl", free_port()
    program = wheel_server() or find_server()
    line = server_command(program, folder=tmp_path, port=port, options=("--aclfile", str(path)))
    path.write_text(FILE.read_text())
    refused = subprocess.run(line, capture_output=True, timeout=20, check=False)
    assert refused.returncode != 0
    path.write_text(with_password(FILE.read_text()))
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent) as server:  # noqa: PLW1509  no threads
        try:
            with redis.Redis(port=port, username="admin", password=PASSWORD) as admin:
                _wait(admin)
                names = {user.split()[1] for user in admin.acl_list()}
            with redis.Redis(port=port) as nobody, pytest.raises(AuthenticationError):
                nobody.ping()
        finally:
            server.kill()
    assert names == {"default", "admin", *(f"todo-{role}" for role in ROLES)}


def _wait(client: Any) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with contextlib.suppress(NoConnection):
            if client.ping():
                return
        time.sleep(0.02)
    raise AssertionError("no answer")
