"""append.lua, the write protocol: what each reply means, and that only a proven move moves."""

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

SCRIPT = (Path(todo_write.__file__).parent / "append.lua").read_text()
FUTURE = 4_000_000_000_000  # ms: a clock in the year 2096; epochs above it are set by the row alone

pytestmark = pytest.mark.every_server


class Wire(Stored):
    """The protocol as any language speaks it."""

    async def append(self, expected: str, expected_op: str, op: str, *types: str) -> list[str]:
        """One try, an event for each type; the reply in words."""
        events = [(type, str(number), json.dumps({"by": op})) for number, type in enumerate(types or ("x",))]
        arguments = [self.session, expected, expected_op, op, *itertools.chain(*events)]
        return await self.run(self._redis, *arguments)

    async def run(self, redis: Any, *arguments: str) -> list[str]:
        reply = await redis.eval(SCRIPT, 3, self.log, self.feed, self.row, *arguments)
        return [word.decode() for word in reply]

    async def begin(self, op: str = "a") -> str:
        """Begin the log with one event; its position."""
        word, first, last = await self.append("new", "", op)
        assert (word, first) == ("ok", last)
        return last

    async def floor(self, epoch: int) -> None:
        """A row of an earlier log, which sets the epoch of the next."""
        await self._redis.hset(self.row, "pos", f"{epoch}-7")

    async def ops(self) -> list[str]:
        return [fields.get("op", "") for _, fields in await self.entries()]


@pytest.fixture
def wire(redis: Redis, namespace: str) -> Wire:
    return Wire(redis, namespace, "s1")


def after(position: str, by: int = 1) -> str:
    epoch, seq = position.split("-")
    return f"{epoch}-{int(seq) + by}"


def epoch_of(position: str) -> int:
    return int(position.partition("-")[0])


