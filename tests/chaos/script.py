"""What a run is made of: its numbers, the sessions and who writes them, and the names of things."""

import random
from dataclasses import dataclass

PARTITIONS = 4
NAMESPACE = "chaos"
WORKERS, WRITERS, VIEWERS = 3, 3, 2
WRITERS_OF_ONE = 2  # of every session, so that they meet
WORKER_SETTINGS = {
    "TODO_PARTITIONS": str(PARTITIONS),  # whoever comes first gives the number for life, on busy cores a worker
    "TODO_BEAT_MS": "100",
    "TODO_CLAIM_IDLE_MS": "300",
    "TODO_BLOCK_MS": "50",
    "TODO_AUDIT_RATE": "2000",
}
STEADY = tuple(f"s{n}" for n in range(20))
MORTAL = tuple(f"d{n}" for n in range(4))  # deleted now and then, and begun again by their writers
TRIMMED = tuple(f"t{n}" for n in range(4))  # their logs lose their starts
SESSIONS = (*STEADY, *MORTAL, *TRIMMED)


@dataclass(frozen=True)
class Plan:
    """What is asked of one run."""

    seed: int
    steps: int
    server: str

    @property
    def again(self) -> str:
        """How to run it once more."""
        server = "" if self.server.startswith("embedded") else f" SERVERS={self.server}"
        return f"make chaos SEEDS={self.seed} STEPS={self.steps}{server}"

    @property
    def bound_s(self) -> float:
        """When the run has hung, whatever happens in it."""
        return 240.0 + 6.0 * self.steps


def sessions_of(writer: int) -> list[str]:
    """What a writer writes: each session has ``WRITERS_OF_ONE`` of them."""
    return [s for n, s in enumerate(SESSIONS) if (writer - n) % WRITERS < WRITERS_OF_ONE]


def deck(pick: random.Random, weights: dict[str, int]) -> list[str]:
    """All blows as often as they weigh, shuffled, so that a run soon has dealt each of them."""
    cards = [name for name, weight in weights.items() for _ in range(weight)]
    pick.shuffle(cards)
    return cards
