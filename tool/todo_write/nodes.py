"""A cluster: which of its primaries serves which slot, and something of one's own for each of them."""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import AskError, MovedError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError

from todo_write.location import Address, Location

ANSWER_S = 1.0
HOPS_MAX = 8  # redirections one command follows
_KEYLESS = frozenset({"TIME", "PING", "HELLO", "INFO", "SCAN"})

T = TypeVar("T")

_logger = logging.getLogger(__name__)


class Hop(NamedTuple):
    """Where a node sends a command instead: ``asking`` just this once, while the slot is on its way there."""

    address: Address
    asking: bool


class Nodes(Generic[T]):
    """The primaries, as the cluster itself names them, and what ``make`` gives for the URL of each.

    No replica is ever among them. Raises redis errors while no node tells.
    """

    def __init__(self, location: Location, make: Callable[[str], T]) -> None:
        self._location = location
        self._make = make
        self._made: dict[Address, T] = {}
        self._owners: list[tuple[int, int, Address]] = []  # first slot, last slot, primary
        self._by_slot: dict[int, Address] = {}  # what was looked up, or told by a node since
        self._lock = asyncio.Lock()
        self._looks: int = 0
        self._stale = True
        self._doubted: Address | None = None

    async def of(self, key: str | bytes | None) -> Address:
        """The primary that serves a key, for None that of slot 0: what needs no key is asked of one and the same."""
        if self._stale:
            await self.look()
        slot = 0 if key is None else key_slot(key if isinstance(key, bytes) else key.encode())
        found = self._by_slot.get(slot)
        if found is None:
            found = next((owner for first, last, owner in self._owners if first <= slot <= last), None)
            if found is None:
                self._stale = True
                raise RedisConnectionError(f"{self._location}: no primary serves slot {slot}")
            self._by_slot[slot] = found
        return found

    def at(self, address: Address) -> T:
        """What was made for this node."""
        if address not in self._made:
            self._made[address] = self._make(self._location.at(address))
        return self._made[address]

    async def primaries(self) -> list[Address]:
        """All of them, by the first slot they serve: so a fail-over changes no place."""
        await self.look()
        return list(dict.fromkeys(owner for _, _, owner in sorted(self._owners)))

    def follow(self, error: object, asked: Address) -> Hop | None:
        """Where an error of the node ``asked`` sends a command, None for one that does not; nothing was done there."""
        if not isinstance(error, AskError):  # of which MovedError is a kind
            return None
        address = Address(error.host or asked.host, error.port)
        if isinstance(error, MovedError):
            self._by_slot[error.slot_id] = address
            self._stale = True
            return Hop(address, asking=False)
        return Hop(address, asking=True)

    def doubt(self, address: Address) -> None:
        """This node does not answer, or says that it can't: ask the others who serves what before the next command."""
        self._stale, self._doubted = True, address

    async def look(self) -> None:
        """Ask who serves what; those who ask at once share one answer."""
        seen = self._looks
        async with self._lock:
            if self._looks != seen:
                return
            owners = await self._ask()
            self._owners, self._by_slot, self._stale = owners, {}, False
            self._looks += 1

    def drop(self) -> list[T]:
        """Forget everything; what was made is returned, to be closed."""
        made, self._made = list(self._made.values()), {}
        self._owners, self._by_slot, self._stale = [], {}, True
        return made

    async def _ask(self) -> list[tuple[int, int, Address]]:
        known = list({owner for _, _, owner in self._owners})
        random.shuffle(known)  # not everybody the same one
        asked = sorted(dict.fromkeys((*known, *self._location.addresses)), key=lambda one: one == self._doubted)
        failed = ""
        for address in asked:
            try:
                return await self._slots(address)
            except (RedisError, OSError, TimeoutError) as error:
                failed = f"{address}: {str(error) or type(error).__name__}"
                _logger.debug("cluster node %s", failed)
        raise RedisConnectionError(f"{self._location}: no node tells who serves what; the last: {failed}")

    async def _slots(self, address: Address) -> list[tuple[int, int, Address]]:
        # No time-out of redis-py's: it sends under asyncio.wait_for, which in Python 3.11 can swallow a cancellation.
        redis: Any = Redis.from_url(
            self._location.at(address),
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=None,
            socket_connect_timeout=ANSWER_S,
        )
        redis.response_callbacks.clear()
        try:
            async with asyncio.timeout(ANSWER_S):
                found = await redis.execute_command("CLUSTER SLOTS")
        finally:
            await redis.aclose()
        if not found:
            raise RedisConnectionError("it serves no slot and knows none that is served")
        return [(first, last, Address((at[0] or b"").decode() or address.host, at[1])) for first, last, at, *_ in found]


def key_of(command: Sequence[Any]) -> str | bytes | None:
    """The key that says where a command belongs; all its keys share a slot. None where it has none."""
    name = command[0]
    if name in _KEYLESS:
        return None
    if name in ("EVAL", "EVALSHA"):
        key = command[3]
    elif name in ("XREAD", "XREADGROUP"):
        key = command[command.index("STREAMS") + 1]
    else:
        key = command[1]
    return cast("str | bytes", key)
