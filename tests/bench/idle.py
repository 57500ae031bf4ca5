"""What an idle session takes of the server's memory: ``PYTHONPATH=tests python -m bench.idle``.

Each part is what ``used_memory`` falls by when that part of all sessions is deleted, so that nothing is left out: the
server's own tables, unused ends of allocations. *Beyond* is the whole without the log and without the bytes of the
values: row, indexes and the session's share of all else.
"""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import redis
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.host import own_server
from bench.record import keep, record
from bench.stored import EVENTS_EACH, drain, fill, names, used_bytes
from todo_write.events import Keys

RECOMMENDED = ("--stream-node-max-bytes", "512", "--hash-max-listpack-value", "4096")
VALUES = ("todos", "board", "board.state")
SAMPLE = 200
WARM_UP = 300
PARTS = ("total", "log", "row", "value", "indexes", "beyond")

console = Console(width=120)


def measure(url: str, sessions: int, *, done: bool) -> dict[str, float]:
    """Bytes a session, by part; the server is empty before and behind it."""
    keys, every = Keys(), names(sessions)
    with redis.Redis.from_url(url) as client:
        empty = used_after_one_worker(client, url, keys)
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task("writing", total=sessions)
            for count in fill(client, keys, every, done=done):
                bar.update(task, completed=count)
        drain(url, sessions * EVENTS_EACH)
        total = (used_bytes(client) - empty) / sessions
        sample: Any = [client.hstrlen(keys.row(name), field) for name in every[:SAMPLE] for field in VALUES]
        value = sum(sample) / min(SAMPLE, sessions)
        row = _freed(client, map(keys.row, every)) / sessions
        partitions = range(keys.partitions)
        indexes = [name(p) for p in partitions for name in (keys.recent, keys.working, keys.stale)]
        of_indexes = _freed(client, indexes) / sessions
        log = _freed(client, map(keys.log, every)) / sessions
        client.flushall()
    return dict(zip(PARTS, (total, log, row, value, of_indexes, total - log - value), strict=True))


def used_after_one_worker(client: redis.Redis, url: str, keys: Keys) -> int:
    """Memory of the server without sessions, but with what first uses of commands and scripts take: 0.8 MB."""
    client.flushall()
    drain_nothing(client, keys)
    every = names(WARM_UP)
    for _ in fill(client, keys, every, done=False):
        pass
    drain(url, WARM_UP * EVENTS_EACH)
    client.flushall()
    drain_nothing(client, keys)
    return used_bytes(client)


def drain_nothing(client: redis.Redis, keys: Keys) -> None:
    """Feeds with their group, which are there whether or not there are sessions."""
    for partition in range(keys.partitions):
        client.xgroup_create(keys.feed(partition), "projection", id="0", mkstream=True)
        client.xadd(keys.feed(partition), {"s": "", "i": "", "o": "", "t": ""})
        client.xtrim(keys.feed(partition), maxlen=0)


def _freed(client: redis.Redis, keys: Iterable[str]) -> int:
    before = used_bytes(client)
    with client.pipeline(transaction=False) as pipe:
        for name in keys:
            pipe.delete(name)
        pipe.execute()
    return before - used_bytes(client)


async def _measure_all(sessions: int, images: list[str], json: Path | None) -> None:
    table = Table("server", "settings", "plan", *PARTS, title=f"bytes an idle session, {sessions:,} sessions")
    figures: dict[str, Any] = {}
    found: list[dict[str, Any]] = []
    last: Any = None
    for image in images:
        for settings, options in (("default", ()), ("recommended", RECOMMENDED)):
            async with own_server(image, *options) as url:
                for plan in ("open", "done"):
                    parts = await asyncio.to_thread(measure, url, sessions, done=plan == "done")
                    told = {name: round(part) for name, part in parts.items()}
                    last = record("idle", url, {"sessions": sessions, "recommended": RECOMMENDED}, figures, found)
                    figures[f"{last.machine.server}, {settings}, plan {plan}"] = told
                    found.append({"server": last.machine.server, "settings": settings, "plan": plan, **told})
                    table.add_row(last.machine.server, settings, plan, *map(str, told.values()))
    console.print(table)
    keep(last, json, console)


def main(
    sessions: Annotated[int, typer.Option(min=1, help="Sessions stored.")] = 20_000,
    image: Annotated[
        list[str] | None, typer.Option(help="A Docker image, '' for the embedded server; repeatable.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Where the result goes; default: a new file in .bench/.")] = None,
) -> None:
    """Measure with the server's defaults and with the recommended settings, an open plan and one that is done."""
    asyncio.run(_measure_all(sessions, image or [""], json))


if __name__ == "__main__":
    typer.run(main)
