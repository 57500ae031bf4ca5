"""Durability by choice: how far an append must have got before its caller goes on, and what is told when it has not.

An append is in the primary's memory when the script answers. Replicas and disks follow by themselves; WAIT (server 1.0)
and WAITAOF (Redis 7.2, Valkey 7.2) tell when. Neither undoes anything: a shortfall is told, and the event stands.
"""

import asyncio
from typing import Literal, NamedTuple

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from todo_write.client import exchange
from todo_write.events import Position

Durability = Literal["memory", "replicated", "fsynced"]

ANSWER_SLACK_S = 0.5


class Receipt(NamedTuple):
    """Where the events of an append stand and whether they got as far as asked; ``why`` says what is missing."""

    positions: list[Position]
    durability: Durability
    reached: bool
    why: str = ""


class Confirmation:
    """Asks once, on the very connection that wrote: the server counts the writes of that connection only."""

    def __init__(self, durability: Durability, wait_ms: int) -> None:
        self._durability: Durability = durability
        self._wait_ms = wait_ms
        self._why = "an earlier try had appended them, and how far that one got can no longer be asked"

    async def ask(self, connection: AbstractConnection) -> None:
        """Wait until the writes got there, ``wait_ms`` at most; never raises a redis error: it is the answer."""
        try:
            async with asyncio.timeout(self._wait_ms / 1000 + ANSWER_SLACK_S):
                self._why = await self._shortfall(connection)
        except RedisError as error:
            self._why = str(error)
        except (TimeoutError, OSError) as error:
            await connection.disconnect()
            self._why = str(error) or f"no answer within {self._wait_ms} ms"

    def receipt(self, positions: list[Position]) -> Receipt:
        """The receipt for these positions."""
        return Receipt(positions, self._durability, not self._why, self._why)

    async def _shortfall(self, connection: AbstractConnection) -> str:
        if self._durability == "replicated":
            replicas = await exchange(connection, "WAIT", 1, self._wait_ms)
            return "" if replicas >= 1 else f"no replica confirmed it within {self._wait_ms} ms"
        disks, _ = await exchange(connection, "WAITAOF", 1, 0, self._wait_ms)
        return "" if disks >= 1 else f"it was not on disk within {self._wait_ms} ms"
