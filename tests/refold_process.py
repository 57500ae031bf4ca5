"""A process that folds one session again, and prints by how many kB its memory rose above what a small one takes."""

import asyncio
import sys
from pathlib import Path

from todo_projection.feed import Feeds
from todo_projection.projector import Projector
from todo_projection.rebuild import Rebuild
from todo_projection.rows import Rows
from todo_projection.unit import mounted_units
from todo_projection.verify import Verifier
from todo_projection.wire import Wire
from todo_write.events import Keys


def peak_kb() -> int:
    """The most memory this program has held; what ``getrusage`` says begins with that of whoever started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


async def main(url: str, namespace: str, small: str, large: str) -> None:
    wire, keys, units = Wire(url), Keys(namespace, 1), mounted_units()
    peaks: list[int] = []
    for session in (small, large):
        mounted = {unit.key: unit.state_version for unit in units}
        assert (await Rebuild(wire, keys, list(mounted), mounted).ask([session])).refused == {}
        projector = Projector(wire, keys, units, Rows(wire, keys))
        batches = await Feeds(wire, wire, keys, "w").read(count_max=10, block_ms=1)
        assert (await projector.project(batches)).committed == 1
        assert [finding.sound async for finding in Verifier(wire, keys, units).verify([session])] == [True]
        peaks.append(peak_kb())
    sys.stdout.write(f"{peaks[1] - peaks[0]}\n")
    await wire.aclose()


asyncio.run(main(*sys.argv[1:]))
