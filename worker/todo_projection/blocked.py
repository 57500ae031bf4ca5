"""Blocked reads of a cluster: one connection a feed, since one command can't wait for keys of several slots."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from redis.exceptions import RedisError, ResponseError

from todo_projection.wire import Command, Wire, settled
from todo_write.log import Nodes


class Pipelines(Protocol):
    """What sends commands to where they belong."""

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """An error stands in the place of its command's reply."""
        ...


class BlockedReads:
    """XREADGROUP over feeds of any slots.

    What is there is read without blocking, in one round trip a node; only when there is nothing a read is left waiting
    on each feed, from call to call until it brings something. What it brings is pending from then on, so after an
    error it may be dropped and be read as such.
    """

    def __init__(self, wire: Pipelines, nodes: Nodes[Wire]) -> None:
        self._wire = wire
        self._nodes = nodes
        self._waiting: dict[str, asyncio.Task[Any]] = {}

    async def read(self, command: Command) -> list[Any]:
        """The reply to an XREADGROUP of several feeds, as one server would give it; raises redis errors."""
        head, block_ms, feeds = _taken_apart(command)
        found = self._arrived()
        asked = [feed for feed in feeds if feed not in self._waiting]
        replies = settled(await self._wire.pipeline([(*head, "STREAMS", feed, ">") for feed in asked]))
        found += [one for reply in replies for one in reply or ()]
        if block_ms is None:
            return found
        loop = asyncio.get_running_loop()
        ends = loop.time() + block_ms / 1000
        while not found and (left_s := ends - loop.time()) > 0:
            for feed in feeds:
                if feed not in self._waiting:
                    self._waiting[feed] = asyncio.create_task(self._wait((*head, "BLOCK", block_ms), feed))
            await asyncio.wait(self._waiting.values(), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            found = self._arrived()
        return found

    def forget(self) -> None:
        """Drop what has arrived."""
        for feed, task in list(self._waiting.items()):
            if task.done():
                task.exception()  # looked at, or asyncio complains
                del self._waiting[feed]

    async def aclose(self) -> None:
        """End all waiting; harmless when done twice."""
        tasks = list(self._waiting.values())
        self._waiting.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _arrived(self) -> list[Any]:
        found: list[Any] = []
        failed: BaseException | None = None
        for feed, task in list(self._waiting.items()):
            if not task.done():
                continue
            del self._waiting[feed]
            failed = failed or task.exception()
            if task.exception() is None:
                found += task.result() or ()
        if failed is not None:
            raise failed
        return found

    async def _wait(self, head: Command, feed: str) -> Any:
        address = await self._nodes.of(feed)
        try:
            return await self._nodes.at(address).command(*head, "STREAMS", feed, ">")
        except ResponseError as error:
            # The slot went elsewhere, or its server is no primary any more: the next read asks whoever serves it.
            if self._nodes.follow(error, address) is not None:
                return None
            if str(error).startswith("UNBLOCKED"):
                self._nodes.doubt(address)
                return None
            raise
        except (RedisError, OSError):
            self._nodes.doubt(address)
            raise


def _taken_apart(command: Command) -> tuple[Command, int | None, list[str]]:
    """An XREADGROUP without BLOCK and feeds, how long it may block (None: not at all), and the feeds."""
    at = command.index("STREAMS")
    head, feeds = command[:at], command[at + 1 : at + 1 + (len(command) - at - 1) // 2]
    if "BLOCK" not in head:
        return head, None, list(feeds)
    block = head.index("BLOCK")
    return (*head[:block], *head[block + 2 :]), int(head[block + 1]), list(feeds)
