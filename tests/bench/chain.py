"""The middle of the bare chain, a process: XREADGROUP, then PUBLISH and XACK an event, pipelined; nothing is kept."""

import sys
from typing import Any

import redis.asyncio

from todo_projection.process import run

STREAM = "events"
GROUP = "chain"
COUNT = 128
BLOCK_MS = 1000


async def pass_on(url: str) -> None:
    """Until killed."""
    async with redis.asyncio.from_url(url, protocol=2) as client:
        while True:
            found: Any = await client.xreadgroup(GROUP, "one", {STREAM: ">"}, count=COUNT, block=BLOCK_MS)
            if not found:
                continue
            ((_, entries),) = found
            async with client.pipeline(transaction=False) as pipe:
                for id, fields in entries:
                    pipe.publish(b"updates:" + fields[b"session"], fields[b"data"])
                    pipe.xack(STREAM, GROUP, id)
                await pipe.execute()


if __name__ == "__main__":
    run(pass_on(sys.argv[1]))  # on the loop that a worker runs on
