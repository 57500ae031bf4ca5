"""The pool of a client: what it lends can be sent on, and who waits gets it."""

import asyncio
from typing import Any

from redis.asyncio import Redis

from eventually import eventually
from todo_write.log import Client


async def test_a_connection_that_the_server_has_closed_is_not_lent(redis: Redis, client: Client) -> None:
    number = await client.ask("CLIENT", "ID")
    await redis.client_kill_filter(_id=str(number))
    assert await client.ask("CLIENT", "ID") > number


async def test_a_connection_that_owes_an_answer_is_not_lent(client: Client) -> None:
    async with client.connection() as connection:
        await connection.send_command("ECHO", "late")
    await eventually(connection.can_read)
    assert await client.ask("ECHO", "own") == b"own"


async def test_a_connection_is_lent_again(client: Client) -> None:
    assert len({await client.ask("CLIENT", "ID") for _ in range(3)}) == 1


async def test_who_finds_none_gets_the_next_that_is_free(client: Client) -> None:
    pool: Any = client.open_pool(None, 1)
    lent = await pool.get_connection()
    waiting = asyncio.create_task(pool.get_connection())
    await asyncio.sleep(0)
    assert not waiting.done()
    await pool.release(lent)
    assert await waiting is lent
    await pool.release(lent)
    await pool.aclose()
