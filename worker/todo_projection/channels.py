"""One pub/sub connection: subscriptions, their confirmations, and messages.

A connection that breaks says so and stays broken: whoever reads it opens another one and reads baselines, since what
was published meanwhile is gone.
"""

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

from redis.exceptions import ConnectionError as RedisConnectionError

from todo_write.log import leads_where_it_should

CHANNELS_PER_COMMAND = 500
SEND_S = 2.0


class Confirmed(NamedTuple):
    """The server has subscribed this connection to the channel: whatever is published from now on arrives."""

    channel: str


class Message(NamedTuple):
    """Something published on a channel."""

    channel: str
    data: bytes


class Ended(NamedTuple):
    """A channel is given up: because it was asked to be, or because its slot is served elsewhere."""

    channel: str


class Alive(NamedTuple):
    """Anything else: the answer to a ping."""


Heard = Confirmed | Message | Ended | Alive


class Channels:
    """A fresh pub/sub connection. Every call raises redis errors or OSError; then close it and open another."""

    def __init__(self, pool: Any, *, sharded: bool) -> None:
        # No time-out of redis-py's: it sends under asyncio.wait_for, which in Python 3.11 can swallow a cancellation.
        self._pool = pool
        self._connection: Any = None
        self._prefix = "S" if sharded else ""

    async def open(self) -> None:
        """Connect."""
        async with asyncio.timeout(SEND_S):
            self._connection = await self._pool.get_connection()

    async def subscribe(self, channels: Iterable[str]) -> None:
        """Ask for these channels; each is confirmed by itself."""
        await self._send(f"{self._prefix}SUBSCRIBE", channels)

    async def unsubscribe(self, channels: Iterable[str]) -> None:
        """Give these channels up."""
        await self._send(f"{self._prefix}UNSUBSCRIBE", channels)

    async def ping(self) -> None:
        """Ask for a sign of life; a half-open connection never gives one, a demoted server does."""
        async with asyncio.timeout(SEND_S):
            if not await leads_where_it_should(self._pool, self._connection):
                raise RedisConnectionError("another server is the primary now")
            await self._connection.send_command("PING")

    async def read(self, timeout_s: float) -> Heard | None:
        """The next thing the server says; None when it is silent for that long."""
        reply: object = await self._connection.read_response(timeout=timeout_s)
        if reply is None:
            return None
        match reply:
            case [b"message" | b"smessage", bytes() as channel, bytes() as data]:
                return Message(channel.decode(), data)
            case [b"subscribe" | b"ssubscribe", bytes() as channel, int()]:
                return Confirmed(channel.decode())
            case [b"unsubscribe" | b"sunsubscribe", bytes() as channel, int()]:
                return Ended(channel.decode())
            case _:
                return Alive()

    async def close(self) -> None:
        """Drop the connection; harmless when done twice."""
        self._connection = None
        try:
            await self._pool.disconnect()
        except (RedisConnectionError, OSError):
            return

    async def _send(self, command: str, channels: Iterable[str]) -> None:
        names = iter(channels)
        while page := list(islice(names, CHANNELS_PER_COMMAND)):
            async with asyncio.timeout(SEND_S):
                await self._connection.send_command(command, *page)