async def test_the_first_event_of_a_log_is_number_0_of_an_epoch_by_the_servers_clock(redis: Redis, wire: Wire) -> None:
    seconds, micros = await redis.time()
    word, first, last = await wire.append("new", "", "a")
    assert (word, first) == ("ok", last)
    assert first.endswith("-0")
    assert 0 <= epoch_of(first) - (seconds * 1000 + micros // 1000) < 10_000


async def test_ok_appends_behind_the_expected_event_and_points_to_each_event(wire: Wire) -> None:
    start = await wire.begin()
    assert await wire.append(start, "a", "b", "turn/start", "todo/write") == ["ok", after(start), after(start, 2)]
    assert await wire.entries() == [
        (start, {"type": "x", "time": "0", "op": "a", "data": '{"by": "a"}'}),
        (after(start), {"type": "turn/start", "time": "0", "op": "b", "data": '{"by": "b"}'}),
        (after(start, 2), {"type": "todo/write", "time": "1", "op": "b", "data": '{"by": "b"}'}),
    ]
    assert await wire.pointers() == [
        {"s": "s1", "i": start, "o": "a", "t": "x"},
        {"s": "s1", "i": after(start), "o": "b", "t": "turn/start"},
        {"s": "s1", "i": after(start, 2), "o": "b", "t": "todo/write"},
    ]


async def test_landed_is_told_to_a_repeat_whose_earlier_try_got_there(wire: Wire) -> None:
    first = await wire.begin()
    assert await wire.append("new", "", "a") == ["landed", first, first]
    await wire.append(first, "a", "b", "x", "y", "z")
    await wire.append(after(first, 3), "b", "c")
    assert await wire.append(first, "a", "b", "x", "y", "z") == ["landed", after(first), after(first, 3)]
    assert await wire.ops() == ["a", "b", "b", "b", "c"]
    assert len(await wire.pointers()) == 5


async def test_moved_is_told_when_another_stands_behind_the_expected_event(wire: Wire) -> None:
    first = await wire.begin()
    assert await wire.append("new", "", "b") == ["moved", first, "a"]
    await wire.append(first, "a", "c")
    assert await wire.append(first, "a", "b") == ["moved", after(first), "c"]
    assert await wire.ops() == ["a", "c"]


async def test_rewound_is_told_when_the_tail_is_lower(wire: Wire) -> None:
    first = await wire.begin()
    assert await wire.append(after(first), "b", "c") == ["rewound", first, "a"]
    assert await wire.ops() == ["a"]


async def test_rewound_is_told_when_the_log_is_of_another_epoch(wire: Wire) -> None:
    first = await wire.begin()
    for other in (epoch_of(first) - 1, epoch_of(first) + 1):
        assert await wire.append(f"{other}-0", "a", "c") == ["rewound", first, "a"]
    await wire.append(first, "a", "b")
    for other in (epoch_of(first) - 1, epoch_of(first) + 1):
        assert await wire.append(f"{other}-0", "a", "c") == ["rewound", after(first), "b"]
    assert await wire.ops() == ["a", "b"]


async def test_rewound_is_told_when_there_is_no_log(redis: Redis, wire: Wire) -> None:
    assert await wire.append("1764517000000-3", "a", "b") == ["rewound", "", ""]
    assert await redis.exists(wire.log, wire.feed, wire.row) == 0


async def test_rewound_is_told_when_another_op_stands_at_the_tail_one_expects(wire: Wire) -> None:
    first = await wire.begin()
    assert await wire.append(first, "other", "b") == ["rewound", first, "a"]
    assert await wire.ops() == ["a"]


async def test_rewound_is_told_when_another_op_stands_where_one_expects_and_the_log_went_on(wire: Wire) -> None:
    first = await wire.begin()
    await wire.append(first, "a", "b")
    assert await wire.append(first, "other", "c") == ["rewound", after(first), "b"]
    assert await wire.ops() == ["a", "b"]


async def test_rewound_is_told_when_only_a_part_of_the_call_stands(redis: Redis, wire: Wire) -> None:
    first = await wire.begin()
    await wire.append(first, "a", "b", "x", "y")
    await redis.xdel(wire.log, after(first, 2))
    assert await wire.append(first, "a", "b", "x", "y") == ["rewound", after(first), "b"]
    assert await wire.append("new", "", "a", "x", "y") == ["rewound", after(first), "b"]


async def test_unknown_is_told_when_the_wanted_entry_was_trimmed(redis: Redis, wire: Wire) -> None:
    first = await wire.begin()
    await wire.append(first, "a", "b", "x", "y", "z")
    await redis.xtrim(wire.log, minid=after(first, 2), approximate=False)
    assert await wire.append(first, "a", "c") == ["unknown", after(first, 3), "b"]
    assert await wire.append("new", "", "c") == ["unknown", after(first, 3), "b"]
    assert await wire.ops() == ["b", "b"]


async def test_unknown_is_told_when_the_expected_entry_was_trimmed(redis: Redis, wire: Wire) -> None:
    first = await wire.begin()
    await wire.append(first, "a", "b", "x", "y")
    await redis.xtrim(wire.log, minid=after(first), approximate=False)
    assert await wire.append(first, "a", "c") == ["unknown", after(first, 2), "b"]
    assert await wire.append(first, "a", "b", "x", "y") == ["landed", after(first), after(first, 2)]


async def test_a_tail_that_nobody_of_ours_wrote_has_no_op(redis: Redis, wire: Wire) -> None:
    await redis.xadd(wire.log, {"hello": "world"}, id="1764517000000-4")
    assert await wire.append("new", "", "a") == ["unknown", "1764517000000-4", ""]
    assert await wire.append("1764517000000-4", "b", "a") == ["rewound", "1764517000000-4", ""]
    assert await wire.append("1764517000000-4", "", "a") == ["ok", "1764517000000-5", "1764517000000-5"]


@pytest.mark.parametrize("place", ["log", "feed", "row"])
async def test_a_key_of_another_type_is_refused_before_the_first_write(redis: Redis, wire: Wire, place: str) -> None:
    key = {"log": wire.log, "feed": wire.feed, "row": wire.row}[place]
    await redis.set(key, "mine")
    with pytest.raises(ResponseError, match=re.escape(f"WRONGTYPE {key} is a string, not a ")):
        await wire.append("new", "", "a")
    assert await redis.exists(wire.log, wire.feed, wire.row) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["s1", "new", "", "a"],
        ["s1", "new", "", "a", "x", "1"],
        ["s1", "new", "", "", "x", "1", "{}"],
        ["s1", "tail", "", "a", "x", "1", "{}"],
    ],
)
async def test_a_malformed_request_is_refused(redis: Redis, wire: Wire, arguments: list[str]) -> None:
    with pytest.raises(ResponseError, match="append takes KEYS log feed row, ARGV"):
        await wire.run(redis, *arguments)
    assert await redis.exists(wire.log, wire.feed) == 0


async def test_the_epoch_is_above_the_one_the_row_remembers(wire: Wire) -> None:
    await wire.floor(FUTURE)
    assert await wire.begin() == f"{FUTURE + 1}-0"


async def test_the_epoch_is_above_the_one_of_an_emptied_log(redis: Redis, wire: Wire) -> None:
    await redis.xadd(wire.log, {"type": "x"}, id=f"{FUTURE}-9")
    await redis.xtrim(wire.log, maxlen=0, approximate=False)
    assert await wire.begin() == f"{FUTURE + 1}-0"


