"""The commit: what one batch changed in one partition, written by one script or not at all, session by session."""

from collections.abc import Sequence

from todo_projection.change import Change
from todo_projection.span import Pointer
from todo_projection.wire import Script
from todo_write.events import GROUP, Keys

script = Script("commit")


def commit_call(
    keys: Keys, partition: int, publish: str, changes: Sequence[Change]
) -> tuple[list[str], list[str | bytes | int]]:
    """Keys and arguments of ``commit.lua`` for the changes of one partition."""
    highest = max((change.pointers[-1] for change in changes), key=_feed_order)
    first = changes[0].session
    rows, channels = keys.row(first).removesuffix(first), keys.channel(first).removesuffix(first)
    args: list[str | bytes | int] = [GROUP, publish, channels]
    args += (highest.id, highest.session, str(highest.position), highest.op)
    ids: list[bytes] = []
    for change in changes:
        etag = change.etag.encode("utf-8", "surrogateescape")  # exactly what stood there, whoever wrote it
        args += (change.session, etag, change.recent_ms, change.working, change.mark)
        args += (len(change.set), len(change.remove), len(change.frames), len(change.pointers))
        for field in change.set.items():
            args += field
        args += change.remove
        args += change.frames
        ids += [pointer.id for pointer in change.pointers]
    args += ids
    indexes = [keys.feed(partition), keys.recent(partition), keys.working(partition), keys.stale(partition)]
    return indexes + [rows + change.session for change in changes], args


def _feed_order(pointer: Pointer) -> tuple[int, int]:
    ms, _, seq = pointer.id.partition(b"-")
    return int(ms), int(seq)
