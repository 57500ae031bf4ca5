"""A store with a worker and a gateway as processes, and pages that look at it."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast
from urllib.parse import quote

from playwright.async_api import Browser, Locator, Page, expect

from eventually import eventually
from page.browser import PATIENCE_MS, opened
from running import Running, operator, running
from sse import Http
from todo_projection.embedded import free_port
from todo_write.events import token
from todo_write.log import Client, SessionLog
from workshop import APPEND

HEARTBEAT_MS = "1000"


class Part:
    """A process of the product that can be killed and started again."""

    def __init__(self, redis_url: str, namespace: str, *arguments: str, says: str, **variables: str) -> None:
        self._command = operator(redis_url, namespace, **variables)
        self._arguments = arguments
        self._says = says
        self._stack = AsyncExitStack()
        self.process: Running | None = None

    async def start(self) -> None:
        self.process = await self._stack.enter_async_context(running(self._command, *self._arguments))
        await self.process.says(self._says)

    async def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send(number)
            await self.process.ended()
        await self._stack.aclose()
        self.process = None


class Stage:
    """Everything a test of the page needs; sessions are the tests' own."""

    def __init__(self, browser: Browser, client: Client, redis_url: str, namespace: str, **variables: str) -> None:
        port = free_port()
        given = {"TODO_HEARTBEAT_MS": HEARTBEAT_MS, **variables}
        self.browser = browser
        self.client = client
        self.http = Http("127.0.0.1", port, variables.get("TODO_GATEWAY_PREFIX", ""))
        self.url = f"http://127.0.0.1:{port}{self.http.prefix}/"
        self.worker = Part(redis_url, namespace, "worker", "--block-ms", "50", says="worker")
        self.gateway = Part(redis_url, namespace, "gateway", "--port", str(port), says="gateway: http", **given)

    async def write(self, session: str, *todos: tuple[str, str]) -> int:
        """A list as an agent writes it; its place in the log."""
        data = {"todos": [{"content": content, "status": status} for content, status in todos]}
        return (await SessionLog(self.client, session).append("todo/write", data)).seq

    async def append(self, session: str, *events: tuple[str, Any]) -> int:
        """Any events; the place of the last."""
        return (await SessionLog(self.client, session).append_all(list(events)))[-1].seq

    async def broken(self, session: str) -> int:
        """A write that no unit can apply, as a writer without our checks leaves it; its place in the log."""
        keys, redis = await self.client.keys(), cast("Any", self.client.redis)  # answers of bytes
        names = [keys.log(session), keys.feed(keys.partition(session)), keys.row(session)]
        (last,) = await redis.xrevrange(names[0], count=1)
        event = ("todo/write", time.time_ns() // 1_000_000, '{"todos":1}')
        await redis.eval(APPEND, 3, *names, session, last[0], last[1][b"op"], token(), *event)
        return int(last[0].partition(b"-")[2]) + 1

    async def delete(self, session: str) -> None:
        await SessionLog(self.client, session).delete()

    async def projected(self, session: str, seq: int) -> None:
        """Return once the gateway tells the session at this place, or beyond."""

        async def reached() -> bool:
            answer = await self.http.get(f"/api/sessions/{quote(session, safe='')}")
            return answer.status == 200 and json.loads(answer.body)["projections"]["asOfSeq"] >= seq

        await eventually(reached, 30)

    @asynccontextmanager
    async def looking(
        self, session: str | None = None, size: str = "desk", *, find: str = "", **options: Any
    ) -> AsyncGenerator["Look"]:
        """A page that shows the session, or what the board finds by ``find``: of many, it holds the first only."""
        async with opened(self.browser, size, **options) as page:
            await page.goto(self.url + (f"#/?text={quote(find, safe='')}" if find else address(session)))
            yield Look(page)


class Look:
    """What somebody sees of a page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.badge = page.locator("#badge span")
        self.rows = page.locator(".rows .row")
        self.items = page.locator(".item")
        self.counts = page.locator(".strip .counts")
        self.nothing = page.locator(".nothing h2")

    def row(self, session: str) -> Locator:
        return self.page.locator(f".row[data-key={json.dumps(session)}]")

    async def live(self) -> None:
        """Return once the badge says live."""
        await expect(self.badge).to_have_text("live")

    async def shows(self, *contents: str, within_ms: float = PATIENCE_MS) -> None:
        """Return once these are the items, in this order."""
        await expect(self.page.locator(".item .content > bdi")).to_have_text(list(contents), timeout=within_ms)

    async def says(self, counts: str, within_ms: float = PATIENCE_MS) -> None:
        """Return once the strip says this."""
        await expect(self.counts).to_have_text(counts, timeout=within_ms)


def address(session: str | None) -> str:
    return "#/" if session is None else f"#/s/{quote(session, safe='')}"


@asynccontextmanager
async def staged(
    browser: Browser, client: Client, redis_url: str, namespace: str, *, worker: bool = True, **variables: str
) -> AsyncGenerator[Stage]:
    """A stage, its processes ended with the block."""
    stage = Stage(browser, client, redis_url, namespace, **variables)
    try:
        await asyncio.gather(stage.gateway.start(), *([stage.worker.start()] if worker else []))
        yield stage
    finally:
        await asyncio.gather(stage.gateway.stop(), stage.worker.stop())
