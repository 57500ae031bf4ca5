"""The laws of the kit: each catches the unit that breaks it, and says what to do."""

import random
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from todo_projection.testing.laws import SETTINGS, LawBroken, check_unit_laws
from todo_projection.unit import InvalidUnit
from todo_write.events import Event, Unsound

SAME_EACH_TIME = hypothesis.settings(SETTINGS, derandomize=True)
SAID = st.tuples(st.just("said"), st.integers(0, 9))


class Said:
    """All numbers said, in order: a unit that keeps the laws."""

    key = "said"
    state_version = 1
    handles = frozenset({"said"})
    heals_on = frozenset[str]()
    published = True

    def init(self) -> Any:
        return []

    def apply(self, state: Any, event: Event) -> Any:
        return [*state, event.read(int)] if event.type == "said" else state

    def view(self, state: Any) -> Any:
        return state

    def encode(self, state: Any) -> bytes:
        return msgspec.json.encode(state)

    def decode(self, raw: bytes) -> Any:
        return msgspec.json.decode(raw)


class Mutating(Said):
    def apply(self, state: Any, event: Event) -> Any:
        state.append(event.seq)
        return state


class MutatingWhatItRefuses(Said):
    def apply(self, state: Any, event: Event) -> Any:
        after = super().apply(state, event)
        if len(after) > 2:
            state.clear()
            raise ValueError("too much")
        return after


class TakingWhatItDoesNotHandle(Said):
    def apply(self, state: Any, event: Event) -> Any:
        return [*state, 0]


class Copying(Said):
    """Whatever it does not handle leaves an equal state, but another."""

    def apply(self, state: Any, event: Event) -> Any:
        return list(super().apply(state, event))


class Guessing(Said):
    def apply(self, state: Any, event: Event) -> Any:
        return [*state, random.random()] if event.type == "said" else state


class KeepingForItself(Said):
    def __init__(self) -> None:
        self.count = 0

    def apply(self, state: Any, event: Event) -> Any:
        if event.type != "said":
            return state
        self.count += 1
        return [*state, self.count]


class Forgetting(Said):
    """Its state is more than its bytes tell."""

    def view(self, state: Any) -> Any:
        return sum(state)

    def encode(self, state: Any) -> bytes:
        return msgspec.json.encode(state[:2])


class ForgettingInSecret(Said):
    """Its bytes hold too little, which no view shows before the next event."""

    def init(self) -> Any:
        return [0, 0]

    def apply(self, state: Any, event: Event) -> Any:
        return [state[0] + state[1], event.read(int)] if event.type == "said" else state

    def view(self, state: Any) -> Any:
        return state[0]

    def encode(self, state: Any) -> bytes:
        return msgspec.json.encode(state[:1])

    def decode(self, raw: bytes) -> Any:
        return [*msgspec.json.decode(raw), 0]


class NotWritable(Said):
    def view(self, state: Any) -> Any:
        return state if len(state) < 2 else object()


class NotReadable(Said):
    def decode(self, raw: bytes) -> Any:
        return msgspec.json.decode(raw, type=list[int] if raw == b"[]" else dict[str, int])


class Constant(Said):
    """Tells "unchanged" by identity where a state that was read back is only equal."""

    states = tuple((number,) for number in range(10))

    def init(self) -> Any:
        return self.states[0]

    def apply(self, state: Any, event: Event) -> Any:
        return self.states[event.read(int)] if event.type == "said" else state

    def decode(self, raw: bytes) -> Any:
        return msgspec.json.decode(raw, type=tuple[int])


class HealingOnOthers(Said):
    heals_on = frozenset({"said", "heard"})


class Last(Said):
    """The last number said: one that spares all but the last event, and keeps the laws."""

    spares = heals_on = frozenset({"said"})

    def apply(self, state: Any, event: Event) -> Any:
        return [event.read(int)] if event.type == "said" else state

    def needed(self, events: Sequence[Event]) -> Sequence[Event] | None:
        for n in range(len(events) - 1, -1, -1):
            with suppress(Unsound):
                events[n].read(int)
                return events[n:]
        return None


