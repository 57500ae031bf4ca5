"""delete.lua: a session goes at once and whole, and the next log of its name begins above it."""

import asyncio
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from redis import ResponseError
from redis.asyncio import Redis

import todo_write
from servers import Server
from stored import Stored
from todo_write.log import Client, SessionLog

SCRIPT = (Path(todo_write.__file__).parent / "delete.lua").read_text()
APPEND = (Path(todo_write.__file__).parent / "append.lua").read_text()
SESSION = 'Sitzung "1"/ü'
WEEK_MS = 7 * 24 * 3600 * 1000

pytestmark = pytest.mark.every_server


class Wire(Stored):
    """The script, called as SessionLog calls it."""

    async def fill(self, *, tail: str = "1764517000000-4", **row: str) -> None:
        """A session as it looks when a worker has folded it."""
        await self._redis.xadd(self.log, {"type": "x", "time": "1", "op": "a", "data": "{}"}, id=tail)
        await self._redis.hset(self.row, mapping={"pos": "1764517000000-3", "rev": "6-abc", "units": "todos:2", **row})
        await self._redis.zadd(self.recent, {self.session: 1, "other": 2})
        await self._redis.zadd(self.working, {self.session: 1})
        await self._redis.hset(self.stale, self.session, "why")

    async def delete(
        self, etag: str = "etag0001", *, seen: str = "1764517000000", publish: str = "PUBLISH", by: Any = None
    ) -> str:
        keys = (self.log, self.row, self.recent, self.working, self.stale)
        arguments = (self.session, etag, publish, self.channel, str(WEEK_MS), seen)
        reply: bytes = await (by or self._redis).eval(SCRIPT, 5, *keys, *arguments)
        return reply.decode()

    async def tombstone(self) -> dict[str, str]:
        fields = await self._redis.hgetall(self.row)
        return {name.decode(): value.decode() for name, value in fields.items()}


@pytest.fixture
def wire(redis: Redis, namespace: str) -> Wire:
    return Wire(redis, namespace, SESSION)


async def test_log_values_index_and_marks_go_and_a_tombstone_stays_for_a_week(redis: Redis, wire: Wire) -> None:
    await wire.fill()
    assert await wire.delete() == "deleted"
    assert await redis.exists(wire.log, wire.working, wire.stale) == 0
    assert await redis.zrange(wire.recent, 0, -1) == [b"other"]
    assert await wire.tombstone() == {"pos": "1764517000000-4", "etag": "etag0001", "rev": "7-etag0001", "begun": "a"}
    assert WEEK_MS - 60_000 < await redis.pttl(wire.row) <= WEEK_MS


async def test_the_tombstone_keeps_the_rows_position_when_it_is_above_the_log(wire: Wire) -> None:
    await wire.fill(pos="1764517000001--1")
    await wire.delete()
    assert (await wire.tombstone())["pos"] == "1764517000001--1"


async def test_subscribers_are_told(redis: Redis, wire: Wire) -> None:
    pubsub: Any = redis.pubsub()
    async with pubsub:
        await pubsub.subscribe(wire.channel)
        assert (await pubsub.get_message(timeout=5))["type"] == "subscribe"
        await wire.fill()
        await wire.delete()
        message = await pubsub.get_message(timeout=5)
    assert json.loads(message["data"]) == {
        "type": "session/deleted",
        "sessionId": SESSION,
        "epoch": 1764517000000,
        "rev": "7-etag0001",
    }


async def test_where_nothing_is_nothing_is_written(redis: Redis, wire: Wire) -> None:
    assert await wire.delete(seen="") == "nothing"
    assert await redis.exists(wire.log, wire.row, wire.recent, wire.working, wire.stale) == 0


async def test_a_deleted_session_is_not_deleted_again(wire: Wire) -> None:
    await wire.fill()
    await wire.delete("etag0001")
    assert await wire.delete("etag0002", seen="") == "nothing"
    assert (await wire.tombstone())["rev"] == "7-etag0001"


