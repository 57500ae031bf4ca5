"""The log-in of a page: a token is exchanged for a cookie that no script can read and no other site can send."""

import asyncio
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from todo_projection.access import COOKIE, Access, no_token
from todo_projection.grant import Grant
from todo_projection.refusal import Problem, Refusal, bad
from todo_projection.stream import HEADERS

BODY_BYTES_MAX = 16 * 1024
BODY_S = 10.0


class Credential(msgspec.Struct, frozen=True):
    """The body of a log-in."""

    token: str


class Standing(msgspec.Struct, frozen=True, rename="camel"):
    """Whether a token is needed here, and what that of the request allows; ``expires_at`` in epoch s."""

    required: bool
    name: str | None = None
    board: bool = False
    events: bool = False
    expires_at: float | None = None


class Login:
    """The routes by which a page logs in and out."""

    def __init__(self, access: Access, prefix: str) -> None:
        self._access = access
        self._path = f"{prefix}/"

    async def standing(self, request: Request) -> Response:
        """Where the asking page stands: never an error."""
        holder = self._access.holder(request)
        return self._answer(None if holder is None else holder.grant)

    async def log_in(self, request: Request) -> Response:
        """Set the cookie for the token of the body."""
        token = (await _credential(request)).token
        grant = self._access.tokens.grant(token)
        if grant is None:
            raise no_token()
        answer = self._answer(grant)
        if self._access.tokens.required:
            secure = request.headers.get("origin", "").startswith("https://") or request.url.scheme == "https"
            answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", path=self._path, secure=secure)
        return answer

    async def log_out(self, _: Request) -> Response:
        """Take the cookie away."""
        answer = self._answer(None)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict", path=self._path)
        return answer

    def _answer(self, grant: Grant | None) -> Response:
        required = self._access.tokens.required
        told = Standing(required)
        if grant is not None:
            told = Standing(required, grant.name or None, grant.board, grant.events, grant.expires_at)
        return Response(msgspec.json.encode(told), headers=HEADERS, media_type="application/json")


async def _credential(request: Request) -> Credential:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # what a form of another site can't send
        raise Refusal(415, Problem("a log-in is JSON", kind, "content-type: application/json"))
    try:
        async with asyncio.timeout(BODY_S):
            return msgspec.json.decode(await _body(request), type=Credential)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise bad("the log-in can't be read", None, '{"token": "…"}') from None
    except (TimeoutError, ClientDisconnect):
        raise Refusal(408, Problem("the log-in did not come in time", None, f"within {BODY_S:.0f} s")) from None


async def _body(request: Request) -> bytes:
    body = b""
    chunk: Any
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise Refusal(413, Problem("the log-in is too long", None, f"at most {BODY_BYTES_MAX} bytes"))
    return body
