"""The JSON routes as clients know them: paths, parameters, answers; what serves and what describes them reads this."""

import msgspec

from todo_projection.boards import SessionList
from todo_projection.frames import Page
from todo_projection.openapi import Endpoint
from todo_projection.parameters import ListParameters, NoParameters, PageParameters

SESSION = "the session id, percent-encoded: a slash in it as %2F or as it is"
BAD = {400: "a parameter can't be used"}
GONE = {404: "unknown session, or one that the token does not show"}
DENIED = {401: "no token that counts", 403: "the token does not allow it"}
AWAY = {500: "what is stored can't be read; an operator mends it", 503: "redis is away; ask again"}


class Health(msgspec.Struct, frozen=True):
    """Whether it is well, and what is wrong."""

    ok: bool
    problems: list[str] = []


class About(msgspec.Struct, frozen=True, rename="camel"):
    """What a client should know at first.

    ``now`` is this process's clock (epoch ms), told anew every ``heartbeat_ms`` of a stream; ``stuck_ms`` and
    ``quiet_ms`` bound the states; ``rows_max`` is how long a board may be. ``login`` says whether a token is needed
    here, ``board`` and ``events`` whether that of the request shows them.
    """

    version: str
    now: int
    heartbeat_ms: int
    stuck_ms: int
    quiet_ms: int
    rows_max: int
    login: bool
    board: bool
    events: bool


LIST = Endpoint("/api/sessions", "The sessions, a page at a time", ListParameters, SessionList, BAD | DENIED | AWAY)
PAGE = Endpoint(
    "/api/sessions/{session}",
    "A page of a session's history; the newest one with the session's values, as does one at a position",
    PageParameters,
    Page,
    BAD | DENIED | GONE | AWAY,
    {"session": SESSION},
)
ABOUT = Endpoint("/api/about", "What this gateway is, and what the token allows", NoParameters, About, DENIED)
LIVE = Endpoint("/livez", "Whether this process gets round", NoParameters, Health, {})
READY = Endpoint("/readyz", "Whether it can serve", NoParameters, Health, {}, also={503: "it can't, and why"})
