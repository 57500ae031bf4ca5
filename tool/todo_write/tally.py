"""The tally: how the appends of a process ended, in plain numbers, for whoever watches it."""

from typing import Literal, get_args

Ending = Literal["appended", "landed", "overtaken", "not_saved", "unknown", "rewound", "invalid"]


class Tally:
    """``appends`` counts calls by how they ended.

    ``appended``; ``landed``, an earlier try of the same call had; ``overtaken`` by another writer; ``not_saved``,
    refused in the time a call has; ``unknown``, nobody answered; ``rewound``, the log had lost what it once confirmed;
    ``invalid``, anything else.
    """

    def __init__(self) -> None:
        self.appends: dict[Ending, int] = dict.fromkeys(get_args(Ending), 0)

    def count(self, ending: Ending) -> None:
        """Count one call."""
        self.appends[ending] += 1
