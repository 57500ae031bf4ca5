"""Who may ask for what: each route has its rule, and what is asked of a guarded one carries the grant of its token."""

import math
from collections.abc import Sequence
from enum import StrEnum
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from todo_projection.grant import Grant
from todo_projection.refusal import Problem, Refusal
from todo_projection.settings import InvalidSetting, Settings, variable
from todo_projection.tokens import Tokens
from todo_write.log import Pace

COOKIE = "todo_token"
READING = ("GET", "HEAD", "OPTIONS")
HOLDER = "todo_projection.holder"


class Rule(StrEnum):
    """Who may ask: anybody, or who has a token; what the token allows is for the route to look at."""

    OPEN = "open"
    TOKEN = "token"  # noqa: S105  not a secret


RULES = {
    "/": Rule.OPEN,  # the page holds nothing: what it shows it asks for
    "/page/{name}": Rule.OPEN,
    "/api/about": Rule.TOKEN,
    "/api/sessions": Rule.TOKEN,
    "/api/sessions/{session:path}": Rule.TOKEN,
    "/api/stream": Rule.TOKEN,
    "/api/login": Rule.OPEN,
    "/api/logout": Rule.OPEN,
    "/api/openapi.json": Rule.OPEN,
    "/livez": Rule.OPEN,
    "/readyz": Rule.OPEN,
}


PROBES = ("/livez", "/readyz", "/metrics")  # asked for by whatever address a process has; no plan is told there


class Holder(NamedTuple):
    """A token as it was sent, and what it allowed then."""

    token: str | None
    grant: Grant


class Access:
    """The guard of a gateway's routes. ``origins`` are the further ones a browser may send from."""

    def __init__(
        self, tokens: Tokens, *, origins: Sequence[str] = (), hosts: Sequence[str] = (), rate_max: int = 0
    ) -> None:
        self.tokens = tokens
        self.pace = Pace(rate_max)
        self.origins = tuple(origins)
        self._hosts = frozenset(hosts)

    def guard(self, routes: Sequence[BaseRoute]) -> list[BaseRoute]:
        """The same routes, each behind its rule; one without a rule of its own needs a token."""
        for route in routes:
            guarded: Any = route  # Route and Mount alike hand what matches on to their ``app``
            guarded.app = self._guarded(guarded.app, guarded.path)
        return list(routes)

    def holder(self, request: Request) -> Holder | None:
        """The token of a request with what it allows; None when it allows nothing."""
        token = _token(request)
        grant = self.tokens.grant(token)
        return None if grant is None else Holder(token, grant)

    def check_origin(self, request: Request) -> None:
        """Raise Refusal for what a page of another origin made the browser send: writes, and names not ours."""
        if self._hosts and not self.tokens.required and _host(request) not in self._hosts:
            # A foreign name that leads here by DNS would make a foreign page one of ours.
            allowed = f"{', '.join(sorted(self._hosts))}; others by {variable('gateway_origins')}, or a login"
            raise Refusal(403, Problem("this gateway does not go by that name", _host(request), allowed))
        if request.method in READING:
            return
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "same-origin")
        if origin in self.origins:
            return
        same = origin is None or urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()
        if not same or site not in ("same-origin", "none"):
            raise Refusal(403, Problem("a page of another origin may not do this", origin, "this gateway's own page"))

    def check_pace(self, request: Request, holder: Holder | None) -> None:
        """Raise Refusal for who asks more often than anybody has to; one without a token is known by its address."""
        whose = f"token {holder.grant.name}" if holder and holder.grant.name else f"address {_address(request)}"
        if (wait_s := self.pace.wait_s(whose)) > 0:
            raise too_many(f"more than {self.pace.per_s} requests a second", wait_s)

    def _guarded(self, app: ASGIApp, path: str) -> ASGIApp:
        rule = RULES.get(path, Rule.TOKEN)

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            request = Request(scope)
            holder = self.holder(request)
            if path not in PROBES:
                self.check_pace(request, holder)
                self.check_origin(request)
            if holder is None and rule is Rule.TOKEN:
                raise no_token()
            scope[HOLDER] = holder
            await app(scope, receive, send)

        return guarded


def holder_of(request: Request) -> Holder:
    """The token behind a request to a guarded route."""
    holder: Holder = request.scope[HOLDER]
    return holder


def no_token() -> Refusal:
    """401: no token, or none that counts; which of both is nobody's business."""
    allowed = "a token that counts, as `Authorization: Bearer …` or by POST /api/login"
    return Refusal(401, Problem("a token is needed", None, allowed), {"www-authenticate": "Bearer"})


def too_many(what: str, wait_s: float) -> Refusal:
    """429: less of it, or later."""
    retry_s = max(1, math.ceil(wait_s))
    return Refusal(429, Problem(what, None, f"again in {retry_s} s"), {"retry-after": str(retry_s)})


def not_allowed(what: str) -> Refusal:
    """403: whatever the session, this token does not allow it."""
    return Refusal(403, Problem(f"this token does not allow {what}", None, "a token with the claim for it"))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def check_exposure(settings: Settings) -> None:
    """Raise InvalidSetting when others would reach a gateway that asks nobody who they are."""
    if is_loopback(settings.gateway_host) or settings.has_login or settings.gateway_open:
        return
    raise InvalidSetting(
        f"{variable('gateway_host')} is {settings.gateway_host!r}: others reach it, and nobody has to log in; "
        f"allowed: 127.0.0.1, or with {variable('gateway_tokens_file')} (todo-projection token --help) or "
        f"{variable('gateway_jwt_key_file')}; {variable('gateway_open')}=true lets everybody see everything"
    )


def own_hosts(settings: Settings) -> tuple[str, ...]:
    """The names by which a gateway for this machine alone is asked; none when others may ask it."""
    if not is_loopback(settings.gateway_host) or settings.gateway_open:
        return ()
    named = [urlsplit(origin).hostname or "" for origin in settings.origins]
    return ("127.0.0.1", "localhost", "::1", settings.gateway_host, *named)


def _host(request: Request) -> str:
    return urlsplit(f"//{request.headers.get('host', '')}").hostname or ""


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _token(request: Request) -> str | None:
    """The bearer's token before the cookie's: who sends one means it."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme:
        return token.strip() if scheme.lower() == "bearer" else None
    return request.cookies.get(COOKIE)
