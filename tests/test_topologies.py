"""The whole path behind sentinels and on a cluster: writers, workers, carriers and commands, as on one server."""

import asyncio
import json
import secrets
from typing import Any

import pytest
from redis.asyncio import Redis

from append_vectors import VECTORS
from eventually import eventually
from fleet import Fleet
from projecting import projected, working
from running import operator
from serving import plan, serving
from sse import Http, of
from todo_projection.census import START, Census
from todo_projection.cluster import open_wire
from todo_projection.status import read_status
from todo_write.events import Position
from todo_write.log import Client, SessionLog, connect
from viewing import viewing

SESSIONS = [f"s{number}" for number in range(24)]  # of many partitions, so of all primaries
BOTH = pytest.mark.parametrize("topology", ["sentinel", "cluster"], indirect=True)


async def write_all(client: Client, *items: str) -> dict[str, Position]:
    """A plan for every session; where each was appended."""
    return {session: await SessionLog(client, session).append("todo/write", plan(*items)) for session in SESSIONS}


def todos(*items: str) -> list[dict[str, str]]:
    return [{"content": item, "status": "pending"} for item in items]


@BOTH
async def test_every_append_vector_holds(redis: Redis) -> None:
    for vector in VECTORS:
        namespace = f"t{secrets.token_hex(5)}"
        placed = vector.within(namespace)
        await placed.prepare(redis)
        placed.check_answer(await placed.ask(redis))
        await placed.check_what_stands(redis, namespace)


@BOTH
async def test_what_is_written_anywhere_is_projected_and_shown(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    async with working(redis_url, namespace), viewing(client, *SESSIONS, poll_ms=600_000) as viewer:
        await asyncio.gather(*(viewer.begun(session) for session in SESSIONS))
        for items in (("a",), ("a", "b")):
            for session, position in (await write_all(client, *items)).items():
                await projected(redis, await client.keys(), session, position)
            for session in SESSIONS:
                await viewer.shows(session, todos(*items))
        assert viewer.subscriber.views.resyncs == 0  # by frames alone
        assert await SessionLog(client, "s0").delete()
        await viewer.shows("s0", "absent")


@BOTH
async def test_two_workers_share_all_feeds_and_end_at_once(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    async with working(redis_url, namespace, claim_idle_ms=3_600_000):
        async with working(redis_url, namespace, claim_idle_ms=3_600_000):
            await write_all(client, "a")
        # What was delivered to the one that has ended is in nobody's hands: it did it before it went.
        for session, position in (await write_all(client, "b")).items():
            await projected(redis, await client.keys(), session, position)


@BOTH
async def test_the_census_finds_every_session_of_every_primary_once(redis_url: str, client: Client) -> None:
    await write_all(client, "a")
    wire = open_wire(redis_url)
    census, found = Census(wire, await client.keys()), list[str]()
    cursor: str | None = START
    while cursor is not None:
        page = await census.page(cursor, 10)
        found += page.sessions
        cursor = page.cursor
    assert sorted(found) == sorted(SESSIONS)
    assert len((await census.run()).split(",")) == len(await wire.primaries())
    await wire.aclose()


@BOTH
async def test_status_counts_what_waits_on_every_primary(redis_url: str, client: Client) -> None:
    await write_all(client, "a")
    wire = open_wire(redis_url)
    status = await read_status(wire, await client.keys(), beat_ms=1000)
    assert (status.backlog.count, status.problems) == (len(SESSIONS), [])
    await wire.aclose()


@BOTH
async def test_a_gateway_serves_plans_boards_and_events(redis_url: str, namespace: str, client: Client) -> None:
    async with working(redis_url, namespace), serving(redis_url, namespace) as http:
        await write_all(client, "a")
        await eventually(lambda: _all_shown(http), within=30)
        async with http.stream(of("s1", events=1)) as stream:
            await stream.shows("s1", todos("a"))
            for count in (1, 2, 3):
                await SessionLog(client, "s1").append("note", {"number": count})
                await stream.got("event", count)


async def _all_shown(http: Http) -> bool:
    answer: Any = (await http.get("/api/sessions")).json
    return len(answer["sessions"]) == len(SESSIONS) and all(row["state"] == "active" for row in answer["sessions"])


async def test_the_commands_work_with_the_same_url(fleet: Fleet, namespace: str) -> None:
    async with connect(fleet.cluster.url, namespace=namespace) as client, working(fleet.cluster.url, namespace):
        await write_all(client, "a")
        done = await operator(fleet.cluster.url, namespace)("verify", "--all", "--json")
        assert done.code == 0, done.err
        shown = await operator(fleet.cluster.url, namespace)("show", "s3")
        assert json.loads(shown.out)["values"]["todos"] == todos("a")


async def test_a_key_whose_tag_is_another_partitions_is_refused(fleet: Fleet, namespace: str) -> None:
    async with connect(fleet.cluster.url, namespace=namespace) as client:
        await SessionLog(client, "s0").append("x", 1)
        keys = await client.keys()
        source = b"#!lua\nreturn 1"
        wire = open_wire(fleet.cluster.url)
        other = next(session for session in SESSIONS if keys.partition(session) != keys.partition("s0"))
        (answer,) = await wire.pipeline([("EVAL", source, 2, keys.log("s0"), keys.log(other))])
        assert "CROSSSLOT" in str(answer) or "same slot" in str(answer)
        await wire.aclose()
