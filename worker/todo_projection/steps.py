"""Steps: batches cut into pieces that can be held in memory at once. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from todo_projection.advance import LATEST
from todo_projection.span import Pointer

STEP_WEIGHT_MAX = 2048
HANDLED_WEIGHT = 12  # against 1 of an event whose data is not read: 170 in each of three lanes are 128 MiB at worst


def steps(
    batches: Mapping[int, Sequence[Pointer]], handles: frozenset[str], spares: frozenset[str] = frozenset()
) -> Iterator[dict[int, Sequence[Pointer]]]:
    """Batches in steps of at most ``STEP_WEIGHT_MAX``, by what has to be held at once; each partition in order.

    Of types in ``spares`` only the ``LATEST`` of each session count as read.
    """
    step: dict[int, Sequence[Pointer]] = {}
    weight, read = 0, Counter[str]()
    for partition, batch in batches.items():
        start = 0
        for end, pointer in enumerate(batch, 1):
            weight += 1 if pointer.type not in handles else _weight(pointer, spares, read)
            if weight >= STEP_WEIGHT_MAX:
                step[partition] = batch[start:end]
                yield step
                step, weight, start, read = {}, 0, end, Counter[str]()
        if start < len(batch):
            step[partition] = batch[start:]
    if step:
        yield step


def _weight(pointer: Pointer, spares: frozenset[str], read: Counter[str]) -> int:
    if pointer.type in spares:
        read[pointer.session] += 1
        if read[pointer.session] > LATEST:
            return 1
    return HANDLED_WEIGHT
