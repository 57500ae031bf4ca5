"""How much may be under way at once."""

import asyncio

from todo_write.room import Room


async def test_room_bounds_requests_and_bytes_but_lets_in_a_large_one_alone() -> None:
    room = Room(requests_max=2, bytes_max=100)
    await room.take(60)
    too_large = asyncio.create_task(room.take(60))
    await asyncio.sleep(0)
    assert not too_large.done()
    room.give(60)
    await too_large
    await room.take(1)
    third = asyncio.create_task(room.take(1))
    await asyncio.sleep(0)
    assert not third.done()
    room.give(1)
    await third
    room.give(60)
    room.give(1)
    await room.take(1000)
