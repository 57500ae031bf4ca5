"""Steps: batches cut into pieces that can be held in memory at once. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from todo_projection.span import Pointer

STEP_WEIGHT_MAX = 2048
HANDLED_WEIGHT = 8  # against 1 of an event whose data is not read: 256 in each half are 128 MiB at the very worst


def steps(batches: Mapping[int, Sequence[Pointer]], handles: frozenset[str]) -> Iterator[dict[int, Sequence[Pointer]]]:
    """Batches in steps of at most ``STEP_WEIGHT_MAX``, by what has to be held at once; each partition in order."""
    step: dict[int, Sequence[Pointer]] = {}
    weight = 0
    for partition, batch in batches.items():
        start = 0
        for end, pointer in enumerate(batch, 1):
            weight += HANDLED_WEIGHT if pointer.type in handles else 1
            if weight >= STEP_WEIGHT_MAX:
                step[partition] = batch[start:end]
                yield step
                step, weight, start = {}, 0, end
        if start < len(batch):
            step[partition] = batch[start:]
    if step:
        yield step
