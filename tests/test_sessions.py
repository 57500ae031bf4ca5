"""The list of sessions: from the indexes and the rows, in order, with what can't be read told."""

import json
import re
import time
from typing import Any

import pytest
from redis.asyncio import Redis
from rich.cells import cell_len

from projecting import projected, working
from running import on_terminal, operator
from servers import Server
from todo_projection.ranking import Ranking
from todo_projection.sessions import Entry, Listing, Query, read_sessions
from todo_projection.wire import Wire
from todo_write.events import Keys, Position
from todo_write.log import Client, SessionLog

T1, T2 = 900_000, 600_000
TODO = {"content": "x", "status": "in_progress"}


def query(**asked: Any) -> Query:
    bounds: dict[str, Any] = {"stuck_ms": T1, "quiet_ms": T2}
    return Query(**bounds | asked)


def states(listing: Listing) -> dict[str, str]:
    return {entry.session_id: entry.state for entry in listing.sessions}


def only(listing: Listing) -> Entry:
    (entry,) = listing.sessions
    return entry


async def write(client: Client, redis: Redis, session: str, *events: tuple[Any, ...]) -> Position:
    """Append events and wait until a worker has projected them."""
    positions = await SessionLog(client, session).append_all(events)
    await projected(redis, await client.keys(), session, positions[-1])
    return positions[-1]


def todos(*statuses: str) -> tuple[str, dict[str, Any]]:
    return "todo/write", {"todos": [{"content": f"t{n}", "status": status} for n, status in enumerate(statuses)]}


@pytest.fixture
async def sessions_of_every_state(redis_url: str, namespace: str, client: Client, redis: Redis) -> Keys:
    """Sessions named for their states, but for quiet: that is one the others become when time passes."""
    keys = await client.keys()
    long_ago = int(time.time() * 1000) - T1 - 60_000
    async with working(redis_url, namespace):
        await write(client, redis, "unknown", todos("pending"))
        await write(client, redis, "cleared", todos("pending"), ("turn/start", {"turn": 1}))
        await write(client, redis, "empty", todos())
        await write(client, redis, "done", todos("completed", "completed"))
        await write(client, redis, "stuck", (*todos("completed", "in_progress"), long_ago))
        await write(client, redis, "active", todos("in_progress", "in_progress"))
    await redis.delete(keys.row("unknown"))
    return keys


async def test_every_session_has_the_first_state_that_fits(sessions_of_every_state: Keys, wire: Wire) -> None:
    listing = await read_sessions(wire, sessions_of_every_state, query())
    assert states(listing) == {name: name for name in ("unknown", "cleared", "empty", "done", "stuck", "active")}
    assert listing.problems == []
    quiet = await read_sessions(wire, sessions_of_every_state, query(quiet_ms=1, text="active"))
    assert only(quiet).state == "quiet"


async def test_an_entry_holds_the_board_its_position_and_why(sessions_of_every_state: Keys, wire: Wire) -> None:
    entry = only(await read_sessions(wire, sessions_of_every_state, query(state="stuck")))
    assert entry.board is not None
    assert (entry.board.done, entry.board.total, entry.board.current) == (1, 2, "t1")
    assert (entry.as_of_seq, entry.why) == (0, "in progress for 16 min")
    assert entry.epoch
    assert entry.last_event


async def test_the_newest_event_comes_first_and_the_longest_in_progress(
    sessions_of_every_state: Keys, wire: Wire
) -> None:
    recent = await read_sessions(wire, sessions_of_every_state, query(limit=3))
    assert list(states(recent)) == ["active", "stuck", "done"]
    longest = await read_sessions(wire, sessions_of_every_state, query(sort="longest"))
    assert list(states(longest)) == ["stuck", "active"]


async def test_a_text_is_looked_for_in_names_and_task(
    redis_url: str, namespace: str, client: Client, redis: Redis, wire: Wire
) -> None:
    async with working(redis_url, namespace):
        await write(client, redis, "s-1", ("session/title", {"title": "Refund a Payment"}))
        await write(client, redis, "s-2", ("session/start", {"label": "reviewer"}))
        await write(client, redis, "s-3", ("todo/write", {"todos": [{"content": "Pay", "status": "in_progress"}]}))
    keys = await client.keys()
    assert set(states(await read_sessions(wire, keys, query(text="PAY")))) == {"s-1", "s-3"}
    assert set(states(await read_sessions(wire, keys, query(text="review")))) == {"s-2"}
    assert set(states(await read_sessions(wire, keys, query(text="s-")))) == {"s-1", "s-2", "s-3"}


async def test_a_row_of_another_type_is_told_and_the_others_are_listed(
    sessions_of_every_state: Keys, wire: Wire, redis: Redis
) -> None:
    keys = sessions_of_every_state
    await redis.delete(keys.row("done"), keys.row("empty"))
    await redis.set(keys.row("done"), "not a hash")
    await redis.hset(keys.row("empty"), mapping={"pos": "1-1", "units": "board:1", "board": "{"})
    listing = await read_sessions(wire, keys, query())
    assert len(listing.sessions) == 6
    assert states(listing)["done"] == states(listing)["empty"] == "unknown"
    assert sorted(problem.partition(":")[0] for problem in listing.problems) == ["session 'done'", "session 'empty'"]