async def test_a_repeat_of_the_call_that_deleted_is_told_so(wire: Wire) -> None:
    await wire.fill()
    await wire.delete("etag0001")
    assert await wire.delete("etag0001") == "deleted"
    assert (await wire.tombstone())["rev"] == "7-etag0001"


async def test_a_late_repeat_leaves_a_log_that_began_since(wire: Wire) -> None:
    await wire.fill()
    await wire.delete()
    await wire.fill(tail="1764517000001-0")
    assert await wire.delete() == "newer"
    assert await wire.delete(seen="") == "newer"
    assert await wire.ids() == ["1764517000001-0"]


async def test_a_log_without_a_row_and_a_row_without_a_log_are_deleted(redis: Redis, wire: Wire) -> None:
    await wire.fill()
    await redis.delete(wire.row)
    assert await wire.delete() == "deleted"
    told = {"pos": "1764517000000-4", "etag": "etag0001", "rev": "1-etag0001", "begun": "a"}
    assert await wire.tombstone() == told
    await wire.fill()
    await redis.delete(wire.log)
    assert await wire.delete("etag0002", seen="") == "deleted"
    assert "units" not in await wire.tombstone()


async def test_an_emptied_log_is_deleted_and_its_epoch_remembered(redis: Redis, wire: Wire) -> None:
    await wire.fill(tail="1764517000009-0")
    await redis.xtrim(wire.log, maxlen=0, approximate=False)
    assert await wire.delete(seen="") == "deleted"
    assert (await wire.tombstone())["pos"] == "1764517000009-0"


async def test_what_an_index_kept_of_a_vanished_session_is_removed(redis: Redis, wire: Wire) -> None:
    await redis.zadd(wire.recent, {SESSION: 1})
    assert await wire.delete(seen="") == "deleted"
    assert await redis.exists(wire.recent, wire.row) == 0


@pytest.mark.parametrize("place", ["log", "row", "recent", "working", "stale"])
async def test_a_key_of_another_type_is_refused_before_the_first_write(redis: Redis, wire: Wire, place: str) -> None:
    await wire.fill()
    key = str(getattr(wire, place))
    await redis.set(key, "mine")
    with pytest.raises(ResponseError, match=re.escape(f"WRONGTYPE {key} is a string, not a ")):
        await wire.delete()
    assert await redis.exists(wire.log, wire.row, wire.recent, wire.working, wire.stale) == 5


async def test_when_publishing_is_refused_nothing_is_written(redis: Redis, wire: Wire) -> None:
    await wire.fill()
    with pytest.raises(ResponseError):
        await wire.delete(publish="NOCOMMAND")
    assert await redis.exists(wire.log, wire.row, wire.recent, wire.working, wire.stale) == 5
    assert (await wire.tombstone())["units"] == "todos:2"


async def test_only_the_declared_keys_are_touched(redis: Redis, wire: Wire) -> None:
    # The server checks every command of a script against the keys and channels this user may touch.
    server: Any = redis
    keys = [wire.log.replace(" ", "?"), wire.row.replace(" ", "?"), wire.recent, wire.working, wire.stale]
    channels = [wire.channel.replace(" ", "?")]  # a rule can't hold a space
    await server.acl_setuser(
        "only", enabled=True, nopass=True, keys=keys, channels=channels, commands=["+@all"], reset=True
    )
    where = redis.connection_pool.connection_kwargs
    user = Redis(host=where["host"], port=where["port"], username="only", password="any")
    try:
        assert await wire.delete(seen="", by=user) == "nothing"
        await wire.fill()
        assert await wire.delete(seen="", by=user) == "newer"
        assert await wire.delete(by=user) == "deleted"
    finally:
        await user.aclose()
        await server.acl_deluser("only")


async def test_a_full_server_still_deletes(own_server: Server, redis: Redis, wire: Wire) -> None:
    await wire.fill()
    await redis.config_set("maxmemory", "1")
    assert await wire.delete() == "deleted"


