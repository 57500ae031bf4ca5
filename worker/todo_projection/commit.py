"""The commit: what one batch changed in one partition, written by one script or not at all, session by session."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from todo_projection.row import Row
from todo_projection.span import Pointer
from todo_projection.wire import Script
from todo_write.events import GROUP, Keys

script = Script("commit")


@dataclass(slots=True)
class Change:
    """What is to be written for one session, provided that its row's etag is still ``etag``.

    ``recent_ms``, ``working`` and ``mark`` leave their index alone when ''; '-' removes the session from it. ``after``
    is the row as it will stand; None when only pointers are acknowledged.
    """

    session: str
    etag: str
    pointers: Sequence[Pointer]
    after: Row | None = None
    recent_ms: str = ""
    working: str = ""
    mark: str = ""
    set: dict[str, bytes] = field(default_factory=dict[str, bytes])
    remove: Sequence[str] = ()
    frames: Sequence[bytes] = ()


def commit_call(
    keys: Keys, partition: int, publish: str, changes: Sequence[Change]
) -> tuple[list[str], list[str | bytes]]:
    """Keys and arguments of ``commit.lua`` for the changes of one partition."""
    highest = max((pointer for change in changes for pointer in change.pointers), key=_feed_order)
    args: list[str | bytes] = [GROUP, publish, highest.id, highest.session, str(highest.position), highest.op]
    for change in changes:
        args += (change.session, keys.channel(change.session), change.etag)
        args += (change.recent_ms, change.working, change.mark, str(len(change.set)))
        for name, raw in change.set.items():
            args += (name, raw)
        args += (str(len(change.remove)), *change.remove)
        args += (str(len(change.frames)), *change.frames)
        args += (str(len(change.pointers)), *(pointer.id for pointer in change.pointers))
    indexes = [keys.feed(partition), keys.recent(partition), keys.working(partition), keys.stale(partition)]
    return indexes + [keys.row(change.session) for change in changes], args


def _feed_order(pointer: Pointer) -> tuple[int, int]:
    ms, _, seq = pointer.id.partition(b"-")
    return int(ms), int(seq)
