"""A gateway of the test's own process, and what its clients do."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from eventually import eventually
from sse import Http
from todo_projection.embedded import free_port
from todo_projection.gateway import serve
from todo_projection.settings import Settings
from todo_projection.signals import Stop


@asynccontextmanager
async def serving(redis_url: str, namespace: str, **settings: object) -> AsyncGenerator[Http]:
    """A gateway that serves while the block runs."""
    given = {"redis_url": redis_url, "namespace": namespace, "gateway_port": free_port(), **settings}
    made = Settings.from_env({}, **given)
    stop = Stop()
    running = asyncio.create_task(serve(made, stop))
    http = Http("127.0.0.1", made.gateway_port, made.gateway_prefix)
    try:
        await eventually(lambda: _answers(http, running))
        yield http
    finally:
        stop.ask()
        await running


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