async def test_an_index_of_another_type_is_told_and_the_others_are_listed(
    sessions_of_every_state: Keys, wire: Wire, redis: Redis
) -> None:
    keys = sessions_of_every_state
    index = keys.recent(keys.partition("done"))
    await redis.delete(index)
    await redis.set(index, "not a set")
    listing = await read_sessions(wire, keys, query())
    assert set(states(listing)) == {"unknown", "cleared", "empty", "stuck", "active"}
    assert len(listing.problems) == 1
    assert index in listing.problems[0]


@pytest.mark.parametrize("page", [1, 7, 1000])
@pytest.mark.parametrize("highest_first", [True, False])
async def test_many_indexes_are_one_order(
    page: int, highest_first: bool, namespace: str, redis: Redis, wire: Wire
) -> None:
    indexes = [f"{namespace}:index:{n}" for n in range(5)]
    scores = {f"s{n}": (n * 7919) % 300 for n in range(300)}  # each once, in a muddled order, unevenly spread
    for n, (session, score) in enumerate(scores.items()):
        await redis.zadd(indexes[min(n % 9, 4)], {session: score})
    ranking = Ranking(wire, indexes, page=page, highest_first=highest_first)
    found = [ranked async for chunk in ranking.chunks() for ranked in chunk]
    assert found == sorted(scores.items(), key=lambda pair: pair[1], reverse=highest_first)


async def test_a_session_that_moves_while_it_is_read_comes_once(namespace: str, redis: Redis, wire: Wire) -> None:
    index = f"{namespace}:index"
    await redis.zadd(index, {"a": 3, "b": 2, "c": 1})
    found: list[str] = []
    async for chunk in Ranking(wire, [index], page=1, highest_first=True).chunks():
        found += [ranked.session for ranked in chunk]
        await redis.zadd(index, {"newest": 4})  # pushes everybody down by one
    assert found == ["a", "b", "c"]


async def test_nothing_is_found_by_looking_through_all_keys(
    own_server: Server, namespace: str, client: Client, redis: Redis, wire: Wire
) -> None:
    async with working(own_server.url, namespace):
        await write(client, redis, "s1", todos("pending"))
        await redis.config_resetstat()
        await read_sessions(wire, await client.keys(), query(text="nothing has this"))
        used: Any = await redis.info("commandstats")
    assert "cmdstat_zrange" in used
    assert not {"cmdstat_scan", "cmdstat_keys", "cmdstat_zscan"} & set(used)


@pytest.mark.usefixtures("sessions_of_every_state")
async def test_the_command_lists_for_programs_and_for_people(redis_url: str, namespace: str) -> None:
    command = operator(redis_url, namespace)
    asked = await command("sessions", "--state", "done", "--json")
    assert asked.code == 0, asked.err
    (entry,) = json.loads(asked.out)["sessions"]
    assert {"sessionId": "done", "state": "done", "why": "all 2 completed", "asOfSeq": 0}.items() <= entry.items()
    table = await command("sessions")
    assert len(table.out.splitlines()) == 7
    assert "\x1b" not in table.out
    bounded = await command("sessions", "--stuck-ms", "10000000", "--state", "stuck")
    assert "no session found" in bounded.out


async def test_a_terminal_gets_no_control_character_of_a_session(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    nasty = {"content": "wipe \x1b[2J \u202eeslaf\u2066 \x9b31m [red]x[/] [/nothing]", "status": "in_progress"}
    async with working(redis_url, namespace):
        await write(client, redis, "s1", ("todo/write", {"todos": [nasty]}), ("session/title", {"title": "a\x07\rb"}))
    command = operator(redis_url, namespace)
    for arguments in (["sessions"], ["show", "s1"], ["watch", "--once", "s1"]):
        async with on_terminal(command, *arguments, width=150) as (shown, terminal):
            assert await shown.ended() == 0
            await terminal.says("[red]x[/] [/nothing]")
        assert not {"\u202e", "\u2066", "\x9b", "\x07"} & set(terminal.shown)
        assert "\x1b[2J" not in terminal.shown
        assert "\rb" not in terminal.shown


async def test_a_narrow_terminal_cuts_the_texts_and_keeps_the_figures(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    long = {"content": "計画を立てるための長い長い作業の名前 and its explanation", "status": "in_progress"}
    session = "a-session-with-a-rather-long-name"
    async with working(redis_url, namespace):
        await write(client, redis, session, ("todo/write", {"todos": [long]}), ("session/title", {"title": "計" * 40}))
    async with on_terminal(operator(redis_url, namespace), "sessions", width=60) as (shown, terminal):
        assert await shown.ended() == 0
        await terminal.says("active")
    rows = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown).splitlines()
    assert len(rows) == 2
    assert all(cell_len(row) <= 60 for row in rows)
    assert re.search(r"^a-sess.*…  ─+   0/1  計画.*…  active  \d+ s\s*$", rows[1]), rows[1]
