"""A gateway that asks for tokens, with two sessions behind it, one of which is no business of most tokens."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from redis.asyncio import Redis

from projecting import projected, working
from serving import plan, serving
from sse import Http
from todo_projection.page import page_routes
from todo_projection.token_list import Line, digest
from todo_write.log import Client, SessionLog

MINE, OTHERS = "team-a/1", "team-b/1"

TOKENS = {
    "mine": Line(name="mine", sha256=digest("mine"), sessions=[MINE], events=True, board=True),
    "plans": Line(name="plans", sha256=digest("plans"), prefixes=["team-a/"]),
    "all": Line(name="all", sha256=digest("all"), all=True, events=True, board=True),
    "nothing": Line(name="nothing", sha256=digest("nothing")),
    "expired": Line(name="expired", sha256=digest("expired"), all=True, events=True, board=True, expires=1.0),
}


class Guarded(NamedTuple):
    """The gateway, and the file of its tokens."""

    http: Http
    tokens: Path


def bearer(token: str) -> Mapping[str, str]:
    return {"authorization": f"Bearer {token}"}


def write_tokens(path: Path, tokens: Mapping[str, Line] = TOKENS) -> Path:
    """Write the list whole, as an operator's editor does."""
    whole = path.with_suffix(".new")
    whole.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in tokens.values()))
    return whole.replace(path)


async def write_plans(client: Client, redis: Redis, *sessions: str) -> None:
    """A plan for each session, projected; a child of the other one for mine."""
    keys = await client.keys()
    for session in sessions:
        log = SessionLog(client, session)
        await log.append("session/start", {"label": session})
        await log.append("todo/write", plan(f"secret of {session}"))
        await projected(redis, keys, session, await log.append("todo/write", plan(f"secret of {session}", "more")))


@asynccontextmanager
async def guarding(
    client: Client, redis: Redis, folder: Path, redis_url: str, namespace: str, **settings: Any
) -> AsyncGenerator[Guarded]:
    """A worker, two sessions with plans, and a gateway that asks for tokens."""
    tokens = write_tokens(folder / "tokens.jsonl")
    async with working(redis_url, namespace):
        await write_plans(client, redis, MINE, OTHERS)
        async with serving(
            redis_url, namespace, routes=page_routes(), gateway_tokens_file=str(tokens), **settings
        ) as http:
            yield Guarded(http, tokens)
