"""What a token allows: which sessions may be seen, and whether their events and the board may. Pure."""

from typing import Annotated

import msgspec
from msgspec import Meta

NAME_LENGTH_MAX = 200

Name = Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX)]


class Scope(msgspec.Struct, frozen=True):
    """A set of sessions: all of them, or those named and those that begin with a prefix. Ids compare byte for byte."""

    all: bool = False
    sessions: frozenset[str] = frozenset()
    prefixes: tuple[Annotated[str, Meta(min_length=1)], ...] = ()

    def holds(self, session: str) -> bool:
        """Whether the session is one of the set: nothing is folded, trimmed or decoded before it is compared."""
        return self.all or session in self.sessions or session.startswith(self.prefixes)


class Grant(msgspec.Struct, frozen=True):
    """What one token allows; ``name`` says whose it is, ``expires_at`` when it ends (epoch s), None for never."""

    name: str
    scope: Scope
    events: bool = False
    board: bool = False
    expires_at: float | None = None


class Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a grant is written, in a list of tokens or in a signed one; what is not said is not allowed."""

    all: bool = False
    sessions: list[str] = []
    prefixes: list[Annotated[str, Meta(min_length=1)]] = []
    events: bool = False
    board: bool = False

    def grant(self, name: str, expires_at: float | None) -> Grant:
        """The grant they describe."""
        scope = Scope(self.all, frozenset(self.sessions), tuple(self.prefixes))
        return Grant(name, scope, self.events, self.board, expires_at)


EVERYTHING = Scope(all=True)
ANYBODY = Grant("", EVERYTHING, events=True, board=True)
