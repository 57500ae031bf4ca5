"""What the sessions of a benchmark write: mixes of events, the same ones at every run."""

import random
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from todo_write.events import TODO_WRITE, TURN_START

ITEMS = 8
PLANS = 64
MESSAGE = "assistant/message"
MESSAGE_BYTES = 300
SEED = 20


class Written(NamedTuple):
    """One event of a mix, before it has a place in a log; ``data`` is JSON."""

    session: str
    type: str
    data: bytes


class Mix(NamedTuple):
    """Shares of plan writes and turn starts among the events; the rest are messages nobody projects.

    ``flood`` is the share of all events that one session writes; the others write the rest in equal parts. ``one_log``
    puts all events into a single session, whatever number of them is asked for.
    """

    name: str
    about: str
    writes: float
    turns: float
    flood: float = 0.0
    one_log: bool = False

    def events(self, count: int, sessions: int) -> Iterator[Written]:
        """``count`` events of this many sessions, in the order in which they are written."""
        dice = random.Random(SEED)
        plans = [_plan(number, done) for number in range(PLANS) for done in range(ITEMS + 1)]
        message = msgspec.json.encode({"text": "x" * (MESSAGE_BYTES - len('{"text":""}'))})
        names = [f"session-{number:06d}" for number in range(sessions)]
        for number in range(count):
            session = names[0] if dice.random() < self.flood else dice.choice(names)
            what = dice.random()
            if what < self.writes:
                yield Written(session, TODO_WRITE, dice.choice(plans))
            elif what < self.writes + self.turns:
                yield Written(session, TURN_START, b'{"turn":%d}' % number)
            else:
                yield Written(session, MESSAGE, message)


MIXES = {
    mix.name: mix
    for mix in (
        Mix("real", "5 % writes of 8 items, 2 % turn starts, rest 300 bytes", writes=0.05, turns=0.02),
        Mix("heavy", "two of three events are writes of 8 items", writes=2 / 3, turns=0.02),
        Mix("chatty", "the real mix, nine of ten events from one session", writes=0.05, turns=0.02, flood=0.9),
        Mix("import", "the real mix in one long log", writes=0.05, turns=0.02, one_log=True),
    )
}


def _plan(number: int, done: int) -> bytes:
    """A plan of eight items, the first ``done`` of them completed and the next in progress."""
    statuses = ["completed"] * done + ["in_progress"] + ["pending"] * ITEMS
    todos = [
        {"content": f"Plan {number}, step {step + 1}: look, mend, test", "status": statuses[step]}
        for step in range(ITEMS)
    ]
    return msgspec.json.encode({"todos": todos})
