"""The commit: what one batch changed in one partition, written by one script or not at all, session by session."""

from collections.abc import Sequence

from todo_projection.change import Change
from todo_projection.span import Pointer
from todo_projection.wire import Script
from todo_write.events import GROUP, Keys

script = Script("commit")


def commit_call(
    keys: Keys, partition: int, publish: str, changes: Sequence[Change]
) -> tuple[list[str], list[str | bytes]]:
    """Keys and arguments of ``commit.lua`` for the changes of one partition."""
    highest = max((change.pointers[-1] for change in changes), key=_feed_order)
    args: list[str | bytes] = [GROUP, publish, highest.id, highest.session, str(highest.position), highest.op]
    for change in changes:
        etag = change.etag.encode("utf-8", "surrogateescape")  # exactly what stood there, whoever wrote it
        args += (change.session, keys.channel(change.session), etag)
        args += (change.recent_ms, change.working, change.mark, str(len(change.set)))
        for name, raw in change.set.items():
            args += (name, raw)
        args += (str(len(change.remove)), *change.remove)
        args += (str(len(change.frames)), *change.frames)
        args += (str(len(change.pointers)), *[pointer.id for pointer in change.pointers])
    indexes = [keys.feed(partition), keys.recent(partition), keys.working(partition), keys.stale(partition)]
    return indexes + [keys.row(change.session) for change in changes], args


def _feed_order(pointer: Pointer) -> tuple[int, int]:
    ms, _, seq = pointer.id.partition(b"-")
    return int(ms), int(seq)
