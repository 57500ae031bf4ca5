"""Sessions that may kill their worker: their pointers were in the hands of several workers that died. Pure.

Only a worker that died counts: not a reconnect, not a refusal of the server, not being taken over from one that lives.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from todo_projection.span import Pointer

DEATHS_ALONE = 2  # from so many deaths on, a session is projected alone
DEATHS_SKIPPED = 5  # after three more, each of them alone, its events are skipped and its values marked

Deaths = Mapping[tuple[int, bytes], int]


class Killer(NamedTuple):
    """One session's pointers in one partition, and how many workers died with one of them in hand."""

    partition: int
    session: str
    pointers: Sequence[Pointer]
    deaths: int

    @property
    def skipped(self) -> bool:
        """Whether it is not to be tried any more."""
        return self.deaths >= DEATHS_SKIPPED


def set_apart(
    batches: Mapping[int, Sequence[Pointer]], deaths: Deaths
) -> tuple[dict[int, Sequence[Pointer]], list[Killer]]:
    """Batches without the sessions that may kill, and those one by one, the least likely first."""
    rest: dict[int, Sequence[Pointer]] = {}
    killers: list[Killer] = []
    for partition, batch in batches.items():
        worst: dict[str, int] = {}
        for pointer in batch:
            died = deaths.get((partition, pointer.id), 0)
            if died >= DEATHS_ALONE:
                worst[pointer.session] = max(died, worst.get(pointer.session, 0))
        kept = [pointer for pointer in batch if pointer.session not in worst] if worst else batch
        if kept:
            rest[partition] = kept
        for session, died in worst.items():
            own = [pointer for pointer in batch if pointer.session == session]
            killers.append(Killer(partition, session, own, died))
    return rest, sorted(killers, key=lambda killer: killer.deaths)
