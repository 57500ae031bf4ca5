"""Bugs that somebody's page of plans once had, each by its name."""

import asyncio

import pytest
from playwright.async_api import Route, expect

from page.stage import Stage, address

pytestmark = pytest.mark.asyncio(loop_scope="session")

DONE, WORKING, PENDING = "completed", "in_progress", "pending"


async def test_after_a_reconnect_it_shows_13_of_13_and_not_4_of_9(stage: Stage) -> None:
    await stage.write("reconnect", *((f"step {n}", DONE if n < 4 else PENDING) for n in range(9)))
    async with stage.looking("reconnect") as look:
        await look.says("4 completed · 5 pending")
        await look.page.context.set_offline(offline=True)
        await look.page.evaluate("dispatchEvent(new Event('online'))")  # it tries, and finds nobody
        await stage.write("reconnect", *((f"step {n}", DONE) for n in range(13)))
        await look.page.context.set_offline(offline=False)
        await look.says("13 completed")
        await expect(look.items).to_have_count(13)


async def test_an_empty_list_takes_the_old_items_away(stage: Stage) -> None:
    await stage.write("emptied", ("old", WORKING))
    async with stage.looking("emptied") as look:
        await look.shows("old")
        await stage.write("emptied")
        await expect(look.nothing).to_have_text("The plan is empty")
        await expect(look.items).to_have_count(0)


async def test_a_finished_session_opened_cold_shows_its_last_list(stage: Stage) -> None:
    await stage.write("cold", ("first", PENDING))
    await stage.projected("cold", await stage.write("cold", ("last", DONE), ("of all", DONE)))
    async with stage.looking("cold") as look:
        await look.shows("last", "of all")
        await look.says("2 completed")
        await expect(look.page.locator(".events li")).to_have_count(2)  # with the first list among the events
        await look.shows("last", "of all")


async def test_a_completed_list_stays_until_the_next_turn_and_no_longer(stage: Stage) -> None:
    await stage.append("turns", ("turn/start", {"turn": 1}))
    await stage.write("turns", ("a", DONE), ("b", DONE))
    async with stage.looking("turns") as look:
        await look.says("2 completed")
        await stage.append("turns", ("turn/end", {"turn": 1, "reason": "completed"}))
        await expect(look.page.locator(".chip .turn")).to_have_text("turn 1 ended: completed")
        await look.shows("a", "b")
        await stage.append("turns", ("turn/start", {"turn": 2}))
        await expect(look.nothing).to_have_text("No plan in this turn")
        await expect(look.items).to_have_count(0)


async def test_a_list_does_not_vanish_at_the_end_of_its_turn(stage: Stage) -> None:
    await stage.append("ended", ("turn/start", {"turn": 1}))
    await stage.write("ended", ("a", DONE), ("b", WORKING), ("c", PENDING))
    await stage.append("ended", ("turn/end", {"turn": 1, "reason": "interrupted"}))
    async with stage.looking("ended") as look:
        await expect(look.page.locator(".plan .open")).to_have_text("turn ended, 2 open")
        await look.shows("a", "b", "c")


async def test_a_late_answer_for_one_session_is_not_shown_for_the_next(stage: Stage) -> None:
    await stage.write("first/one", ("of the first", WORKING))
    await stage.write("second", ("of the second", WORKING))
    held, gone = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        await held.wait()
        await route.continue_()
        gone.set()

    async with stage.looking(find="second") as look:
        await expect(look.row("second")).to_be_visible()
        await look.page.route("**/api/sessions/first*", hold)
        await look.page.evaluate("hash => { location.hash = hash }", address("first/one"))
        await look.shows("of the first")
        await look.page.evaluate("hash => { location.hash = hash }", address("second"))
        await look.shows("of the second")
        async with look.page.expect_response("**/api/sessions/first*"):
            held.set()
        await gone.wait()
        await look.shows("of the second")
        await expect(look.page.locator(".events li")).to_have_count(1)
        await expect(look.page.locator(".events .words")).to_have_text("0/1 completed · of the second")


async def test_a_late_page_of_history_does_not_put_an_old_list_over_a_newer_one(stage: Stage) -> None:
    await stage.projected("late", await stage.write("late", ("old", PENDING)))
    answered, given = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        answer = await route.fetch()
        await answered.wait()
        await route.fulfill(response=answer)
        given.set()

    async with stage.looking() as look:
        await look.page.route("**/api/sessions/late*", hold)
        await look.page.evaluate("hash => { location.hash = hash }", address("late"))
        await look.shows("old")
        await stage.write("late", ("new", WORKING))
        await look.shows("new")
        answered.set()
        await given.wait()
        await expect(look.page.locator(".events li")).to_have_count(2)
        await look.shows("new")


async def test_the_list_of_a_subagent_stays_beside_that_of_its_parent(stage: Stage) -> None:
    await stage.write("boss", ("lead", WORKING), ("hand over", PENDING))
    await stage.append("boss/help", ("session/start", {"parentSession": "boss", "label": "helper"}))
    async with stage.looking("boss") as look:
        await look.shows("lead", "hand over")
        await stage.write("boss/help", ("its own work", WORKING))
        child = look.page.locator(".family li[data-relation=child]")
        await expect(child.locator(".count")).to_have_text("0/1")
        await look.shows("lead", "hand over")
        await child.locator("a").click()
        await look.shows("its own work")
        await expect(look.page.locator(".family li[data-relation=parent] bdi").first).to_have_text("boss")


async def test_a_finished_plan_is_not_an_empty_one(stage: Stage) -> None:
    await stage.write("ended/finished", ("a", DONE))
    await stage.write("ended/void")
    async with stage.looking(find="ended/") as look:
        await expect(look.row("ended/finished").locator(".state")).to_have_text("doneall 1 completed")
        await expect(look.row("ended/void").locator(".state")).to_have_text("emptythe plan is an empty list")
        await look.row("ended/finished").locator("a").click()
        await look.says("1 completed")
        await expect(look.nothing).to_be_hidden()


async def test_two_items_that_differ_only_in_case_are_two_items(stage: Stage) -> None:
    await stage.write("case", ("Read it", DONE), ("read it", WORKING))
    async with stage.looking("case") as look:
        await look.shows("Read it", "read it")
        await stage.write("case", ("Read it", DONE), ("read it", DONE))
        await look.says("2 completed")
        await expect(look.page.locator(".item").nth(0).locator(".change")).to_be_hidden()
        await expect(look.page.locator(".item").nth(1).locator(".change")).to_have_text("was in progress")
        await expect(look.page.locator(".item.completed")).to_have_count(2)
