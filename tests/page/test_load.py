"""A board of ten thousand sessions with two hundred changes a second: it stays smooth, and where one looks."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from page.stage import Stage, staged
from servers import Server
from todo_write.events import Keys
from todo_write.log import connect

pytestmark = pytest.mark.asyncio(loop_scope="session")

SESSIONS = 10_000
CHANGES_PER_S = 200
LONG_TASK_MS = 200
WATCHED_S = 8


IN_SIGHT = """[...document.querySelectorAll('.rows .row')].filter((row) => {
  const {top, bottom} = row.getBoundingClientRect();
  return top > 130 && bottom < innerHeight;
}).map((row) => row.dataset.key)"""


def row(number: int, done: int, now: int) -> dict[str, Any]:
    board = {
        "title": f"Session {number:05}",
        "label": f"agent {number}",
        "done": done,
        "total": 9,
        "current": f"step {done}",
        "since": now - number,
        "open": True,
    }
    return {
        "etag": f"e{done}",
        "pos": f"1-{done}",
        "rev": f"1-e{done}",
        "units": "board:1,todos:2",
        "board": json.dumps(board),
        "todos": "null",
    }


async def seed(redis: Any, keys: Keys, numbers: range, done: int, now: int) -> None:
    """Rows and index entries as commits leave them; ten thousand logs would take longer than the test."""
    async with redis.pipeline(transaction=False) as pipe:
        for number in numbers:
            session = f"s{number:05}"
            pipe.hset(keys.row(session), mapping=row(number, done, now))
            pipe.zadd(keys.recent(keys.partition(session)), {session: now})
        await pipe.execute()


async def change(redis: Any, keys: Keys) -> None:
    """Two hundred changes a second, spread over all sessions but those around 3 500, for ever."""
    step = 0
    while True:
        step += 1
        first = step * 997 % (SESSIONS - 50)
        await seed(redis, keys, range(first, first + CHANGES_PER_S // 5), step % 9, time.time_ns() // 1_000_000)
        await asyncio.sleep(0.2)


def main_thread_tasks(trace: bytes) -> list[float]:
    """Processor time of each task of the page's main thread, ms: the clock on the wall counts others too."""
    events = json.loads(trace)["traceEvents"]
    mains = {
        (one["pid"], one["tid"])
        for one in events
        if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"
    }
    return [
        one["tdur"] / 1000
        for one in events
        if "RunTask" in one["name"] and (one["pid"], one["tid"]) in mains and "tdur" in one
    ]


@asynccontextmanager
async def crowded(browser: Browser, server: Server, namespace: str) -> AsyncGenerator[tuple[Stage, Any, Keys]]:
    async with (
        connect(server.url, namespace=namespace) as client,
        staged(browser, client, server.url, namespace, worker=False) as stage,
    ):
        keys, now = await client.keys(), time.time_ns() // 1_000_000
        for first in range(0, SESSIONS, 1000):
            await seed(client.redis, keys, range(first, first + 1000), 0, now)
        yield stage, client.redis, keys


async def test_ten_thousand_sessions_that_change_leave_the_page_smooth_and_in_place(
    browser: Browser, server: Server, namespace: str
) -> None:
    async with crowded(browser, server, namespace) as (stage, redis, keys), stage.looking() as look:
        await expect(look.page.locator(".tabs .count").first).to_have_text("10,000", timeout=60_000)
        assert await look.page.locator(".rows .row").count() < 60
        await look.page.evaluate("document.querySelector('.scroller').scrollTop = 260000")
        await look.page.wait_for_function(f"{IN_SIGHT}.includes('s03490')")
        before = set(await look.page.evaluate(IN_SIGHT))
        changing = asyncio.create_task(change(redis, keys))
        try:
            await browser.start_tracing(page=look.page, categories=["toplevel", "devtools.timeline"])
            await asyncio.sleep(WATCHED_S)  # what is measured is a span of time
            tasks = main_thread_tasks(await browser.stop_tracing())
        finally:
            changing.cancel()
        assert len(tasks) > WATCHED_S
        assert max(tasks) < LONG_TASK_MS, sorted(tasks)[-5:]
        stayed = before & set(await look.page.evaluate(IN_SIGHT))
        assert len(stayed) > len(before) / 2, "hundreds of rows have moved from above to the end: nobody should notice"
        await look.page.keyboard.press("/")
        await look.page.keyboard.type("Session 07777")
        await expect(look.rows).to_have_count(1)
