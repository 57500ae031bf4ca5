"""commit.lua, the fence of the projection: what each reply means, what is written, and what never is."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis import ResponseError
from redis.asyncio import Redis

from fence import GROUP, RETIRE, Entry, Fence, Write
from servers import Server

pytestmark = pytest.mark.every_server


@pytest.fixture
def fence(redis: Redis, namespace: str) -> Fence:
    return Fence(redis, namespace)


@pytest.fixture
async def delivered(fence: Fence) -> list[Entry]:
    """Two pointers to a and one to b, delivered."""
    await fence.create_group()
    entries = [await fence.point("a", 0), await fence.point("a", 1), await fence.point("b", 0)]
    assert await fence.deliver() == [entry.id for entry in entries]
    return entries


@pytest.fixture
async def limited(redis: Redis, namespace: str) -> AsyncIterator[Any]:
    """``limited(keys, channels, …)``: a client for these keys and channels only, without these commands."""
    server: Any = redis
    clients: list[Redis] = []

    async def connect(keys: list[str], channels: list[str], *without: str) -> Redis:
        allowed = {"keys": keys, "channels": channels, "commands": ["+@all", *without]}
        await server.acl_setuser(namespace, enabled=True, nopass=True, reset=True, **allowed)
        where = redis.connection_pool.connection_kwargs
        clients.append(Redis(host=where["host"], port=where["port"], username=namespace, password="any"))
        return clients[-1]

    yield connect
    for client in clients:
        await client.aclose()
    await server.acl_deluser(namespace)


def row_of(etag: str, position: str = "1764517000000-1") -> dict[str, str]:
    return {"etag": etag, "pos": position, "units": "todos:2", "rev": f"1-{etag}", "todos": "[]"}


async def listen(fence: Fence, *sessions: str) -> Any:
    """A subscriber that is subscribed."""
    channel = fence.redis.pubsub()
    await channel.subscribe(*(fence.keys.channel(session) for session in sessions))
    for _ in sessions:
        assert (await channel.get_message(timeout=5))["type"] == "subscribe"
    return channel


async def heard(fence: Fence, channel: Any, session: str) -> list[str]:
    """All messages so far: those before a marker that is sent now."""
    await fence.redis.publish(fence.keys.channel(session), "marker")
    found: list[str] = []
    while not found or found[-1] != "marker":
        found.append((await channel.get_message(timeout=5))["data"].decode())
    return found[:-1]


# --- what a commit writes


async def test_ok_writes_row_and_indexes_publishes_and_acknowledges(fence: Fence, delivered: list[Entry]) -> None:
    channel = await listen(fence, "a", "b")
    write = Write("a", delivered[:2], "", row_of("e1"), (), ["frame"], "1764517000123", "1764517000100", '{"todos":{}}')
    assert await fence.commit(write, Write("b", delivered[2:], "", row_of("e2"))) == ["ok", "ok"]
    assert (await fence.row("a"), await fence.row("b")) == (row_of("e1"), row_of("e2"))
    assert await fence.redis.zrange(fence.recent, 0, -1, withscores=True) == [(b"a", 1764517000123.0)]
    assert await fence.redis.zrange(fence.working, 0, -1, withscores=True) == [(b"a", 1764517000100.0)]
    assert await fence.redis.hgetall(fence.stale) == {b"a": b'{"todos":{}}'}
    assert await heard(fence, channel, "a") == ["frame"]
    assert await fence.pending() == []
    await channel.aclose()


async def test_fields_and_index_entries_are_removed_where_the_commit_says_so(
    fence: Fence, delivered: list[Entry]
) -> None:
    stored = {**row_of("e1"), "todos.stale": "why", "todos.state": "x"}
    await fence.redis.hset(fence.keys.row("a"), mapping=stored)
    await fence.redis.zadd(fence.working, {"a": 1, "b": 2})
    await fence.redis.hset(fence.stale, mapping={"a": "why", "b": "why"})
    write = Write("a", delivered[:2], "e1", row_of("e2"), ("todos.stale", "todos.state"), working="-", mark="-")
    assert await fence.commit(write) == ["ok"]
    assert await fence.row("a") == row_of("e2")
    assert await fence.redis.zrange(fence.working, 0, -1) == [b"b"]
    assert await fence.redis.hkeys(fence.stale) == [b"b"]


async def test_recent_only_rises(fence: Fence, delivered: list[Entry]) -> None:
    await fence.redis.zadd(fence.recent, {"a": 900})
    assert await fence.commit(Write("a", delivered[:2], "", row_of("e1"), recent="800")) == ["ok"]
    assert await fence.redis.zscore(fence.recent, "a") == 900.0


async def test_a_commit_without_fields_only_acknowledges(fence: Fence, delivered: list[Entry]) -> None:
    await fence.redis.hset(fence.keys.row("a"), mapping=row_of("e1"))
    assert await fence.commit(Write("a", delivered[:2], "e1", recent="5", working="5", mark="m")) == ["ok"]
    assert await fence.row("a") == row_of("e1")
    assert await fence.redis.exists(fence.recent, fence.working, fence.stale) == 0
    assert await fence.pending() == [delivered[2].id]


async def test_a_tombstone_that_becomes_a_row_again_stays(fence: Fence, delivered: list[Entry]) -> None:
    key = fence.keys.row("a")
    await fence.redis.hset(key, mapping={"etag": "e1", "pos": "1764516000000-7", "rev": "4-e1"})
    await fence.redis.pexpire(key, 1_000_000)
    assert await fence.commit(Write("a", delivered[:1], "e1")) == ["ok"]
    assert await fence.redis.pttl(key) > 0  # a late pointer of the deleted log brings nothing back
    assert await fence.commit(Write("a", delivered[1:2], "e1", row_of("e2"))) == ["ok"]
    assert await fence.redis.pttl(key) == -1


# --- the two checks


@pytest.mark.parametrize(("stored", "read"), [({}, "e1"), (row_of("e1"), ""), (row_of("e1"), "e0")])
async def test_conflict_when_the_row_is_not_the_one_that_was_read(
    fence: Fence, delivered: list[Entry], stored: dict[str, str], read: str
) -> None:
    if stored:
        await fence.redis.hset(fence.keys.row("a"), mapping=stored)
    channel = await listen(fence, "a")
    stale = Write("a", delivered[:2], read, row_of("e9"), (), ["frame"], "5", "5", "m")
    assert await fence.commit(stale, Write("b", delivered[2:], "", row_of("e2"))) == ["conflict", "ok"]
    assert (await fence.row("a"), await fence.row("b")) == (stored, row_of("e2"))
    assert await fence.redis.exists(fence.recent, fence.working, fence.stale) == 0
    assert await heard(fence, channel, "a") == []
    assert await fence.pending() == [entry.id for entry in delivered[:2]]
    await channel.aclose()


async def test_a_row_that_must_be_new_is_written_only_where_no_key_is(fence: Fence, delivered: list[Entry]) -> None:
    await fence.redis.hset(fence.keys.row("a"), "what", "ever")
    writes = Write("a", delivered[:2], "*", row_of("e1")), Write("b", delivered[2:], "*", row_of("e2"))
    assert await fence.commit(*writes) == ["conflict", "ok"]
    assert (await fence.row("a"), await fence.row("b")) == ({"what": "ever"}, row_of("e2"))
    assert await fence.pending() == [entry.id for entry in delivered[:2]]


async def test_what_one_session_can_not_have_in_an_index_holds_up_no_other(
    fence: Fence, delivered: list[Entry]
) -> None:
    odd = Write("a", delivered[:2], "", row_of("e1"), working="no number")
    words = await fence.commit(odd, Write("b", delivered[2:], "", row_of("e2"), working="5", recent="7"))
    assert (words[0].partition(" ")[0], words[1]) == ("broken", "ok")
    assert (await fence.row("a"), await fence.row("b")) == ({}, row_of("e2"))
    assert await fence.redis.zrange(fence.working, 0, -1) == [b"b"]
    assert await fence.pending() == [entry.id for entry in delivered[:2]]


async def test_an_old_pointer_is_not_acknowledged_over_a_row_that_went_back(
    fence: Fence, delivered: list[Entry]
) -> None:
    assert await fence.commit(Write("a", delivered[:2], "e5")) == ["conflict"]
    assert await fence.pending() == [entry.id for entry in delivered]


async def test_rewound_when_the_highest_pointer_is_gone(fence: Fence, delivered: list[Entry]) -> None:
    await fence.redis.xdel(fence.feed, delivered[2].id)
    writes = Write("a", delivered[:2], "", row_of("e1"), (), ["f"], "5"), Write("b", delivered[2:], "", row_of("e2"))
    assert await fence.commit(*writes) == ["rewound"]
    assert (await fence.row("a"), await fence.row("b")) == ({}, {})
    assert await fence.redis.exists(fence.recent) == 0
    assert await fence.pending() == [entry.id for entry in delivered]


@pytest.mark.parametrize(
    ("session", "seq", "op"), [("c", 0, "op"), ("b", 1, "op"), ("b", 0, "other")], ids=["session", "position", "op"]
)
async def test_rewound_when_another_pointer_stands_under_its_id(
    fence: Fence, delivered: list[Entry], session: str, seq: int, op: str
) -> None:
    # A fail-over drops the end of the feed; what is appended then may get the same id.
    await fence.redis.delete(fence.feed)
    for entry in delivered[:2]:
        await fence.point("a", int(entry.position[-1]), id=entry.id)
    await fence.point(session, seq, op=op, id=delivered[2].id)
    await fence.create_group()
    assert await fence.commit(Write("b", delivered[2:], "", row_of("e2"))) == ["rewound"]
    assert await fence.row("b") == {}
    assert await fence.commit(Write("a", delivered[:2], "", row_of("e1"))) == ["ok"]  # what survived is committed


async def test_rewound_when_the_feed_is_gone(fence: Fence, delivered: list[Entry]) -> None:
    await fence.redis.delete(fence.feed)
    assert await fence.commit(Write("a", delivered[:2], "", row_of("e1"))) == ["rewound"]
    assert await fence.redis.exists(fence.feed, fence.keys.row("a")) == 0


# --- what goes wrong with one session leaves the others alone


async def test_a_row_of_another_type_is_told_in_the_index_and_its_neighbours_are_committed(
    fence: Fence, redis: Redis
) -> None:
    await fence.create_group()
    a, b, c = [await fence.point(session) for session in "abc"]
    await fence.deliver()
    await redis.set(fence.keys.row("b"), "mine")
    words = await fence.commit(*(Write(e.session, [e], "", row_of(f"e{e.session}"), recent="5") for e in (a, b, c)))
    why = f"WRONGTYPE {fence.keys.row('b')} is a string, not a hash"
    assert words == ["ok", f"broken {why}", "ok"]
    assert (await fence.row("a"), await fence.row("c")) == (row_of("ea"), row_of("ec"))
    assert await redis.get(fence.keys.row("b")) == b"mine"
    assert await fence.redis.hgetall(fence.stale) == {b"b": why.encode()}
    assert await fence.redis.zrange(fence.recent, 0, -1) == [b"a", b"c"]
    assert await fence.pending() == []


@pytest.mark.parametrize("place", ["feed", "recent", "working", "stale"])
async def test_a_key_of_the_partition_of_another_type_is_refused_before_the_first_write(
    fence: Fence, delivered: list[Entry], place: str
) -> None:
    key = getattr(fence, place)
    await fence.redis.delete(key)
    await fence.redis.set(key, "mine")
    with pytest.raises(ResponseError, match=f"WRONGTYPE .*{place} is a string, not a "):
        await fence.commit(Write("a", delivered[:2], "", row_of("e1"), recent="5"))
    assert await fence.row("a") == {}


async def test_a_refused_publish_is_told_and_everything_else_is_done(
    fence: Fence, delivered: list[Entry], limited: Any
) -> None:
    user = await limited([f"{fence.keys.namespace}:*"], [fence.keys.channel("b")])
    channel = await listen(fence, "a", "b")
    words = await fence.commit(
        Write("a", delivered[:2], "", row_of("e1"), (), ["frame of a"], "5"),
        Write("b", delivered[2:], "", row_of("e2"), (), ["frame of b"], "5"),
        by=user,
    )
    assert words[0].startswith("unpublished ")
    assert words[1] == "ok"
    assert (await fence.row("a"), await fence.row("b")) == (row_of("e1"), row_of("e2"))
    assert await heard(fence, channel, "a") == ["frame of b"]
    assert await fence.redis.zcard(fence.recent) == 2
    assert await fence.pending() == []
    await channel.aclose()


async def test_a_session_that_may_not_be_written_stays_pending_and_its_neighbours_are_committed(
    fence: Fence, delivered: list[Entry], limited: Any
) -> None:
    user = await limited([f"{fence.keys.namespace}:*"], [], "-hdel")
    words = await fence.commit(
        Write("a", delivered[:2], "", row_of("e1"), ("x",)), Write("b", delivered[2:], "", row_of("e2")), by=user
    )
    assert words[0].startswith("broken ")
    assert words[1] == "ok"
    assert (await fence.row("a"), await fence.row("b")) == ({}, row_of("e2"))
    assert await fence.pending() == [entry.id for entry in delivered[:2]]


async def test_a_row_that_can_not_even_be_marked_holds_up_no_other(
    redis: Redis, fence: Fence, delivered: list[Entry], limited: Any
) -> None:
    user = await limited([f"{fence.keys.namespace}:*"], [], "-hset")  # for the mark of a, in the index
    await redis.set(fence.keys.row("a"), "x")
    words = await fence.commit(Write("a", delivered[:2], "e"), Write("b", delivered[2:]), by=user)
    assert words[0].startswith("broken ")
    assert words[1] == "ok"
    assert await fence.pending() == [entry.id for entry in delivered[:2]]


async def test_a_row_is_not_written_where_its_index_may_not_be(
    fence: Fence, delivered: list[Entry], limited: Any
) -> None:
    # The other way round the retry would find the row done, and the session would never be listed.
    user = await limited([f"{fence.keys.namespace}:*"], [], "-zadd")
    (word,) = await fence.commit(Write("a", delivered[:2], "", row_of("e1"), recent="5"), by=user)
    assert word.startswith("broken ")
    assert await fence.row("a") == {}
    assert await fence.pending() == [entry.id for entry in delivered]


# --- the feed


async def test_the_feed_is_trimmed_below_the_oldest_pending_pointer(fence: Fence, delivered: list[Entry]) -> None:
    assert await fence.commit(Write("b", delivered[2:], "", row_of("e2"))) == ["ok"]
    assert await fence.left() == [entry.id for entry in delivered]
    assert await fence.commit(Write("a", delivered[:1], "", row_of("e1"))) == ["ok"]
    assert await fence.left() == [entry.id for entry in delivered[1:]]


async def test_a_feed_of_which_nothing_is_pending_is_trimmed_up_to_what_was_delivered(
    fence: Fence, delivered: list[Entry]
) -> None:
    unread = await fence.point("b", 1)
    words = await fence.commit(Write("a", delivered[:2], "", row_of("e1")), Write("b", delivered[2:], "", row_of("e2")))
    assert words == ["ok", "ok"]
    assert await fence.left() == [unread.id]


async def test_nothing_unread_is_trimmed_after_the_group_was_lost_and_made_again(
    fence: Fence, delivered: list[Entry]
) -> None:
    await fence.redis.xgroup_destroy(fence.feed, GROUP)
    await fence.create_group()
    assert await fence.commit(Write("b", delivered[2:], "", row_of("e2"))) == ["ok"]
    assert await fence.left() == [entry.id for entry in delivered]
    assert await fence.deliver() == [entry.id for entry in delivered]


async def test_nothing_is_trimmed_while_there_is_no_group(fence: Fence, delivered: list[Entry]) -> None:
    await fence.redis.xgroup_destroy(fence.feed, GROUP)
    assert await fence.commit(Write("b", delivered[2:], "", row_of("e2"))) == ["ok"]
    assert await fence.left() == [entry.id for entry in delivered]


async def test_twenty_thousand_pointers_of_one_session_in_one_commit(fence: Fence) -> None:
    await fence.create_group()
    entries = await fence.point_all("a", 20_000)
    assert len(await fence.deliver(count=20_000)) == 20_000
    fields = {f"f{n}": "x" for n in range(1000)}
    write = Write("a", entries, "", {**row_of("e1"), **fields}, tuple(f"g{n}" for n in range(1000)))
    assert await fence.commit(write) == ["ok"]
    assert await fence.row("a") == {**row_of("e1"), **fields}
    assert (await fence.pending(), await fence.left()) == ([], [])


# --- what a script may touch


async def test_only_the_declared_keys_and_channels_are_touched(fence: Fence, limited: Any) -> None:
    # The server checks every command of a script against the keys and channels this user may touch.
    keys = [fence.feed, fence.recent, fence.working, fence.stale]
    rows, channels = [fence.keys.row(s) for s in "abc"], [fence.keys.channel(s) for s in "abc"]
    user = await limited(keys + rows, channels)
    await fence.create_group()
    a, b, c, late = [await fence.point(session) for session in "abca"]
    await fence.deliver(count=3)
    await fence.redis.set(fence.keys.row("c"), "mine")
    tombstone = {"etag": "e0", "pos": "1-1"}
    await fence.redis.hset(fence.keys.row("b"), mapping=tombstone)
    words = await fence.commit(
        Write("a", [a], "", row_of("e1"), (), ["f"], "5", "5", "m"),
        Write("b", [b], "e0", row_of("e2"), ("x",), ["f"], "5", "-", "-"),
        Write("c", [c], "", row_of("e3"), (), ["f"], "5", "5", "m"),
        by=user,
    )
    assert [word.split()[0] for word in words] == ["ok", "ok", "broken"]
    assert "WRONGTYPE" in words[2]
    assert await fence.commit(Write("a", [late], "e0"), by=user) == ["conflict"]
    assert await fence.commit(Write("a", [a], "e1"), by=user) == ["rewound"]
    await fence.deliver()
    assert await fence.commit(Write("a", [late], "e1"), by=user) == ["ok"]
    assert await fence.left() == []


async def test_retiring_touches_the_feed_alone(fence: Fence, delivered: list[Entry], limited: Any) -> None:
    user = await limited([fence.feed], [])
    await fence.redis.xgroup_createconsumer(fence.feed, GROUP, "gone")
    assert await user.eval(RETIRE, 1, fence.feed, GROUP) == 1
    assert [consumer["name"] for consumer in await fence.redis.xinfo_consumers(fence.feed, GROUP)] == [b"w"]


async def test_who_holds_pointers_or_lives_is_not_retired(fence: Fence, delivered: list[Entry]) -> None:
    for name in ("dead", "alive"):
        await fence.redis.xgroup_createconsumer(fence.feed, GROUP, name)
    assert await fence.redis.eval(RETIRE, 1, fence.feed, GROUP, "alive") == 1
    names = {consumer["name"] for consumer in await fence.redis.xinfo_consumers(fence.feed, GROUP)}
    assert names == {b"w", b"alive"}
    assert await fence.pending() == [entry.id for entry in delivered]
    assert await fence.commit(Write("a", delivered, "", row_of("e1"))) == ["ok"]
    assert await fence.redis.eval(RETIRE, 1, fence.feed, GROUP, "alive") == 0
    assert [consumer["name"] for consumer in await fence.redis.xinfo_consumers(fence.feed, GROUP)] == [b"alive"]


async def test_a_full_server_is_drained_all_the_same(own_server: Server, redis: Redis, fence: Fence) -> None:
    await fence.create_group()
    entry = await fence.point("a")
    await fence.deliver()
    await redis.config_set("maxmemory", "1")
    with pytest.raises(ResponseError, match="maxmemory"):
        await fence.point("a", 1)
    assert await fence.commit(Write("a", [entry], "", row_of("e1"), (), ["f"], "5", "5", "m")) == ["ok"]
    assert await fence.row("a") == row_of("e1")
    assert (await fence.pending(), await fence.left()) == ([], [])
