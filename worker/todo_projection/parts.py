"""The parts of a worker, put together once the server has told the layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from todo_projection.affinity import Affinity
from todo_projection.audit import Audit
from todo_projection.beats import BEATS_MISSED_MAX, Beats
from todo_projection.feed import Feeds
from todo_projection.lanes import LANES, Lanes
from todo_projection.projector import Projector
from todo_projection.rows import Rows
from todo_projection.settings import Settings
from todo_projection.tally import Tally
from todo_projection.unit import Unit
from todo_projection.wire import Wire
from todo_write.events import Keys
from todo_write.log import Client

HANDOVER_BEATS = 1.5  # a worker knows of another after one, and has ended what it was reading soon after


class Wires(NamedTuple):
    """Ways to the server: ``reads`` may block."""

    client: Client
    commands: Wire
    reads: Wire


@dataclass(frozen=True, slots=True)
class Parts:
    """What a worker works with."""

    keys: Keys
    feeds: Feeds
    lanes: Lanes
    affinity: Affinity
    rows: Rows
    projector: Projector
    beats: Beats
    audit: Audit


async def assemble(settings: Settings, units: Sequence[Unit], name: str, wires: Wires, tally: Tally) -> Parts:
    """The parts of the worker of this name; raises LayoutMismatch, or redis errors, retried by the worker."""
    keys, publish = await wires.client.keys(), await wires.client.publish_command()
    commands, versions = wires.commands, {unit.key: unit.state_version for unit in units}
    rows = Rows(commands, keys)
    missing_ms = settings.beat_ms * BEATS_MISSED_MAX
    beats = Beats(commands, keys, name, versions, missing_ms=missing_ms, audits=settings.audit_rate > 0)
    feeds = Feeds(wires.reads, commands, keys, name, lanes=LANES)
    affinity = Affinity(name, keys.partitions, handover_s=HANDOVER_BEATS * settings.beat_ms / 1000)
    return Parts(
        keys=keys,
        feeds=feeds,
        lanes=Lanes(feeds, affinity, count_max=settings.batch_max, block_ms=settings.block_ms),
        affinity=affinity,
        rows=rows,
        projector=Projector(commands, keys, units, rows, publish=publish, tally=tally, by=beats.signature),
        beats=beats,
        audit=Audit(commands, keys, versions),
    )