class SparingTooMuch(Last):
    """Takes the very last for enough, though it may be poison."""

    def needed(self, events: Sequence[Event]) -> Sequence[Event] | None:
        return events[-1:]


class SparingWithoutALook(Last):
    """Its state is made of all, and it says nothing of that."""

    def apply(self, state: Any, event: Event) -> Any:
        return [*state, event.read(int)] if event.type == "said" else state


class SparingWhatDoesNotHeal(Last):
    """Passes over poison that would have left its mark."""

    heals_on = frozenset[str]()


class SparingOthers(Last):
    spares = frozenset({"said", "heard"})


class FailingToTell(Last):
    def needed(self, events: Sequence[Event]) -> Sequence[Event] | None:
        raise LookupError("no")


class Waking(Said):
    def __init__(self) -> None:
        self.count = 0

    def init(self) -> Any:
        self.count += 1
        return [self.count]


@pytest.mark.parametrize("events", [None, SAID], ids=["any data", "own events"])
@pytest.mark.parametrize("unit", [Said, Last])
def test_a_unit_that_keeps_them_passes(unit: Callable[[], Said], events: Any) -> None:
    check_unit_laws(unit(), events)


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        (Mutating, "apply is pure, but changes the state it was given"),
        (MutatingWhatItRefuses, "refuses an event and yet has changed the state"),
        (TakingWhatItDoesNotHandle, "an event it does not handle leaves the very same state"),
        (Copying, "an event it does not handle leaves the very same state"),
        (Guessing, "another state the second time"),
        (KeepingForItself, "another state the second time"),
        (Forgetting, "written down and read back"),
        (ForgettingInSecret, "takes events as before"),
        (NotWritable, "but view raises"),
        (NotReadable, "but decode raises"),
        (Constant, "any split into batches gives the same cell"),
        (HealingOnOthers, r"it heals only on events it is shown: put \['heard'\] into handles"),
        (SparingTooMuch, "needed must return more of them"),
        (SparingWithoutALook, "needed must return more of them"),
        (SparingWhatDoesNotHeal, "needed must return more of them"),
        (SparingOthers, r"it spares only events it is shown: put \['heard'\] into handles"),
        (FailingToTell, "needed raises"),
        (Waking, "init\\(\\) gives the same state"),
    ],
)
def test_a_unit_that_breaks_one_is_caught(unit: Callable[[], Said], said: str) -> None:
    with pytest.raises(LawBroken, match=f"unit 'said': .*{said}"):
        check_unit_laws(unit(), SAID, settings=SAME_EACH_TIME)


class JudgingByShape(Said):
    """Takes whatever looks like its own events."""

    def apply(self, state: Any, event: Event) -> Any:
        return [*state, event.read(dict[str, int])["number"]]


def test_foreign_events_may_look_like_ones_own() -> None:
    numbers = st.tuples(st.just("said"), st.fixed_dictionaries({"number": st.integers(0, 9)}))
    with pytest.raises(LawBroken, match="an event it does not handle"):
        check_unit_laws(JudgingByShape(), numbers, settings=SAME_EACH_TIME)


def test_a_unit_no_worker_would_mount_is_refused() -> None:
    unit = Said()
    unit.key = "etag"
    with pytest.raises(InvalidUnit, match="'etag'"):
        check_unit_laws(unit)


def test_the_log_that_breaks_a_law_is_the_smallest() -> None:
    with pytest.raises(LawBroken) as caught:
        check_unit_laws(Guessing(), SAID, settings=SAME_EACH_TIME)
    note = "".join(caught.value.__notes__)
    assert re.search(r"log=\[\(\s*'said',\s*0", note)
    assert note.count("'said'") == 1
