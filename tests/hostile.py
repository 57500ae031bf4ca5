"""What nobody of ours would send: bytes, JSON of every shape, and good samples with something cut out or put in."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

NASTY = (
    "\x00",
    "\x1b[2J",
    "\u202e",
    "\ufeff",
    "<script>",
    "{",
    "}",
    "\n\n",
    "__proto__",
    "NaN",
    "1e999",
    "\ud800",
    "%00",
    "../",
)
NAMES = (
    *(
        "todos",
        "content",
        "status",
        "session",
        "id",
        "call",
        "type",
        "data",
        "seq",
        "time",
        "sessionId",
        "turn",
        "text",
    ),
    *("hook_event_name", "session_id", "tool_name", "tool_input", "message", "role", "uuid", "timestamp", "version"),
    *("epoch", "rev", "value", "key", "stale", "all", "prefixes", "sessions", "name", "sha256", "token", "createdAt"),
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.sampled_from(NASTY),
    st.sampled_from(("pending", "in_progress", "completed", "todo/write", "turn/start", "session", "user")),
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=12,
)
deep = st.sampled_from([b"[" * 100_000, b'{"a":' * 50_000, b'{"todos":' + b"[" * 2000 + b"]" * 2000 + b"}"])
odd_bytes = st.one_of(
    st.binary(max_size=200),
    values.map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass")),
    deep,
)


@st.composite
def damaged(draw: st.DrawFn, samples: Sequence[bytes]) -> bytes:
    """A good sample with a piece of it replaced, up to three times."""
    raw = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(0, 3))):
        begin = draw(st.integers(0, len(raw)))
        end = min(len(raw), begin + draw(st.integers(0, 12)))
        raw = (
            raw[:begin]
            + draw(st.binary(max_size=6) | st.sampled_from([b'"', b"0", b"-1", b"null", b"\\ud800"]))
            + raw[end:]
        )
    return raw


def near(*samples: bytes) -> st.SearchStrategy[bytes]:
    """Anything, half of it close to one of the samples."""
    return damaged(samples) | odd_bytes
