"""What a client is told when it does not get what it asked for: what is wrong, the value, and what is allowed."""

from collections.abc import Mapping

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """What is wrong, the value as it was given, and what is allowed; null where there is nothing to name."""

    what: str
    value: str | None = None
    allowed: str | None = None


class Refused(msgspec.Struct, frozen=True):
    """The body of every answer that is an error."""

    error: Problem


class Refusal(Exception):
    """An answer that is an error: its HTTP status, its problem, and headers of its own. The client mends or waits."""

    def __init__(self, status: int, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(problem.what)
        self.status = status
        self.problem = problem
        self.headers = dict(headers or {})


def bad(what: str, value: str | None, allowed: str) -> Refusal:
    """400: a parameter that can't be used."""
    return Refusal(400, Problem(what, value, allowed))


def unknown(what: str, value: str, allowed: str) -> Refusal:
    """404: nothing goes by that name."""
    return Refusal(404, Problem(what, value, allowed))


def no_session(session: str) -> Refusal:
    """404: nobody wrote to it, or whoever asks may not know that somebody did; the two answers are one."""
    return unknown("session is unknown: nobody wrote to it, or it was deleted", session, "a session with a log")


def broken(what: str) -> Refusal:
    """500: what is stored can't be read; an operator mends it."""
    return Refusal(500, Problem(what))


def away(what: str, *, retry_s: int) -> Refusal:
    """503: not now; the client asks again after ``retry_s``."""
    return Refusal(503, Problem(what, None, f"ask again in {retry_s} s"), {"retry-after": str(retry_s)})
