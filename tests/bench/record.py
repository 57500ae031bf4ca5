"""What a run found, on record: figures with the machine, the server and the versions they depend on."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import redis
from rich.console import Console

from bench.host import Machine, describe

FOLDER = Path(".bench")


class Record(msgspec.Struct, frozen=True):
    """All that is written to the JSON file of a run; ``figures`` are medians, ``rounds`` what they are medians of."""

    bench: str
    started: str
    machine: Machine
    options: dict[str, Any]
    figures: dict[str, Any]
    rounds: list[dict[str, Any]]


def record(bench: str, url: str, options: dict[str, Any], figures: dict[str, Any], rounds: list[Any]) -> Record:
    """The record of a run on the server at ``url``."""
    with redis.Redis.from_url(url) as client:
        machine = describe(client)
    return Record(bench, datetime.now(UTC).isoformat(timespec="seconds"), machine, options, figures, rounds)


def keep(found: Record, path: Path | None, console: Console) -> Path:
    """Write it to ``path``, or to a new file in ``.bench/``, and say where."""
    path = path or FOLDER / f"{found.bench}-{time.strftime('%Y%m%dT%H%M%S')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    console.print(f"written to {path}", highlight=False)
    return path
