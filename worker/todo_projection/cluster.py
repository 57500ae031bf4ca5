"""The wire to a cluster: commands go to the primaries that serve their keys, all at once; replies stand in order."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from redis.exceptions import ClusterDownError, RedisError, TryAgainError

from todo_projection.blocked import BlockedReads
from todo_projection.wire import COMMAND_TIMEOUT_S, Command, Wire, settled
from todo_write.events import PARTITIONS_MAX
from todo_write.log import HOPS_MAX, Address, Hop, Location, Nodes, key_of, locate

TRY_AGAIN_S = 1.0  # how long a command is repeated whose keys are on their way between two nodes
TRY_AGAIN_PAUSE_S = 0.02


def open_wire(url: str, *, timeout_s: float = COMMAND_TIMEOUT_S) -> Wire:
    """The wire for a URL, whatever stands behind it."""
    location = locate(url)
    return ClusterWire(location, timeout_s=timeout_s) if location.kind == "cluster" else Wire(url, timeout_s=timeout_s)


class ClusterWire(Wire):
    """As ``Wire``. Only what a node refused because it is not the one (MOVED, ASK, TRYAGAIN) is sent again.

    The error of a node that can't be reached stands in the places of the replies to its commands: those of the others
    count.
    """

    def __init__(self, location: Location, *, timeout_s: float) -> None:
        def open_node(url: str) -> Wire:
            return Wire(url, timeout_s=timeout_s, connections_max=2 * PARTITIONS_MAX)

        self._nodes: Nodes[Wire] = Nodes(location, open_node)
        self._blocked = BlockedReads(self, self._nodes)

    async def command(self, *args: Any) -> Any:
        """Send one command and return its reply; raises its error. XREADGROUP may name feeds of any nodes."""
        if args[0] == "XREADGROUP":
            return await self._blocked.read(args)
        (reply,) = settled(await self.pipeline([args]))
        return reply

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """Send many commands, those of each node in one round trip, all nodes at once."""
        replies: list[Any] = [None] * len(commands)
        left: Mapping[int, Hop | None] = dict.fromkeys(range(len(commands)))
        hops, patient_until = 0, asyncio.get_running_loop().time() + TRY_AGAIN_S
        while left:
            sent = await self._round(commands, left, replies)
            redirected, waiting = self._sort(sent, replies)
            hops += bool(redirected)
            if hops > HOPS_MAX:
                break
            if waiting and not redirected and asyncio.get_running_loop().time() > patient_until:
                break
            if waiting and not redirected:
                await asyncio.sleep(TRY_AGAIN_PAUSE_S)
            left = {**dict.fromkeys(waiting), **redirected}
        return replies

    async def primaries(self) -> Sequence[Wire]:
        """A wire to each primary; nothing that is asked of one goes elsewhere."""
        return [self._nodes.at(address) for address in await self._nodes.primaries()]

    def forget_reads(self) -> None:
        """Drop what blocked reads have brought and nobody has taken yet: it is pending."""
        self._blocked.forget()

    async def aclose(self) -> None:
        """Close all connections; harmless when done twice."""
        await self._blocked.aclose()
        for wire in self._nodes.drop():
            await wire.aclose()

    async def _round(
        self, commands: Sequence[Command], left: Mapping[int, Hop | None], replies: list[Any]
    ) -> dict[int, Address]:
        """Send what is left, each to its node; where each went."""
        sent: dict[int, Address] = {}
        for number, hop in left.items():
            try:
                sent[number] = hop.address if hop else await self._nodes.of(key_of(commands[number]))
            except RedisError as error:
                replies[number] = error
        by_node: dict[Address, list[int]] = {}
        for number, address in sent.items():
            by_node.setdefault(address, []).append(number)
        await asyncio.gather(
            *(self._send(address, commands, left, numbers, replies) for address, numbers in by_node.items())
        )
        return sent

    async def _send(
        self,
        address: Address,
        commands: Sequence[Command],
        left: Mapping[int, Hop | None],
        numbers: Sequence[int],
        replies: list[Any],
    ) -> None:
        batch: list[Command] = []
        places: list[int] = []
        for number in numbers:
            hop = left[number]
            if hop is not None and hop.asking:
                batch.append(("ASKING",))
            places.append(len(batch))
            batch.append(commands[number])
        try:
            found = await self._nodes.at(address).pipeline(batch)
        except (RedisError, OSError) as error:
            self._nodes.doubt(address)
            for number in numbers:
                replies[number] = error
            return
        for number, place in zip(numbers, places, strict=True):
            replies[number] = found[place]

    def _sort(self, sent: Mapping[int, Address], replies: Sequence[Any]) -> tuple[dict[int, Hop | None], list[int]]:
        """What goes to another node now, and what the same one may take in a moment."""
        redirected: dict[int, Hop | None] = {}
        waiting: list[int] = []
        for number, address in sent.items():
            reply = replies[number]
            if not isinstance(reply, Exception):
                continue
            if isinstance(reply, ClusterDownError):
                self._nodes.doubt(address)
            if isinstance(reply, TryAgainError):
                waiting.append(number)
            elif hop := self._nodes.follow(reply, address):
                redirected[number] = hop
        return redirected, waiting