async def test_back_to_back_pairs_of_delete_and_create_always_rise(client: Client) -> None:
    log = SessionLog(client, SESSION)
    positions = [await log.append("x", {})]
    for _ in range(50):
        assert await log.delete()
        positions.append(await log.append("x", {}))
    epochs = [position.epoch for position in positions]
    assert all(before < later for before, later in itertools.pairwise(epochs))


async def test_delete_says_whether_there_was_anything(client: Client) -> None:
    log = SessionLog(client, SESSION)
    assert not await log.delete()
    await log.append("x", {})
    assert await log.delete()
    assert not await log.delete()
    assert await log.tail() is None


async def test_of_two_who_delete_at_once_one_did(client: Client) -> None:
    await SessionLog(client, SESSION).append("x", {})
    answers = await asyncio.gather(*(SessionLog(client, SESSION).delete() for _ in range(5)))
    assert sorted(answers) == [False, False, False, False, True]


async def test_a_late_try_of_the_call_that_began_a_deleted_log_begins_no_other(redis: Redis, wire: Wire) -> None:
    names = (wire.log, wire.feed, wire.row)
    late = (SESSION, "new", "", "opBegan1", "x", "1", "{}")  # the try that got no answer, still under way
    assert (await redis.eval(APPEND, 3, *names, *late))[0] == b"ok"
    assert await wire.delete(seen="9999999999999") == "deleted"

    assert await redis.eval(APPEND, 3, *names, *late) == [b"rewound", b"", b""]
    assert await redis.exists(wire.log) == 0

    assert (await redis.eval(APPEND, 3, *names, SESSION, "new", "", "opBegan2", "x", "1", "{}"))[0] == b"ok"
    assert await wire.delete("etag0002", seen="9999999999999") == "deleted"
    assert await redis.eval(APPEND, 3, *names, *late) == [b"rewound", b"", b""]


async def test_a_late_try_of_the_call_that_began_a_deleted_log_does_not_move_into_the_next(
    redis: Redis, wire: Wire
) -> None:
    names = (wire.log, wire.feed, wire.row)
    late = (SESSION, "new", "", "opBegan1", "x", "1", "{}")  # it got no answer, the log was deleted, another began
    assert (await redis.eval(APPEND, 3, *names, *late))[0] == b"ok"
    assert await wire.delete(seen="9999999999999") == "deleted"
    other = await redis.eval(APPEND, 3, *names, SESSION, "new", "", "opOther1", "x", "1", "{}")

    assert await redis.eval(APPEND, 3, *names, *late) == [b"rewound", other[2], b"opOther1"]
    assert await redis.xlen(wire.log) == 1


async def test_a_try_to_begin_that_had_come_second_begins_no_other_log(redis: Redis, wire: Wire) -> None:
    names = (wire.log, wire.feed, wire.row)
    assert (await redis.eval(APPEND, 3, *names, SESSION, "new", "", "opBegan1", "x", "1", "{}"))[0] == b"ok"
    second = (SESSION, "new", "", "opSecond", "x", "1", "{}")
    word, position, op = await redis.eval(APPEND, 3, *names, *second)
    assert word == b"moved"
    behind = (SESSION, position, op, "opSecond", "x", "1", "{}")
    assert (await redis.eval(APPEND, 3, *names, *behind))[0] == b"ok"
    assert await wire.delete(seen="9999999999999") == "deleted"
    assert await redis.eval(APPEND, 3, *names, *second) == [b"rewound", b"", b""]


async def test_a_tombstone_remembers_a_bounded_number_of_calls(redis: Redis, wire: Wire) -> None:
    for n in range(40):
        argv = (SESSION, "new", "", f"opBeg{n:03}", "x", "1", "{}")
        await redis.eval(APPEND, 3, wire.log, wire.feed, wire.row, *argv)
        await wire.delete(f"etag{n:04}", seen="9999999999999")
    assert (await wire.tombstone())["begun"] == ",".join(f"opBeg{n:03}" for n in range(39, 7, -1))
