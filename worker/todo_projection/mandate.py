"""The mandate: an operator's word on which units, in which versions, rows are to hold from now on.

Said for a roll-back: a worker that has stepped down before newer ones comes back when it is what the word asks for.
"""

import re
from collections.abc import Mapping

from todo_projection.row import decode_versions, encode_versions
from todo_projection.wire import Wire
from todo_write.events import Keys

FIELD = "units"

_UNITS = re.compile(r"[a-z][a-z0-9_]*:[1-9][0-9]{0,8}(,[a-z][a-z0-9_]*:[1-9][0-9]{0,8})*")


class InvalidMandate(ValueError):
    """This is no list of units; the message says what one looks like."""


def parse_mandate(text: str) -> dict[str, int]:
    """Versions by key out of ``board:1,todos:2``; raises InvalidMandate."""
    if not _UNITS.fullmatch(text):
        raise InvalidMandate(f"units {text!r}: KEY:VERSION,… is allowed, such as board:1,todos:2")
    versions = decode_versions(text.encode())
    if len(versions) != text.count(",") + 1:
        raise InvalidMandate(f"units {text!r}: a key stands there twice")
    return versions


async def read_mandate(wire: Wire, keys: Keys) -> dict[str, int] | None:
    """The word as it was said last, None when nobody said any; raises redis errors, InvalidMandate for another text."""
    raw = await wire.command("HGET", keys.meta, FIELD)
    return None if raw is None else parse_mandate(raw.decode("utf-8", "replace"))


async def set_mandate(wire: Wire, keys: Keys, versions: Mapping[str, int] | None) -> None:
    """Say which units rows are to hold, None: take the word back; raises redis errors."""
    if versions is None:
        await wire.command("HDEL", keys.meta, FIELD)
    else:
        await wire.command("HSET", keys.meta, FIELD, encode_versions(versions))
