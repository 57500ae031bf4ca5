"""append.lua answers and writes what the conformance vectors say, on every server: what other languages rely on."""

import pytest
from redis.asyncio import Redis

from append_vectors import VECTORS, Vector


@pytest.mark.every_server
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
async def test_a_call_is_answered_and_stored_as_the_vector_says(redis: Redis, namespace: str, vector: Vector) -> None:
    vector = vector.within(namespace)
    await vector.prepare(redis)
    vector.check_answer(await vector.ask(redis))
    await vector.check_what_stands(redis, namespace)


def test_the_vectors_hold_every_reply() -> None:
    words = {vector.reply[0] for vector in VECTORS if vector.reply}
    assert words == {"ok", "landed", "moved", "rewound", "unknown"}
    assert sum(vector.error is not None for vector in VECTORS) == 8
