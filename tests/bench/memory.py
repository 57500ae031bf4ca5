"""How much memory of the server a session takes: PYTHONPATH=tests python -m bench.memory

Events of a mix are written by the product's own script and projected by a worker, on a server that comes with the
project; then the server is asked for what its keys take.
"""

import argparse
import asyncio
import json
from typing import Any

import redis

from bench.backlog import load_logs
from bench.mix import MIXES
from eventually import eventually
from projecting import working
from todo_projection.embedded import embedded_server
from todo_write.events import Keys

NAMESPACE, PARTITIONS = "bench", 64
SAMPLE = 200
DRAINED_S = 300.0


async def _measure(mix: str, sessions: int, each: int, node_bytes: int) -> dict[str, Any]:
    keys = Keys(NAMESPACE, PARTITIONS)
    options = ("--stream-node-max-bytes", str(node_bytes))
    async with embedded_server(*options) as url:
        with redis.Redis.from_url(url) as client:
            before = _used(client)
            await asyncio.to_thread(load_logs, client, keys, MIXES[mix].events(sessions * each, sessions))
            async with working(url, NAMESPACE):
                await eventually(lambda: _drained(client, keys), within=DRAINED_S)
            names = [f"session-{number:06d}" for number in range(0, sessions, max(1, sessions // SAMPLE))]
            return {
                "mix": mix,
                "sessions": sessions,
                "events a session": each,
                "stream-node-max-bytes": node_bytes,
                "bytes a session": round((_used(client) - before) / sessions),
                "of them its log": _mean(client, [keys.log(name) for name in names]),
                "its row": _mean(client, [keys.row(name) for name in names]),
            }


def _drained(client: redis.Redis, keys: Keys) -> bool:
    return not any(client.xlen(keys.feed(partition)) for partition in range(PARTITIONS))


def _used(client: redis.Redis) -> int:
    info: Any = client.info("memory")
    return int(info["used_memory"])


def _mean(client: redis.Redis, names: list[str]) -> int:
    sizes: list[Any] = [client.memory_usage(name, samples=0) or 0 for name in names]
    return int(sum(sizes) / len(sizes))


def main() -> None:
    """Print a line of JSON for each number of events, with the nodes of deploy/redis.conf and the default ones."""
    parser = argparse.ArgumentParser(prog="bench.memory")
    parser.add_argument("--mix", choices=MIXES, default="real")
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--events", type=int, nargs="+", default=[1, 10, 100])
    given = parser.parse_args()
    for each in given.events:
        for node_bytes in (512, 4096):
            print(json.dumps(asyncio.run(_measure(given.mix, given.sessions, each, node_bytes))), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
