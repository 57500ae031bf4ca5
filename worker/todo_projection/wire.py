"""The wire of a worker process: replies as the server sent them, errors in their places, nothing repeated unasked."""

from collections.abc import Callable, Sequence
from hashlib import sha1
from importlib.resources import files
from typing import Any, cast

import hiredis
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError

CONNECT_TIMEOUT_S = 3.0
COMMAND_TIMEOUT_S = 10.0
BLOCK_SLACK_S = 3.0

# hiredis types a command as a tuple of one.
_pack = cast("Callable[[tuple[Any, ...]], bytes]", hiredis.pack_command)

Command = tuple[Any, ...]
Call = tuple[Sequence[str], Sequence[Any]]


class PackedConnection:
    """Packs commands with hiredis: redis-py's own asyncio packing is Python, and was a worker's hottest function."""

    __slots__ = ()

    def pack_command(self, *args: Any) -> list[bytes]:
        """The command as bytes; a name of two words goes out as two arguments."""
        name = cast("str", args[0])
        return [_pack((*name.split(), *args[1:]))]


class Wire:
    """A client without redis-py's conveniences: bytes and flat lists (RESP2), and no retries.

    A silent repeat would run a script twice; who may repeat is decided where the outcome is known. Raises redis errors.
    """

    def __init__(self, url: str, *, timeout_s: float = COMMAND_TIMEOUT_S) -> None:
        pool = ConnectionPool.from_url(
            url,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=timeout_s,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            socket_keepalive=True,
        )
        pool.connection_class = type("WireConnection", (PackedConnection, pool.connection_class), {})
        self._client: Any = Redis.from_pool(pool)  # Any: redis-py's types of a raw command are incomplete
        self._client.response_callbacks.clear()

    async def command(self, *args: Any) -> Any:
        """Send one command and return its reply; raises its error."""
        return await self._client.execute_command(*args)

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """Send many commands in one round trip; an error reply stands in the place of its command's reply."""
        if not commands:
            return []
        pipe = self._client.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        return cast("list[Any]", await pipe.execute(raise_on_error=False))

    async def aclose(self) -> None:
        """Close all connections; harmless when done twice."""
        await self._client.aclose()


class Script:
    """A Lua script shipped with the package, called by its hash and sent whole where the server does not know it."""

    def __init__(self, name: str) -> None:
        self.source = files("todo_projection").joinpath(f"{name}.lua").read_bytes()
        self.sha = sha1(self.source, usedforsecurity=False).hexdigest()

    async def call_all(self, wire: Wire, calls: Sequence[Call]) -> list[Any]:
        """Run the script once for each call, in one round trip; an error stands in the place of its reply.

        A call is repeated only where the server says that it did not know the script, so did nothing.
        """
        replies = await self._send(wire, "EVALSHA", self.sha, calls)
        unknown = [n for n, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if unknown:
            again = await self._send(wire, "EVAL", self.source, [calls[n] for n in unknown])
            for n, reply in zip(unknown, again, strict=True):
                replies[n] = reply
        return replies

    async def _send(self, wire: Wire, command: str, script: str | bytes, calls: Sequence[Call]) -> list[Any]:
        return await wire.pipeline([(command, script, len(keys), *keys, *args) for keys, args in calls])


def settled(replies: Sequence[Any]) -> Sequence[Any]:
    """The replies of a pipeline; raises the first error among them."""
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies
