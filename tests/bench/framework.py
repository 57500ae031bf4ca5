"""FastStream's subscriber of a Redis stream, one call a message and one call a batch."""

import asyncio
from typing import Any

from faststream.redis import RedisBroker, StreamSub
from faststream.redis.annotations import Redis, RedisBatchStreamMessage, RedisStreamMessage

from bench.backlog import STREAM
from bench.loop import keep
from bench.measure import Job

GROUP = "faststream"
BATCH = 1000
SILENT: Any = None  # as its documentation turns its log lines off; its types don't know


async def drain_messages(job: Job) -> None:
    """One call a message, as its documentation shows; FastStream acknowledges each after its call."""
    broker = RedisBroker(job.url, logger=SILENT)
    left, done = job.events, asyncio.Event()

    @broker.subscriber(stream=StreamSub(STREAM, group=GROUP, consumer="one", last_id="0", max_records=BATCH))
    async def _(message: RedisStreamMessage, redis: Redis) -> None:
        nonlocal left
        async with redis.pipeline(transaction=False) as pipe:
            keep(pipe, message.raw_message["data"])
            await pipe.execute()
        left -= 1
        if not left:
            done.set()

    await _run(broker, done)


async def drain_batches(job: Job) -> None:
    """One call a batch; FastStream acknowledges it as a whole."""
    broker = RedisBroker(job.url, logger=SILENT)
    left, done = job.events, asyncio.Event()

    @broker.subscriber(
        stream=StreamSub(STREAM, group=GROUP, consumer="one", last_id="0", batch=True, max_records=BATCH)
    )
    async def _(message: RedisBatchStreamMessage, redis: Redis) -> None:
        nonlocal left
        entries = message.raw_message["data"]
        async with redis.pipeline(transaction=False) as pipe:
            for fields in entries:
                keep(pipe, fields)
            await pipe.execute()
        left -= len(entries)
        if left <= 0:
            done.set()

    await _run(broker, done)


async def _run(broker: RedisBroker, done: asyncio.Event) -> None:
    await broker.start()
    await done.wait()
    await broker.stop()  # waits for the call in hand, and so for its acknowledgement
