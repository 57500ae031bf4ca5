"""What dies under a page, or is lost on its way to it: it says so, and shows the stored value again by itself."""

import re
import signal
import time
from collections.abc import Callable

import pytest
from playwright.async_api import Browser, expect
from redis.asyncio import Redis

from page.stage import Stage, staged
from servers import Server
from todo_write.log import connect
from viewing import mute_worker

pytestmark = pytest.mark.asyncio(loop_scope="session")

DONE, WORKING = "completed", "in_progress"
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


async def test_a_worker_that_dies_leaves_the_page_behind_and_the_next_one_brings_it_on(own_stage: Stage) -> None:
    await own_stage.write("s1", ("a", WORKING))
    async with own_stage.looking("s1") as look:
        await look.shows("a")
        await own_stage.worker.stop()
        await own_stage.write("s1", ("b", WORKING))
        await expect(look.badge).to_have_text(re.compile(r"^behind for \d+ s"))
        await look.shows("a")
        await own_stage.worker.start()
        await look.shows("b")
        await look.live()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_gateway_that_is_started_again_is_found_again(own_stage: Stage, number: signal.Signals) -> None:
    await own_stage.write("s1", ("a", WORKING))
    async with own_stage.looking("s1") as look, own_stage.looking() as board:
        await look.shows("a")
        await expect(board.rows).to_have_count(1)
        await own_stage.gateway.stop(number)
        await expect(look.badge).to_have_text(re.compile(r"^reconnecting for \d+ s"))
        await look.shows("a")
        await own_stage.write("s1", ("b", DONE))
        await own_stage.write("s2", ("c", WORKING))
        await own_stage.gateway.start()
        await look.shows("b")
        await look.live()
        await expect(board.rows).to_have_count(2)


async def test_a_redis_that_is_started_again_is_found_again(
    browser: Browser, launch: Callable[..., Server], namespace: str
) -> None:
    server = launch(*DURABLE)
    async with (
        connect(server.url, namespace=namespace) as client,
        staged(browser, client, server.url, namespace) as stage,
    ):
        await stage.write("s1", ("a", WORKING))
        async with stage.looking("s1") as look:
            await look.shows("a")
            server.kill()
            await expect(look.badge).to_have_text(re.compile(r"^reconnecting for \d+ s"))
            await look.shows("a")
            server.restart()
            await look.live()
            await stage.write("s1", ("b", DONE))
            await look.shows("b")


async def test_when_no_frame_comes_through_the_page_is_right_within_five_seconds(
    browser: Browser, server: Server, namespace: str
) -> None:
    async with (
        connect(server.url, namespace=namespace) as client,
        Redis.from_url(server.url) as redis,
        mute_worker(server, redis, namespace),
        staged(browser, client, server.url, namespace, worker=False) as stage,
    ):
        await stage.write("s1", ("a", WORKING))
        async with stage.looking("s1") as look:
            await look.shows("a")
            for content in ("b", "c"):
                await stage.projected("s1", await stage.write("s1", (content, WORKING)))
                stored = time.monotonic()
                await look.shows(content)
                assert time.monotonic() - stored < 5


async def test_a_deleted_session_says_so_and_one_that_begins_again_is_shown(stage: Stage) -> None:
    await stage.write("mortal", ("a", WORKING))
    async with stage.looking("mortal") as look, stage.looking(find="mortal") as board:
        await look.shows("a")
        await expect(board.row("mortal")).to_be_visible()
        await stage.delete("mortal")
        await expect(look.nothing).to_have_text("This session was deleted")
        await expect(board.row("mortal")).to_have_count(0)
        await stage.write("mortal", ("reborn", WORKING))
        await look.shows("reborn")
        await expect(look.page.locator(".events li")).to_have_count(1)


async def test_two_tabs_show_the_same(stage: Stage) -> None:
    await stage.write("twice", ("a", WORKING))
    async with stage.looking("twice") as look:
        other = await look.page.context.new_page()
        await other.goto(look.page.url)
        for page in (look.page, other):
            await expect(page.locator(".item .content > bdi")).to_have_text(["a"])
        await stage.write("twice", ("b", WORKING))
        for page in (look.page, other):
            await expect(page.locator(".item .content > bdi")).to_have_text(["b"])
