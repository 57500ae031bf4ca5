"""A gateway of the test's own process, and what its clients do."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from eventually import eventually
from sse import Http
from todo_projection.embedded import free_port
from todo_projection.gateway import serve
from todo_projection.scraping import metrics_routes
from todo_projection.settings import Settings
from todo_projection.signals import Stop


@asynccontextmanager
async def serving(
    redis_url: str,
    namespace: str,
    *,
    more: Sequence[str] = (),
    routes: Sequence[BaseRoute] = (),
    **settings: Any,
) -> AsyncGenerator[Http]:
    """A gateway that serves while the block runs, with further routes; at ``more`` paths it answers with nothing."""
    given = {"redis_url": redis_url, "namespace": namespace, "gateway_port": free_port(), **settings}
    made = Settings.from_env({}, **given)
    stop = Stop()
    own = [*routes, *metrics_routes(beat_ms=made.beat_ms), *(Route(path, _nothing) for path in more)]
    running = asyncio.create_task(serve(made, stop, own))
    http = Http("127.0.0.1", made.gateway_port, made.gateway_prefix)
    try:
        await eventually(lambda: _answers(http, running))
        yield http
    finally:
        stop.ask()
        await running


async def _nothing(_: Request) -> Response:
    return Response()


async def _answers(http: Http, running: asyncio.Task[None]) -> bool:
    if running.done():
        running.result()
    try:
        return (await http.get("/livez")).status == 200
    except ConnectionError:
        return False


def plan(*items: str, status: str = "pending") -> dict[str, Any]:
    """Data of a ``todo/write``: these items, all of them with this status."""
    return {"todos": [{"content": item, "status": status} for item in items]}
