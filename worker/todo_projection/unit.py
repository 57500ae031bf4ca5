"""The protocol of a projection unit, and how mounted units are found."""

import re
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import entry_points
from typing import Any, Protocol

from todo_write.events import Event

ENTRY_POINT_GROUP = "todo_projection.units"
ROW_FIELDS = frozenset({"etag", "pos", "units", "rev", "by", "partial", "begun"})

_KEY = re.compile(r"[a-z][a-z0-9_]*\Z")


class Unit(Protocol):
    """A pure fold of a session's events into one value.

    ``key`` names it in the row; ``state_version`` rises with every change that makes stored states wrong; ``handles``
    are the event types it is shown; an event of a type in ``heals_on`` clears a mark, because it leaves nothing of
    what was skipped; only a ``published`` unit's value goes out in frames.
    """

    @property
    def key(self) -> str:
        """Name in the row: ``[a-z][a-z0-9_]*``, none of the row's own fields."""
        ...

    @property
    def state_version(self) -> int:
        """Version of the state, from 1."""
        ...

    @property
    def handles(self) -> frozenset[str]:
        """Event types the unit is shown."""
        ...

    @property
    def heals_on(self) -> frozenset[str]:
        """Event types after which a mark is gone."""
        ...

    @property
    def published(self) -> bool:
        """Whether a change is worth a frame."""
        ...

    def init(self) -> Any:
        """The state of an empty log."""
        ...

    def apply(self, state: Any, event: Event) -> Any:
        """The state after the event, the same reference when unchanged; any error makes the event poison."""
        ...

    def view(self, state: Any) -> Any:
        """The value readers get, anything msgspec encodes as JSON."""
        ...

    def encode(self, state: Any) -> bytes:
        """The state as bytes; equal to the encoded view where the view says it all."""
        ...

    def decode(self, raw: bytes) -> Any:
        """The state from ``encode``'s bytes, or from the encoded view where the two are equal."""
        ...


def spared(unit: Unit) -> frozenset[str]:
    """Types of events of which all but the last may not matter to the unit; none for a unit that does not say so.

    A unit that does has ``spares``, these types, and a method ``needed`` (see there): where a list replaces the one
    before, a batch of a thousand is folded by looking at two. What is passed over is not even read.
    """
    spares: frozenset[str] = getattr(unit, "spares", frozenset[str]())
    return spares


def needed(unit: Unit, events: Sequence[Event]) -> Sequence[Event] | None:
    """Those that the unit has to be shown, of handled events in the order of the log; None where it can't tell.

    Of the types it spares, earlier ones than the first of these may have been left out. State, position and mark must
    come out as if it had been shown all of them, whatever its state before; it raises nothing.
    """
    tell: Callable[[Sequence[Event]], Sequence[Event] | None] | None = getattr(unit, "needed", None)
    return events if tell is None else tell(events)


class InvalidUnit(ValueError):
    """A mounted unit breaks the protocol; the message names it and the rule."""


def check_units(units: Iterable[Unit]) -> tuple[Unit, ...]:
    """The units in order of key; raises InvalidUnit for a bad key, a key twice, or a version below 1."""
    found: dict[str, Unit] = {}
    for unit in units:
        if not _KEY.match(unit.key) or unit.key in ROW_FIELDS:
            raise InvalidUnit(f"unit key {unit.key!r}: [a-z][a-z0-9_]* is allowed, except {sorted(ROW_FIELDS)}")
        if unit.key in found:
            raise InvalidUnit(f"unit key {unit.key!r} is mounted twice; uninstall one of the two")
        if unit.state_version < 1:
            raise InvalidUnit(f"unit {unit.key!r}: state_version {unit.state_version}; 1 or more is allowed")
        found[unit.key] = unit
    return tuple(found[key] for key in sorted(found))


def mounted_units() -> tuple[Unit, ...]:
    """Every installed unit, found by the entry point group ``todo_projection.units``; raises InvalidUnit."""
    return check_units(entry.load() for entry in entry_points(group=ENTRY_POINT_GROUP))
