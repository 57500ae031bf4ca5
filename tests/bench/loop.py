"""The loop a team writes itself with redis-py: read a batch of whole events, keep the newest plan of each session."""

from typing import Any

from redis.asyncio import Redis

from bench.backlog import STREAM
from bench.measure import Job

GROUP = "loop"
BLOCK_MS = 1000


async def drain_usual(job: Job, batch: int) -> None:
    """HSET, PUBLISH and XACK for each event: plan and position are kept and told; one pipeline a batch."""
    async with Redis.from_url(job.url) as client:
        await client.xgroup_create(STREAM, GROUP, id="0")
        plans: dict[bytes, bytes] = {}
        left = job.events
        while left:
            entries = await _read(client, batch)
            pipe = client.pipeline(transaction=False)
            for id, fields in entries:
                session = fields[b"session"]
                plan = plans[session] = plan_after(plans.get(session, b"null"), fields[b"type"], fields[b"data"])
                pipe.hset(b"plan:" + session, mapping={"todos": plan, "at": id})
                pipe.publish(b"plan:" + session, plan)
                pipe.xack(STREAM, GROUP, id)
            await pipe.execute()
            left -= len(entries)


async def drain_thrifty(job: Job, batch: int) -> None:
    """HSET and PUBLISH only for what changes a plan, no position kept; XACK for each event; one pipeline a batch."""
    async with Redis.from_url(job.url) as client:
        await client.xgroup_create(STREAM, GROUP, id="0")
        left = job.events
        while left:
            entries = await _read(client, batch)
            pipe = client.pipeline(transaction=False)
            for id, fields in entries:
                keep(pipe, fields)
                pipe.xack(STREAM, GROUP, id)
            await pipe.execute()
            left -= len(entries)


async def drain_lean(job: Job, batch: int) -> None:
    """The same with one XACK for the whole batch: the fewest commands there can be."""
    async with Redis.from_url(job.url) as client:
        await client.xgroup_create(STREAM, GROUP, id="0")
        left = job.events
        while left:
            entries = await _read(client, batch)
            pipe = client.pipeline(transaction=False)
            for _, fields in entries:
                keep(pipe, fields)
            pipe.xack(STREAM, GROUP, *(id for id, _ in entries))
            await pipe.execute()
            left -= len(entries)


def plan_after(plan: bytes, type: bytes, data: bytes) -> bytes:
    """The fold at its shortest: a plan as it was written, unchecked."""
    match type:
        case b"todo/write":
            return data
        case b"turn/start":
            return b"null"
        case _:
            return plan


def keep(pipe: Any, fields: dict[bytes, bytes]) -> None:
    """Store and tell what changes a plan, nothing else."""
    if fields[b"type"] in (b"todo/write", b"turn/start"):
        session = fields[b"session"]
        plan = plan_after(b"", fields[b"type"], fields[b"data"])
        pipe.hset(b"plan:" + session, "todos", plan)
        pipe.publish(b"plan:" + session, plan)


async def _read(client: Redis, batch: int) -> list[tuple[bytes, dict[bytes, bytes]]]:
    reply: Any = await client.xreadgroup(GROUP, "one", {STREAM: ">"}, count=batch, block=BLOCK_MS)
    return [entry for _, entries in reply for entry in entries]
