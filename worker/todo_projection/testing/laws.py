"""The laws every unit must keep, as one property that runs over logs nobody thought of."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NoReturn

import hypothesis
import msgspec
from hypothesis import HealthCheck
from hypothesis import strategies as st

from todo_projection.fold import Fold
from todo_projection.row import Cell
from todo_projection.unit import Unit, check_units, needed, spared
from todo_write.events import Event

EPOCH = 1764517000000
EVENTS_MAX = 12
UNHANDLED = "test/unhandled"
SETTINGS = hypothesis.settings(
    max_examples=100,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],  # how fast a strategy is on a busy machine is no law of a unit
)

Sent = tuple[str, Any]  # type of an event, and its data as a JSON value

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


class LawBroken(AssertionError):
    """A unit breaks a law; the message names the unit, the law and what to do about it."""


def check_unit_laws(
    unit: Unit, events: st.SearchStrategy[Sent] | None = None, *, settings: hypothesis.settings = SETTINGS
) -> None:
    """Fold logs of these events, mixed with broken and foreign ones, and compare; raises LawBroken with such a log.

    ``events`` gives the type and the data of one event; without it data is any JSON, which a unit mostly refuses: give
    events it takes. Raises InvalidUnit for a declaration no worker mounts. Not to be called inside a ``@given``.
    """
    check_units([unit])
    _check_declaration(unit)

    @settings
    @hypothesis.given(log=st.lists(_any_event(unit, events), max_size=EVENTS_MAX), data=st.data())
    def laws(log: list[Sent], data: st.DataObject) -> None:
        stored = [
            Event(type, seq, EPOCH + seq, msgspec.Raw(msgspec.json.encode(sent)))
            for seq, (type, sent) in enumerate(log)
        ]
        state = unit.init()
        for event in stored:
            state = _check_event(unit, state, event)
        _check_batches(unit, stored, data)
        _check_sparing(unit, stored, data)

    laws()


def _any_event(unit: Unit, events: st.SearchStrategy[Sent] | None) -> st.SearchStrategy[Sent]:
    known = JSON if events is None else events.map(lambda sent: sent[1])
    foreign = st.tuples(st.just(UNHANDLED), JSON | known)
    if not unit.handles:
        return foreign
    broken = st.tuples(st.sampled_from(sorted(unit.handles)), JSON)
    return foreign | broken if events is None else events | events | broken | foreign


def _check_declaration(unit: Unit) -> None:
    if not unit.heals_on <= unit.handles:
        others = sorted(unit.heals_on - unit.handles)
        _break(unit, f"it heals only on events it is shown: put {others} into handles, or take them out of heals_on")
    if not spared(unit) <= unit.handles:
        others = sorted(spared(unit) - unit.handles)
        _break(unit, f"it spares only events it is shown: put {others} into handles, or take them out of spares")
    if UNHANDLED in unit.handles:
        _break(unit, f"{UNHANDLED!r} stands for an event nobody handles: take another type")
    if _written(unit, unit.init()) != _written(unit, unit.init()):
        _break(unit, "init() gives the same state every time")


def _applied(unit: Unit, state: Any, event: Event) -> tuple[bool, Any]:
    """Whether the unit took the event, and the state from then on: one it refuses leaves the state as it is."""
    try:
        return True, unit.apply(state, event)
    except Exception:  # noqa: BLE001  whatever a unit raises, the event is poison to it, and that is allowed
        return False, state


def _check_event(unit: Unit, state: Any, event: Event) -> Any:
    """The state after the event, which has been applied to it several times over."""
    before = _written(unit, state)
    taken, after = _applied(unit, state, event)
    written = _written(unit, after)
    if _written(unit, state) != before:
        how = "changes the state it was given" if taken else "refuses an event and yet has changed the state"
        _break(unit, f"apply is pure, but {how}, at {event.type!r}: build a new state and return it", event)
    if event.type not in unit.handles and after is not state:
        _break(unit, "an event it does not handle leaves the very same state: return the state you were given", event)
    again_taken, again = _applied(unit, state, event)
    if (again_taken, _written(unit, again)) != (taken, written):
        _break(unit, "apply is pure, but gives another state the second time: no clock, no chance, nothing kept", event)
    read = _read(unit, written[1])
    if _written(unit, read) != written:
        _break(
            unit, "a state that is written down and read back is the same, view and all: mend encode or decode", event
        )
    stored_taken, stored = _applied(unit, _read(unit, before[1]), event)
    if (stored_taken, _written(unit, stored)) != (taken, written):
        _break(unit, "a state that was stored and read back takes events as before: encode must hold all of it", event)
    return after


def _check_batches(unit: Unit, events: Sequence[Event], data: st.DataObject) -> None:
    """The way a worker goes, from row to row, ends at the same cell however the log is cut."""
    if not events:
        return
    whole = _folded(unit, [events])
    cuts = data.draw(st.sets(st.integers(1, len(events) - 1)) if len(events) > 1 else st.just(set[int]()), label="cuts")
    for starts in (sorted(cuts), list(range(1, len(events)))):
        cell = _folded(unit, [events[start:end] for start, end in pairwise([0, *starts, len(events)])])
        if cell != whole:
            _break(
                unit,
                f"any split into batches gives the same cell, but all at once {whole}, in batches {cell}: encode must "
                "hold all of the state, and apply must return the very same state exactly where nothing changes",
            )


def _check_sparing(unit: Unit, events: Sequence[Event], data: st.DataObject) -> None:
    """The last events, where they are enough for the unit, end at the same cell as all of them."""
    if not spared(unit) or not events:
        return
    start = data.draw(st.integers(0, len(events) - 1), label="cut")
    before = _folded(unit, [events[:start]]) if start else None
    seqs = [event.seq for event in events[start:] if event.type in spared(unit)]
    begins = seqs[-data.draw(st.integers(1, len(seqs)), label="looked at")] if seqs else 0
    part = [event for event in events[start:] if event.seq >= begins or event.type not in spared(unit)]
    fold, whole = Fold(unit, before, start - 1), Fold(unit, before, start - 1)
    try:
        needed(unit, [event for event in part if event.type in unit.handles])
    except Exception as error:
        raise LawBroken(f"unit {unit.key!r}: needed raises {error!r}: return None where it can't tell") from error
    enough = fold.take_all(EPOCH, part, is_part=len(part) < len(events) - start)
    for event in events[start:]:
        whole.take(EPOCH, event)
    if enough and (fold.cell(), fold.changed, fold.time) != (whole.cell(), whole.changed, whole.time):
        _break(
            unit,
            f"the events it says it needs give the same cell as all, but they give {fold.cell()}, all {whole.cell()}: "
            "needed must return more of them, or None where the answer hangs on what is not there",
        )


def _folded(unit: Unit, batches: Iterable[Sequence[Event]]) -> Cell | None:
    cell: Cell | None = None
    for batch in batches:
        fold = Fold(unit, cell, batch[0].seq - 1)
        for event in batch:
            fold.take(EPOCH, event)
        cell = fold.cell()
    return cell


def _written(unit: Unit, state: Any) -> tuple[bytes, bytes]:
    """View and state as they would be stored."""
    return _tried(unit, "view", lambda: msgspec.json.encode(unit.view(state))), _tried(
        unit, "encode", lambda: bytes(unit.encode(state))
    )


def _read(unit: Unit, raw: bytes) -> Any:
    return _tried(unit, "decode", lambda: unit.decode(raw))


def _tried(unit: Unit, what: str, step: Callable[[], Any]) -> Any:
    try:
        return step()
    except Exception as error:
        raise LawBroken(
            f"unit {unit.key!r}: every state that apply returns can be viewed, encoded and decoded, but {what} raises "
            f"{error!r}: refuse the event in apply instead"
        ) from error


def _break(unit: Unit, law: str, event: Event | None = None) -> NoReturn:
    place = "" if event is None else f"; broken by {event.type!r} with {bytes(event.data).decode()}"
    raise LawBroken(f"unit {unit.key!r}: {law}{place}")