async def test_numbers_are_written_without_an_exponent(wire: Wire) -> None:
    await wire.floor(8_999_999_999_999_998)
    first = await wire.begin()
    assert first == "8999999999999999-0"
    assert await wire.append(first, "a", "b") == ["ok", after(first), after(first)]


async def test_only_the_declared_keys_are_touched(redis: Redis, wire: Wire) -> None:
    # The server checks every command of a script against the keys this user may touch.
    server: Any = redis
    await server.acl_setuser(
        "only", enabled=True, nopass=True, keys=[wire.log, wire.feed, wire.row], commands=["+@all"], reset=True
    )
    url = redis.connection_pool.connection_kwargs
    user = Redis(host=url["host"], port=url["port"], username="only", password="any")
    try:
        words: list[str] = []
        for request in (
            ("new", "", "a"),
            ("new", "", "a"),
            ("new", "", "b"),
            ("E-0", "a", "b"),
            ("E-0", "other", "c"),
            ("E-9", "a", "c"),
        ):
            first = (await wire.ids())[0] if words else ""
            expected = request[0].replace("E", first.split("-")[0])
            words.append((await wire.run(user, "s1", expected, *request[1:], "x", "1", "{}"))[0])
        await redis.xtrim(wire.log, maxlen=1, approximate=False)
        words.append((await wire.run(user, "s1", "new", "", "c", "x", "1", "{}"))[0])
        assert words == ["ok", "landed", "moved", "ok", "rewound", "rewound", "unknown"]
    finally:
        await user.aclose()
        await server.acl_deluser("only")


async def test_a_full_server_refuses_before_the_first_write(own_server: Server, redis: Redis, wire: Wire) -> None:
    first = await wire.begin()
    await redis.config_set("maxmemory", "1")
    with pytest.raises(ResponseError, match="command not allowed when used memory"):
        await wire.append(first, "a", "b", "x", "y")
    assert await wire.ids() == [first]
    assert len(await wire.pointers()) == 1


async def test_trace_1_an_event_lost_by_a_fail_over_is_told_though_another_took_its_position(wire: Wire) -> None:
    await wire.floor(FUTURE)  # so that both histories have the same epoch
    nothing = await wire.copy()
    first = await wire.begin("w0")
    await wire.fail_over(nothing)
    assert await wire.append("new", "", "w1") == ["ok", first, first]  # a delayed "new" of another writer
    assert await wire.append(first, "w0", "w0-next") == ["rewound", first, "w1"]
    assert await wire.ops() == ["w1"]


@pytest.mark.parametrize("same_epoch", [True, False])
async def test_trace_2_a_call_does_not_move_into_another_history(wire: Wire, same_epoch: bool) -> None:
    await wire.floor(FUTURE)
    first = await wire.begin("w1")
    assert await wire.append("new", "", "w0") == ["moved", first, "w1"]  # one more "new" of w0 is under way
    await wire.fail_over({wire.log: None, wire.feed: None})
    if not same_epoch:
        await wire.floor(FUTURE + 5)
    word, again, _ = await wire.append("new", "", "w0")
    assert (word, again == first) == ("ok", same_epoch)
    assert await wire.append(first, "w1", "w0") == ["rewound", again, "w0"]
    assert await wire.ops() == ["w0"]


async def test_trace_3_a_log_trimmed_between_try_and_repeat_is_not_taken_for_moved(redis: Redis, wire: Wire) -> None:
    first = await wire.begin()
    await wire.append(first, "a", "b")  # its answer is lost
    await wire.append(after(first), "b", "c", "x", "y")
    await redis.xtrim(wire.log, maxlen=1, approximate=False)
    assert await wire.append(first, "a", "b") == ["unknown", after(first, 3), "c"]
    assert await wire.ops() == ["c"]


async def test_trace_4_a_log_begun_again_under_a_slower_clock_is_above_the_surviving_row(
    redis: Redis, wire: Wire
) -> None:
    await redis.xadd(wire.log, {"type": "x", "op": "a"}, id=f"{FUTURE}-0")  # begun under a clock far ahead
    await wire.floor(FUTURE)  # and folded
    await wire.fail_over({wire.log: None, wire.feed: None})
    assert epoch_of(await wire.begin()) > FUTURE, "the row would take the new log for folded already"


async def test_a_delayed_try_finds_its_place_taken(wire: Wire) -> None:
    first = await wire.begin()
    await wire.append(first, "a", "mine")  # the repeat was faster than the first try
    await wire.append(after(first), "mine", "next")
    assert (await wire.append(first, "a", "mine"))[0] == "landed"
    assert await wire.ops() == ["a", "mine", "next"]
