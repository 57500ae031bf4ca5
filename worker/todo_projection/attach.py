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
    """The values of one session as a carrier holds them; attached once a baseline was taken."""

    def __init__(self, session: str) -> None:
        self.baseline = Baseline.unknown(session)
        self.attached = False
        self._session = session
        self._whole = NOTHING
        self._keys: dict[str, Held] = {}
        self._reading = False
        self._kept: dict[str, Published] = {}

    def begin(self) -> None:
        """A baseline is going to be read: frames from now on are kept, and applied on top of it."""
        self._reading = True

    def replace(self, row: Row) -> bool:
        """Take the row that was read as it is, even if older, then the frames kept; False when one leaves doubt."""
        self._reading, self.attached = False, True
        kept, self._kept = self._kept, {}
        self.baseline = row.baseline(self._session)
        self._whole = NOTHING
        if row.position is not None:
            self._whole = Held(row.position.epoch, row.rev or Rev(0, ""))
        self._keys = {}
        verdicts = [self.take(frame) for frame in sorted(kept.values(), key=_order)]
        return not any(verdict in (Verdict.DOUBT, Verdict.GAP) for verdict in verdicts)

    def take(self, frame: Published) -> Verdict:
        """Apply a frame when it is newer than what is held of its key."""
        key = frame.key if isinstance(frame, Frame) else ""
        if self._reading or not self.attached:
            if key not in self._kept or _order(frame) > _order(self._kept[key]):
                self._kept[key] = frame
            return Verdict.KEPT
        arrived, held = _identity(frame), self._keys.get(key, self._whole)
        if arrived == held and key in self._keys:
            return Verdict.OLD
        if arrived.order == held.order and arrived.rev != held.rev:
            return Verdict.DOUBT
        if arrived.order <= held.order:
            return Verdict.OLD
        gap = arrived.epoch == self._whole.epoch and arrived.rev.n > self._whole.rev.n + 1
        self._apply(frame, arrived)
        return Verdict.GAP if gap else Verdict.APPLIED

    def differs(self, epoch: int | None, rev: str | None) -> bool:
        """Whether the stored row, by its epoch and rev, is another than what is held. Never "newer": unequal."""
        if epoch is None:
            return self._whole != NOTHING
        return self._whole != Held(epoch, Rev(0, "") if rev is None else Rev.parse(rev))

    def _apply(self, frame: Published, arrived: Held) -> None:
        if arrived.order >= self._whole.order:
            self._whole = arrived
        if isinstance(frame, Deleted):
            self._keys.clear()
            self.baseline = Baseline.unknown(self._session)
            return
        self._keys[frame.key] = arrived
        before = self.baseline
        stale: dict[str, Mark] = {key: mark for key, mark in before.stale.items() if key != frame.key}
        if isinstance(frame.stale, Mark):
            stale[frame.key] = frame.stale
        self.baseline = Baseline(
            session_id=self._session,
            as_of_seq=max(before.as_of_seq, frame.seq) if before.epoch == frame.epoch else frame.seq,
            epoch=frame.epoch,
            rev=frame.rev,
            values={**before.values, frame.key: frame.value},
            at={**before.at, frame.key: frame.seq},
            stale=stale,
        )


def _identity(frame: Published) -> Held:
    return Held(frame.epoch, Rev.parse(frame.rev))


def _order(frame: Published) -> tuple[int, int]:
    return _identity(frame).order
