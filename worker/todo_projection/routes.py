"""The routes of the gateway: what a request asks for, and the part that answers it."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from urllib.parse import unquote_to_bytes

import msgspec
from redis.exceptions import RedisError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from todo_projection.access import Access, holder_of, not_allowed
from todo_projection.answers import REFUSED, as_json, refuse
from todo_projection.boards import Boards, parse_cursor
from todo_projection.canary import Canary
from todo_projection.endpoints import ABOUT, LIST, LIVE, PAGE, READY, About, Health
from todo_projection.frames import Page
from todo_projection.grant import Grant
from todo_projection.grant import Scope as Sessions
from todo_projection.headers import with_headers
from todo_projection.login import Login
from todo_projection.openapi import describe
from todo_projection.pages import Pages
from todo_projection.parameters import (
    ROWS_MAX,
    BoardStreamParameters,
    ListParameters,
    NoParameters,
    PageParameters,
    PlanStreamParameters,
    read,
)
from todo_projection.refusal import bad, no_session
from todo_projection.sessions import Query
from todo_projection.sources import BoardRows, PlanAndEvents, Plans, Together, Veiled
from todo_projection.stream import Source, Stream, Streams
from todo_projection.subscriber import Subscriber
from todo_projection.tail import Tails
from todo_projection.window import Rank
from todo_projection.wire import Wire
from todo_write.events import Position, check_session
from todo_write.log import Client, LayoutMismatch

READS_MAX = 32
VERSION = version("todo-projection")
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parts:
    """What the routes answer from."""

    client: Client
    wire: Wire
    subscriber: Subscriber
    streams: Streams
    boards: Boards
    pages: Pages
    tails: Tails
    canary: Canary
    access: Access
    stuck_ms: int
    quiet_ms: int
    stream_sessions_max: int
    prefix: str = ""


def application(parts: Parts, more: Sequence[BaseRoute] = ()) -> ASGIApp:
    """The gateway as an ASGI application; ``more`` are further routes, behind its own."""
    app = Starlette(
        routes=every_route(parts, more),
        exception_handlers=dict.fromkeys((*REFUSED, HTTPException, Exception), refuse),
    )
    app.state.parts = parts  # what further routes answer from
    app.router.redirect_slashes = False  # a slash at the end belongs to the session id

    async def prefixed(scope: Scope, receive: Receive, send: Send) -> None:
        # A proxy in front may have taken the prefix off, or left it on: the path is looked up without it.
        scope["root_path"] = parts.prefix
        if scope["path"] == parts.prefix != "":
            await RedirectResponse(f"{parts.prefix}/")(scope, receive, send)  # addresses in a page are relative to it
            return
        await app(scope, receive, send)

    return with_headers(_shared(prefixed, parts.access.origins))


def every_route(parts: Parts, more: Sequence[BaseRoute] = ()) -> list[BaseRoute]:
    """The routes of the application, each behind its rule."""
    routes, login = Routes(parts), Login(parts.access, parts.prefix)
    return parts.access.guard(
        [
            Route(LIST.path, routes.sessions),
            Route(PAGE.path.replace("}", ":path}"), routes.session),
            Route("/api/stream", routes.stream),
            Route(ABOUT.path, routes.about),
            Route("/api/openapi.json", routes.openapi),
            Route(LIVE.path, routes.live),
            Route(READY.path, routes.ready),
            Route("/api/login", login.standing),
            Route("/api/login", login.log_in, methods=["POST"]),
            Route("/api/logout", login.log_out, methods=["POST"]),
            *more,
        ]
    )


def _shared(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """The application, which pages of these origins may ask too, with a token of their own and never by cookie."""
    if not origins:
        return app
    return CORSMiddleware(
        app, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["authorization", "last-event-id"]
    )


class Routes:
    """One method a route."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._reading = asyncio.Semaphore(READS_MAX)

    async def sessions(self, request: Request) -> Response:
        """A page of the list of sessions."""
        asked = read(_query(request), ListParameters)
        query = self._asked(asked, _board(request))
        after = _cursor(asked.cursor)
        async with self._reading:
            return as_json(await self._parts.boards.page(query, after))

    async def session(self, request: Request) -> Response:
        """A page of a session's history."""
        asked = read(_query(request), PageParameters)
        session, grant = check_session(_session(request)), holder_of(request).grant
        pages = self._parts.pages
        ends = [(name, end) for name, end in asked.ends().items() if isinstance(end, int)]
        if ends and not grant.events:
            raise not_allowed("events, nor values of former times")
        if not grant.scope.holds(session):
            raise no_session(session)
        async with self._reading:
            match ends:
                case []:
                    page = await pages.tail(session, asked.limit)
                    return as_json(page if grant.events else Page([], has_more=False, projections=page.projections))
                case [("beforeSeq", seq)]:
                    return as_json(await pages.before(session, seq, asked.limit))
                case [("atSeq", seq)]:
                    return as_json(await pages.at(session, seq, asked.limit))
                case [("atTime", time_ms)]:
                    return as_json(await pages.at_time(session, time_ms, asked.limit))
                case _:
                    raise bad(f"{' and '.join(name for name, _ in ends)} are two ends of a page", None, "one of them")

    async def stream(self, request: Request) -> Response:
        """An event stream of plans, or of a board."""
        if "board" in request.query_params:
            board = read(_query(request), BoardStreamParameters)
            if not board.board:
                raise bad("a stream carries plans or a board", "board=0", "session=… or board=1")
            query = self._asked(board, _board(request))
            self._parts.streams.admit(holder_of(request))
            return self._streamed(request, BoardRows(self._parts.boards, self._parts.boards.open(query)))
        plans = read(_query(request), PlanStreamParameters)
        sessions = list(dict.fromkeys(check_session(session) for session in plans.session))
        if not 1 <= len(sessions) <= self._parts.stream_sessions_max:
            allowed = f"session=… once for each of 1 to {self._parts.stream_sessions_max}, or board=1"
            raise bad("a stream carries plans or a board", f"{len(sessions)} sessions", allowed)
        return self._streamed(request, self._plans(request, plans, sessions), len(sessions))

    async def openapi(self, request: Request) -> Response:
        """What the JSON routes take and answer."""
        read(_query(request), NoParameters)
        return as_json(describe((LIST, PAGE, ABOUT, LIVE, READY), self._parts.prefix))

    async def about(self, request: Request) -> Response:
        """What a client should know at first."""
        read(_query(request), NoParameters)
        parts, grant = self._parts, holder_of(request).grant
        told = About(
            version=VERSION,
            now=time.time_ns() // 1_000_000,
            heartbeat_ms=round(parts.streams.heartbeat_s * 1000),
            stuck_ms=parts.stuck_ms,
            quiet_ms=parts.quiet_ms,
            rows_max=ROWS_MAX,
            login=parts.access.tokens.required,
            board=grant.board,
            events=grant.events,
        )
        return as_json(told)

    async def live(self, _: Request) -> Response:
        """This answer is the beat of the loop."""
        return as_json(Health(ok=True))

    async def ready(self, request: Request) -> Response:
        """Whether redis answers, the layout is one we know, and the process goes on."""
        problems = [await self._problem()] if not self._parts.streams.ending else ["it is about to end"]
        found = [problem for problem in problems if problem]
        if self._parts.access.holder(request) is None:
            found = ["ask with a token, and it is said" for _ in found]  # addresses are nobody else's business
        return as_json(Health(ok=not found, problems=found), 503 if found else 200)

    async def _problem(self) -> str | None:
        client = self._parts.client
        try:
            await self._parts.wire.command("PING")
            await client.keys(create=False)
        except (RedisError, OSError) as error:
            return f"redis at {client.address}: {error}"
        except LayoutMismatch as error:
            return str(error)
        return None

    def _plans(self, request: Request, asked: PlanStreamParameters, sessions: list[str]) -> Source:
        grant, last_event_id = holder_of(request).grant, request.headers.get("last-event-id", "")
        if asked.events and len(sessions) != 1:
            raise bad("events=1 needs one session", f"{len(sessions)} sessions", "session=… once")
        if asked.after and not asked.events:
            raise bad("after is a place in a log", asked.after, "with events=1 only")
        if asked.family and len(sessions) != 1:
            raise bad("family=1 needs one session", f"{len(sessions)} sessions", "session=… once")
        if asked.events and not grant.events:
            raise not_allowed("events")
        after = _position(last_event_id or asked.after) if asked.events else None
        self._parts.streams.admit(holder_of(request), len(sessions))
        seen = [session for session in sessions if grant.scope.holds(session)]
        subscriber, delivery_s = self._parts.subscriber, self._parts.streams.delivery_s
        subscription = subscriber.subscription(*seen)
        if len(seen) < len(sessions):
            hidden = [session for session in sessions if session not in seen]
            return Veiled(hidden, Plans(subscriber, subscription, delivery_s), after)
        plan: Source = Plans(subscriber, subscription, delivery_s)
        if asked.events:
            plan = PlanAndEvents(subscriber, subscription, self._parts.tails, after, delivery_s)
        return Together(plan, self._family(grant, sessions[0])) if asked.family else plan

    def _family(self, grant: Grant, session: str) -> Source:
        """The rows of a session, its parent and its children; of it alone where the token shows no board."""
        scope = grant.scope if grant.board else Sessions(sessions=frozenset({session}))
        bounds, boards = (self._parts.stuck_ms, self._parts.quiet_ms), self._parts.boards
        return BoardRows(boards, boards.open(Query(*bounds, limit=ROWS_MAX, scope=scope, family=session), trust=False))

    def _streamed(self, request: Request, source: Source, sessions: int = 0) -> Stream:
        return Stream(self._parts.streams, source, holder_of(request), sessions)

    def _asked(self, asked: ListParameters | BoardStreamParameters, scope: Sessions) -> Query:
        state = None if isinstance(asked.state, msgspec.UnsetType) else asked.state
        return Query(
            self._parts.stuck_ms, self._parts.quiet_ms, state, asked.text, asked.sort, asked.limit, scope, asked.parent
        )


def _board(request: Request) -> Sessions:
    """The sessions that a board may show to who asks; raises Refusal."""
    grant = holder_of(request).grant
    if not grant.board:
        raise not_allowed("the board")
    return grant.scope


def _query(request: Request) -> bytes:
    query: bytes = request.scope["query_string"]
    return query


def _session(request: Request) -> str:
    try:
        unquote_to_bytes(request.scope["raw_path"]).decode()
    except UnicodeDecodeError:
        raise bad("the path can't be read", request.scope["raw_path"].decode(), "percent-encoded UTF-8") from None
    session: str = request.path_params["session"]
    return session


def _cursor(text: str) -> Rank | None:
    try:
        return parse_cursor(text) if text else None
    except ValueError:
        raise bad("cursor can't be used", text, "`next` of the page before") from None


def _position(text: str) -> Position | None:
    try:
        return Position.parse(text) if text else None
    except ValueError:
        raise bad("the last event's id can't be used", text, "<epoch>-<seq>, two whole numbers") from None
