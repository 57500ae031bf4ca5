"""One step of the projection: read what a batch points at, fold it, commit it. No loops around it, no waiting."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import msgspec

from todo_projection.advance import Advance, Mounted
from todo_projection.change import Beginning, Change, acknowledged, advanced, skipped
from todo_projection.commit import commit_call, script
from todo_projection.folding import Folding
from todo_projection.history import History
from todo_projection.row import PRESUMED_NEW
from todo_projection.rows import Rows, is_wrong_type
from todo_projection.span import Pointer, spans_of
from todo_projection.tally import Tally
from todo_projection.unit import Unit
from todo_projection.wire import Wire
from todo_write.events import Keys, token

logger = logging.getLogger(__name__)

Batches = Mapping[int, Sequence[Pointer]]

_NO_MARK = ("", "-")


@dataclass(slots=True)
class Outcome:
    """What became of a step: pointers done with, frames published, and what was not committed.

    ``conflicts`` are pointers whose session changed under the fold; ``rewound`` are partitions whose feed no longer
    holds what was read from it: their pointers mean nothing any more. ``refused``, and why: partitions with a key of
    another type; their pointers stay pending.
    """

    committed: int = 0
    published: int = 0
    conflicts: dict[int, list[Pointer]] = field(default_factory=dict[int, list[Pointer]])
    rewound: list[int] = field(default_factory=list[int])
    refused: dict[int, str] = field(default_factory=dict[int, str])


class Projector:
    """Folds batches of pointers into rows with the mounted units.

    A commit whose row changed since it was read writes nothing; its pointers come back as conflicts, to be projected
    again from the row as it is then. ``by`` says who commits and when, for the row's field of that name.
    """

    def __init__(
        self,
        wire: Wire,
        keys: Keys,
        units: Sequence[Unit],
        rows: Rows,
        *,
        publish: str = "PUBLISH",
        tally: Tally | None = None,
        by: Callable[[], str] | None = None,
    ) -> None:
        self._wire = wire
        self._keys = keys
        self._tally = tally or Tally()
        self._mounted = Mounted(units)
        self._beginning = Beginning(units, self._mounted.versions)
        self._rows = rows
        self._folding = Folding(History(wire, keys), self._mounted, self._tally)
        self._publish = publish
        self._by = by

    @property
    def handles(self) -> frozenset[str]:
        """The types of events whose data is read."""
        return self._mounted.handles

    @property
    def spares(self) -> frozenset[str]:
        """Those of which earlier ones may be passed over."""
        return self._mounted.spares

    @property
    def versions(self) -> Mapping[str, int]:
        """The mounted units' versions by key."""
        return self._mounted.versions

    def obey(self, *, mandated: bool) -> None:
        """Fold rows back that are ahead of the mounted units, or refuse them with Outdated."""
        self._mounted.mandated = mandated

    async def project(self, batches: Batches, *, unseen: bool = False) -> Outcome:
        """Read, fold and commit; raises Outdated, or redis errors after which every pointer counts as pending.

        ``unseen``: nobody had these pointers before, so a session whose first event is among them has no row yet; one
        that has, say a tombstone, is a conflict.
        """
        self._tally.step()
        began = perf_counter()
        spans = {partition: spans_of(batch) for partition, batch in batches.items()}
        of_all = [span for found in spans.values() for span in found.values()]
        new = {span.session for span in of_all if 0 in span.types} if unseen else ()
        rows = await self._rows.load([span.session for span in of_all], new=new)
        advance = self._mounted.advance
        advances = {p: [advance(span, rows[span.session]) for span in spans[p].values()] for p in spans}
        changes = await self._changes(advances)
        outcome = await self._commit(changes)
        self._tally.step_s.add(perf_counter() - began)
        return outcome

    async def _changes(self, advances: Mapping[int, Sequence[Advance]]) -> dict[int, list[Change]]:
        """By partition, in their order."""
        etag = token()  # one for all: it tells two writes of one row apart
        by = b"" if self._by is None else self._by().encode()
        reading = [one for found in advances.values() for one in found if one.need and not one.reads_nothing]
        read = iter(await self._folding.changes(reading, etag))
        changes: dict[int, list[Change]] = {}
        for partition, found in advances.items():
            changes[partition] = of_partition = []
            for one in found:
                if one.need is None:
                    of_partition.append(acknowledged(one.span, one.row))
                elif not one.reads_nothing:
                    of_partition.append(self._signed(next(read)))
                elif one.row is PRESUMED_NEW:
                    of_partition.append(self._beginning.change(one.span, etag, by=by))
                else:
                    of_partition.append(advanced(one.span, one.row, etag))
        return changes

    async def skip(self, partition: int, pointers: Sequence[Pointer], reason: str) -> Outcome:
        """Go past the events of one session without trying them, with a mark that says why; raises as ``project``."""
        (span,) = spans_of(pointers).values()
        row = (await self._rows.load([span.session]))[span.session]
        mounted = self._mounted
        change = skipped(span, row, mounted.units, mounted.versions, token(), reason)
        return await self._commit({partition: [self._signed(change)]})

    def _signed(self, change: Change) -> Change:
        """The change with its author, where it gives the row a new rev: what stays as it was keeps its own."""
        if self._by is None or "rev" not in change.set:
            return change
        return msgspec.structs.replace(change, set={**change.set, "by": self._by().encode()})

    async def _commit(self, changes: Mapping[int, Sequence[Change]]) -> Outcome:
        outcome = Outcome()
        calls = {p: commit_call(self._keys, p, self._publish, found) for p, found in changes.items() if found}
        tally, began = self._tally, perf_counter()
        replies = await script.call_all(self._wire, list(calls.values()))
        tally.commit_s.add(perf_counter() - began)
        failed: Exception | None = None
        for partition, reply in zip(calls, replies, strict=True):
            if is_wrong_type(reply, raising=False):
                outcome.refused[partition] = str(reply)
                self._forget(changes[partition])
            elif isinstance(reply, Exception):
                failed = failed or reply
                self._forget(changes[partition])
            elif reply == [b"rewound"]:
                outcome.rewound.append(partition)
                tally.rewound += sum(len(change.pointers) for change in changes[partition])
                self._forget(changes[partition])
            else:
                self._settle(partition, changes[partition], reply, outcome)
        tally.published += outcome.published
        if failed is not None:
            raise failed
        return outcome

    def _settle(self, partition: int, changes: Sequence[Change], words: Sequence[bytes], outcome: Outcome) -> None:
        for change, word in zip(changes, words, strict=True):
            if word == b"ok":
                outcome.published += len(change.frames)
                self._done(change, outcome)
                continue
            kind, _, why = word.decode("utf-8", "replace").partition(" ")
            if kind == "conflict":
                outcome.conflicts.setdefault(partition, []).extend(change.pointers)
                self._tally.conflicts += len(change.pointers)
                self._rows.forget(change.session)
                continue
            if kind == "broken":
                logger.error("session %r can't be projected: %s", change.session, why)
                self._rows.forget(change.session)
                self._tally.broken += len(change.pointers)
                outcome.committed += len(change.pointers) if why.startswith("WRONGTYPE") else 0
                continue
            logger.error("session %r: stored, but its frame was refused: %s", change.session, why)
            self._done(change, outcome)

    def _done(self, change: Change, outcome: Outcome) -> None:
        count, tally = len(change.pointers), self._tally
        outcome.committed += count
        if change.after is None:
            tally.repeated += count
            return
        tally.projected += count
        if change.warning:
            logger.warning("session %r %s", change.session, change.warning)
        if change.mark not in _NO_MARK:
            tally.marked += 1
        self._rows.keep(change.session, change.after)

    def _forget(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._rows.forget(change.session)
