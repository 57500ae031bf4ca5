"""The attach rule: what a carrier holds of one session, and what a frame or a baseline does to it. Pure.

A frame carries a whole value, so losing one costs time, never correctness, as long as doubt ends in a new baseline.
"""

from enum import Enum
from typing import NamedTuple

from todo_projection.frames import Baseline, Deleted, Frame, Mark, Published, Rev
from todo_projection.row import Row


class Verdict(Enum):
    """What a view did with a frame."""

    APPLIED = "applied"
    KEPT = "kept until the baseline that is being read is there"
    OLD = "not newer than what is held"
    DOUBT = "of a history that is not the one held: read a baseline"
    GAP = "applied, but frames before it are missing: read a baseline"
    BEGUN = "applied, of another log than what is held: a baseline tells the values it has no frame for"


class Held(NamedTuple):
    """Identity of what is held: the log's epoch and the rev. Ordered by ``(epoch, n)``, equal only as a whole."""

    epoch: int
    rev: Rev

    @property
    def order(self) -> tuple[int, int]:
        """What decides which of two is newer."""
        return self.epoch, self.rev.n


NOTHING = Held(-1, Rev(0, ""))


class View:
    """The values of one session as a carrier holds them; attached once a baseline was taken.

    Frames of one commit come together or not at all: one script publishes them on one channel.
    """

    def __init__(self, session: str) -> None:
        self.baseline = Baseline.unknown(session)
        self.attached = False
        self.reading = False
        self._session = session
        self._whole = NOTHING  # the newest of all that is held
        self._floor = NOTHING  # what keys hold that no frame has changed since
        self._keys: dict[str, Held] = {}
        self._kept = _Kept()

    def begin(self) -> None:
        """A baseline is going to be read now: frames from now on are kept, and applied on top of it."""
        self.reading = True

    def replace(self, row: Row) -> bool:
        """Take the row that was read as it is, even if older, then the frames kept; False when these leave doubt."""
        self.reading, self.attached = False, True
        kept, self._kept = self._kept, _Kept()
        self.baseline = row.baseline(self._session)
        self._whole = NOTHING
        if row.position is not None:
            self._whole = Held(row.position.epoch, row.rev or Rev(0, ""))
        self._floor = self._whole
        self._keys = {}
        follows = kept.follows(self._whole)
        verdicts = [self.take(frame) for frame in sorted(kept.frames.values(), key=_order)]
        return follows and Verdict.DOUBT not in verdicts

    def take(self, frame: Published) -> Verdict:
        """Apply a frame when it is newer than what is held of its key."""
        if self.reading or not self.attached:
            self._kept.put(frame)
            return Verdict.KEPT
        arrived, whole = _identity(frame), self._whole
        held = self._keys.get(frame.key, self._floor) if isinstance(frame, Frame) else whole
        if any(arrived.order == known.order and arrived.rev != known.rev for known in (held, whole)):
            return Verdict.DOUBT
        if arrived.order <= held.order:
            return Verdict.OLD
        if isinstance(frame, Deleted):
            self._begin_anew(arrived)
            return Verdict.APPLIED
        if arrived.epoch > whole.epoch:
            self._begin_anew(Held(arrived.epoch, Rev(0, "")))
        self._apply(frame, arrived)
        if arrived.epoch != whole.epoch:
            return Verdict.BEGUN
        return Verdict.GAP if arrived.rev.n > whole.rev.n + 1 else Verdict.APPLIED

    @property
    def whole(self) -> Held:
        """The newest of all that is held."""
        return self._whole

    def differs(self, epoch: int | None, rev: str | None, asked: Held) -> bool:
        """Whether the stored row, by its epoch and rev, is another than what is held. Never "newer": unequal.

        ``asked`` is what was held when the row was asked for: frames that came before the answer are no difference.
        """
        stored = NOTHING if epoch is None else Held(epoch, Rev(0, "") if rev is None else Rev.parse(rev))
        if stored in (asked, self._whole):
            return False
        return not asked.order < stored.order < self._whole.order

    def _begin_anew(self, floor: Held) -> None:
        """Hold no value: what was held is of a log that is gone."""
        self._whole = self._floor = floor
        self._keys.clear()
        self.baseline = Baseline.unknown(self._session)

    def _apply(self, frame: Frame, arrived: Held) -> None:
        if arrived.order > self._whole.order:
            self._whole = arrived
        self._keys[frame.key] = arrived
        before = self.baseline
        stale: dict[str, Mark] = {key: mark for key, mark in before.stale.items() if key != frame.key}
        if isinstance(frame.stale, Mark):
            stale[frame.key] = frame.stale
        self.baseline = Baseline(
            session_id=self._session,
            as_of_seq=max(before.as_of_seq, frame.seq),
            epoch=frame.epoch,
            rev=str(self._whole.rev),
            values={**before.values, frame.key: frame.value},
            at={**before.at, frame.key: frame.seq},
            stale=stale,
        )


class _Kept:
    """Frames that arrived while a baseline was read: the newest of each key, and whether any are missing among them."""

    def __init__(self) -> None:
        self.frames: dict[str, Published] = {}
        self._first: tuple[int, int] | None = None
        self._last = NOTHING.order
        self._unbroken = True

    def put(self, frame: Published) -> None:
        """Keep a frame."""
        key, order = frame.key if isinstance(frame, Frame) else "", _order(frame)
        if key not in self.frames or order > _order(self.frames[key]):
            self.frames[key] = frame
        epoch, n = self._last
        if self._first is None:
            self._first = order
        elif order != self._last and order != (epoch, n + 1):
            self._unbroken = False
        self._last = max(self._last, order)

    def follows(self, row: Held) -> bool:
        """Whether the row, with these frames on top, lacks nothing that was published."""
        if self._first is None or self._last <= row.order:
            return True
        return self._unbroken and self._first[0] == row.epoch and self._first[1] <= row.rev.n + 1


def _identity(frame: Published) -> Held:
    return Held(frame.epoch, Rev.parse(frame.rev))


def _order(frame: Published) -> tuple[int, int]:
    return _identity(frame).order
