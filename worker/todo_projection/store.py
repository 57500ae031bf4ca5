"""What a process that reads needs of the store: a connection, the key names, and an error that says where."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

from redis.exceptions import RedisError

from todo_projection.cluster import open_wire
from todo_projection.retry import patiently
from todo_projection.settings import Settings
from todo_projection.wire import Wire
from todo_write.events import Keys
from todo_write.log import Client, connect

T = TypeVar("T")


class NoAnswer(RuntimeError):
    """Redis is away or refuses; the message names its address and the cause. The person at the command tries again."""


class Store(NamedTuple):
    """An open connection, the key names of its namespace, and its address without a password."""

    wire: Wire
    keys: Keys
    address: str


async def ask(settings: Settings, question: Callable[[Store], Awaitable[T]]) -> T:
    """The answer to one question; nothing is written. Raises LayoutMismatch, and NoAnswer for any redis error."""

    async def with_keys(client: Client, wire: Wire) -> T:
        return await question(Store(wire, await client.keys(create=False), client.address))

    return await reach(settings, with_keys)


async def reach(settings: Settings, question: Callable[[Client, Wire], Awaitable[T]]) -> T:
    """As ``ask``, for who does not count on a layout. Raises NoAnswer for any redis error."""
    client, wire = connect(settings), open_wire(settings.redis_url)
    try:
        return await question(client, wire)
    except (RedisError, OSError) as error:
        raise NoAnswer(f"redis at {client.address}: {error}") from error
    finally:
        await wire.aclose()
        await client.aclose()


@asynccontextmanager
async def open_store(settings: Settings, stop: asyncio.Event, *, create: bool) -> AsyncGenerator[Store | None]:
    """A store to work with for long, waited for loudly; None when ``stop`` is set first. Raises LayoutMismatch.

    ``create`` lays the namespace out when nobody has; without it nothing is written.
    """
    client, wire = connect(settings), open_wire(settings.redis_url)
    try:
        keys = await patiently(lambda: client.keys(create=create), address=client.address, stop=stop)
        yield None if keys is None else Store(wire, keys, client.address)
    finally:
        await wire.aclose()
        await client.aclose()


async def publish_command(settings: Settings) -> str:
    """PUBLISH, on a cluster SPUBLISH; raises redis errors."""
    async with connect(settings) as client:
        return await client.publish_command()
