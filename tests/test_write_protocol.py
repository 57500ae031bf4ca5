"""docs/WRITE_PROTOCOL.md says what the code does: its numbers, names, codes and rights are the real ones."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from append_vectors import VECTORS
from command import Command
from todo_write.delivery import Refused
from todo_write.events import (
    EVENT_BYTES_MAX,
    LAYOUT_VERSION,
    PARTITIONS_DEFAULT,
    SESSION_BYTES_MAX,
    TODO_WRITE_BYTES_MAX,
    TYPE_BYTES_MAX,
    Keys,
    slot,
)
from todo_write.log import Client, SessionLog, connect

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "WRITE_PROTOCOL.md").read_text(encoding="utf-8")
CODES = re.findall(r"`([A-Z]+)`", PAGE.partition("Errors that pass by themselves")[2].partition(", or hold")[0])


def test_every_reply_has_its_row_in_both_tables() -> None:
    for word in {vector.reply[0] for vector in VECTORS if vector.reply}:
        assert len(re.findall(rf"^\|.*`{word}`", PAGE, re.MULTILINE)) >= 2, word


def test_the_codes_that_pass_by_themselves_are_those_that_are_waited_for() -> None:
    assert len(CODES) == 13
    assert all(Refused(ResponseError(f"{code} so it is")).transient for code in CODES)
    assert Refused(ResponseError("ERR max number of clients reached")).transient
    for code in ("ERR", "WRONGTYPE", "NOPERM", "NOAUTH", "WRONGPASS", "EXECABORT", "NOPROTO"):
        assert not Refused(ResponseError(f"{code} so it is")).transient, code


def test_the_example_waits_for_the_same_codes() -> None:
    found = re.search(r"/\^\(([A-Z|]+)\) \|max number of clients/", (ROOT / "examples" / "append.ts").read_text())
    assert found
    assert found[1].split("|") == CODES


@pytest.mark.parametrize(
    "said",
    [
        f"HSETNX todo:meta layout {LAYOUT_VERSION}\n",
        f"HSETNX todo:meta partitions {PARTITIONS_DEFAULT}\n",
        f"at most {EVENT_BYTES_MAX} bytes, that of a `todo/write` at most {TODO_WRITE_BYTES_MAX} |",
        f"has 1 to {SESSION_BYTES_MAX} bytes of UTF-8",
        f"| type | 1 to {TYPE_BYTES_MAX} bytes without control characters |",
    ],
)
def test_every_limit_is_the_real_one(said: str) -> None:
    assert said in PAGE


def test_every_key_is_the_real_one() -> None:
    rows = re.findall(r"^\| `(.+)` \| (\d+) \| (\d+) \| (\d+) \| `(.+)` \|$", PAGE, re.MULTILINE)
    assert len(rows) == 3
    for session, number, partition, tag, log in rows:
        keys = Keys("todo", 64)
        assert (int(number), int(partition), log) == (slot(session), keys.partition(session), keys.log(session))
        assert f"{{{tag}}}" in log


@pytest.mark.every_server
async def test_the_rights_it_asks_for_are_enough_and_reach_no_further(
    redis: Redis, client: Client, namespace: str
) -> None:
    asked = re.search(r"ACL SETUSER writer (.+)$", PAGE, re.MULTILINE)
    assert asked
    server: Any = redis  # typed for str and bytes alike
    rights = asked[1].replace("~todo:*", f"~{namespace}:*").split()
    await server.execute_command("ACL", "SETUSER", "writer", "reset", *rights)
    where = redis.connection_pool.connection_kwargs
    url = f"redis://writer:secret@{where['host']}:{where['port']}/0"
    limited: Any = Redis.from_url(url)
    async with connect(url, namespace=namespace) as theirs, limited as plain:
        await SessionLog(theirs, "s2").append("x", 1)
        await SessionLog(client, "s2").append("x", 2)
        await SessionLog(theirs, "s2").append("x", 3)
        for vector in (vector.within(namespace) for vector in VECTORS):
            await vector.prepare(redis)
            vector.check_answer(await vector.ask(plain))
            await server.delete(*vector.keys)
        for command in (("GET", "other:key"), ("XRANGE", "other:key", "-", "+"), ("KEYS", "*"), ("FLUSHALL",)):
            with pytest.raises(ResponseError, match=r"(?i)permissions"):
                await plain.execute_command(*command)
    await server.execute_command("ACL", "DELUSER", "writer")


async def test_serve_answers_as_it_shows(redis_url: str, namespace: str) -> None:
    shown = re.findall(r"^    (\{.+?\}) +-> (\{.+\})$", PAGE, re.MULTILINE)
    assert len(shown) == 3
    todo_write = Command("todo-write", TODO_REDIS_URL=redis_url, TODO_NAMESPACE=namespace)
    done = await todo_write("serve", "--parallel", input="".join(f"{asked}\n" for asked, _ in shown))
    told = {answer["id"]: answer for answer in map(json.loads, done.out.splitlines())}
    for wanted in (json.loads(answered) for _, answered in shown):
        answer = told[wanted["id"]]
        assert answer.keys() == wanted.keys()
        for name, value in wanted.items():
            if name == "position":
                assert answer[name].endswith(f"-{value.rpartition('-')[2]}")
            else:
                assert str(answer[name]).startswith(str(value).rstrip("…"))
