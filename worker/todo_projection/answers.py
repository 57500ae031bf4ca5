"""Answers of the gateway: JSON, also where it refuses."""

import logging
from typing import Any

import msgspec
from redis.exceptions import RedisError, ResponseError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from todo_projection.refusal import Problem, Refusal, Refused, away, bad, broken
from todo_projection.row import CorruptRow
from todo_projection.stream import HEADERS
from todo_write.events import InvalidSession
from todo_write.log import LayoutMismatch

RETRY_S = 2

logger = logging.getLogger(__name__)


def as_json(answer: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer of the gateway."""
    body = msgspec.json.encode(answer)
    return Response(body, status, {**HEADERS, **(headers or {})}, media_type="application/json")


async def refuse(request: Request, error: Exception) -> Response:
    """Any error as a JSON answer; it says who can do something about it."""
    refusal = _refusal(request, error)
    return as_json(Refused(refusal.problem), refusal.status, refusal.headers)


def _refusal(request: Request, error: Exception) -> Refusal:
    match error:
        case Refusal():
            return error
        case HTTPException():
            problem = Problem(error.detail, f"{request.method} {request.url.path}", "see /api/openapi.json")
            return Refusal(error.status_code, problem, error.headers)
        case InvalidSession():
            return bad(str(error), None, "1-256 bytes of UTF-8 without control characters and braces")
        case RedisError() | OSError() | LayoutMismatch() | CorruptRow():
            return _of_store(error)
        case _:
            return broken("a mistake of ours; the gateway's log says more")


def _of_store(error: Exception) -> Refusal:
    if isinstance(error, ResponseError) and str(error).startswith("WRONGTYPE"):
        return broken("a key of this session holds another type; rename or delete it")
    if isinstance(error, CorruptRow):
        return broken(str(error))
    logger.warning("the store can't answer: %s", error)
    return away(f"the store can't answer: {error}", retry_s=RETRY_S)


REFUSED = (Refusal, InvalidSession, RedisError, OSError, LayoutMismatch, CorruptRow)
