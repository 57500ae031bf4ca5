"""How the page looks and reads: hostile text, states apart, keys, addresses, both themes without a finding of axe."""

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from page.browser import ARTEFACTS
from page.fleet import People, settle
from page.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
DONE, WORKING, PENDING = "completed", "in_progress", "pending"


async def findings(page: Page) -> list[str]:
    """What axe holds against the page, serious or worse."""
    found: Any = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("theme", ["dark", "light"])
async def test_axe_finds_nothing_serious_and_the_pictures_are_kept(stage: Stage, people: People, theme: Any) -> None:
    if not AXE.exists() and os.environ.get("TODO_REQUIRE_BROWSER") != "1":
        pytest.skip("axe-core is not installed; run: npm ci --prefix tests/page")
    ARTEFACTS.mkdir(exist_ok=True)
    seen = {"board": None, "session": people.busy, "past": people.busy, "nothing": "nobody"}
    for size, name in (*(("desk", name) for name in seen), ("phone", "board"), ("phone", "session")):
        async with stage.looking(seen[name], size, color_scheme=theme) as look:
            await look.live()
            if name == "past":
                await look.page.locator(".events a").last.click()
                await expect(look.page.locator(".past")).to_be_visible()
            await settle(look.page, name)
            await look.page.screenshot(path=ARTEFACTS / f"{name}-{size}-{theme}.png")
            await look.page.evaluate(AXE.read_text())
            assert await findings(look.page) == [], f"{name} {size} {theme}"


HOSTILE = {
    "<script>window.hit = 1</script><img src=x onerror=window.hit=1>": "<script>window.hit = 1</script>",
    "right \u202egnp.exe to left": "right ⟨U+202E⟩gnp.exe to left",
    "bell \u0007 and null-like \u200b": "bell ␇ and null-like ⟨U+200B⟩",
    "计划 把日志搬到新的集群": "计划 把日志搬到新的集群",
    "👩\u200d🚀 emoji 🇩🇪 stay whole": "👩\u200d🚀 emoji 🇩🇪 stay whole",
    "שלום עולם": "שלום עולם",
}


async def test_text_of_a_plan_is_shown_and_never_more_than_that(stage: Stage) -> None:
    await stage.append("<b>id</b>", ("session/title", {"title": "<i>title</i> \u202e"}))
    await stage.write("<b>id</b>", *((text, WORKING) for text in HOSTILE))
    async with stage.looking("<b>id</b>") as look:
        for place, shown in enumerate(HOSTILE.values()):
            await expect(look.page.locator(".item .content > bdi").nth(place)).to_contain_text(shown)
        await expect(look.page.locator("h1")).to_have_text("<i>title</i> ⟨U+202E⟩")
        assert await look.page.evaluate(
            "[window.hit, document.querySelectorAll('main :is(script, img, i[class=\"\"])').length]"
        ) == [None, 0]
        await look.page.screenshot(path=ARTEFACTS / "hostile.png")


async def test_an_item_of_20_000_characters_is_shown_in_part_until_somebody_asks(stage: Stage) -> None:
    await stage.write("long item", ("x" * 20_000, WORKING), ("short", PENDING))
    async with stage.looking("long item") as look:
        text = look.page.locator(".item .content > bdi").first
        await expect(text).to_have_text("x" * 600 + "…")
        await look.page.get_by_role("button", name="Show all 20,000 characters").click()
        await expect(text).to_have_text("x" * 20_000)
        assert await look.page.evaluate("document.querySelector('main').scrollWidth <= innerWidth")


async def test_a_list_of_a_thousand_items_is_shown_whole(stage: Stage) -> None:
    await stage.write("long list", *((f"step {n}", DONE if n < 400 else PENDING) for n in range(1000)))
    async with stage.looking("long list") as look:
        await look.says("400 completed · 600 pending")
        await expect(look.items).to_have_count(1000)


async def test_no_plan_an_empty_one_and_an_unknown_session_look_different(stage: Stage) -> None:
    await stage.append("cleared one", ("turn/start", {"turn": 1}))
    await stage.append("planless", ("note", 1))
    await stage.write("empty one")
    told = {
        "cleared one": "No plan in this turn",
        "planless": "No plan yet",
        "empty one": "The plan is empty",
        "who": "Nothing is known of this session",
    }
    for session, words in told.items():
        async with stage.looking(session) as look:
            await expect(look.nothing).to_have_text(words)


async def test_what_the_last_write_changed_is_told(stage: Stage) -> None:
    await stage.write("changes", ("a", WORKING), ("b", PENDING), ("c", PENDING), ("d", PENDING))
    await stage.write("changes", ("a", DONE), ("c", PENDING), ("b", WORKING), ("e", PENDING))
    async with stage.looking("changes") as look:
        await expect(look.page.locator(".last")).to_contain_text("1 completed, 1 started, 1 added, 1 removed, 1 moved")
        await expect(look.page.locator(".removed li")).to_have_text(["removed d"])
        await expect(look.page.locator(".item .change:visible")).to_have_text(
            ["was in progress", "moved", "was pending", "added"]
        )
        await stage.write("changes", ("a", DONE), ("c", PENDING), ("b", WORKING), ("e", PENDING))
        await expect(look.page.locator(".last")).to_contain_text("the same list again")


async def test_the_past_is_shown_as_it_was_and_says_so(stage: Stage) -> None:
    await stage.write("past", ("a", WORKING), ("b", WORKING))
    await stage.write("past", ("a", DONE), ("b", WORKING))
    await stage.projected("past", await stage.append("past", ("note", 1)))
    async with stage.looking("past") as look:
        await look.says("1 completed · 1 in progress")
        words = look.page.locator(".events .words")
        await expect(words).to_have_text(["1", "1/2 completed · b", "0/2 completed · a +1"])
        await look.page.locator("input[type=range]").fill("0")
        await look.says("2 in progress")
        await expect(look.page.locator(".past")).to_contain_text("You look at the past: event 0")
        assert look.page.url.endswith("#/s/past?at=0")
        await stage.write("past", ("a", DONE), ("b", DONE))
        await expect(look.page.locator("input[type=range]")).to_have_attribute("max", "3")
        await look.says("2 in progress")  # the present goes on without a word here
        await look.page.get_by_role("link", name="Back to live").first.click()
        await look.says("2 completed")
        await look.page.get_by_role("button", name="1 h ago").click()
        await expect(look.page.get_by_role("alert")).to_contain_text("Nothing was written yet")


async def test_the_address_is_the_state_of_the_page(stage: Stage) -> None:
    await stage.write("nav/1", ("find the needle", WORKING))
    await stage.write("nav/2", ("other", DONE))
    async with stage.looking() as look:
        await look.live()
        await look.page.keyboard.press("/")
        await look.page.keyboard.type("needle")
        await expect(look.rows).to_have_count(1)
        assert look.page.url.endswith("#/?text=needle")
        await look.page.keyboard.press("Enter")
        await look.page.keyboard.press("Enter")
        await look.shows("find the needle")
        await look.page.reload()
        await look.shows("find the needle")
        await look.page.go_back()
        await expect(look.rows).to_have_count(1)
        await look.page.reload()
        await expect(look.row("nav/1")).to_be_visible()
        await look.page.go_forward()
        await look.shows("find the needle")
        await look.page.keyboard.press("Escape")
        await expect(look.page).to_have_url(f"{stage.url}#/")


async def test_keys_move_and_are_listed(stage: Stage, people: People) -> None:
    async with stage.looking() as look:
        await expect(look.row(people.stuck)).to_be_visible()
        for key, place in {"j": 0, "ArrowDown": 1, "k": 0}.items():
            await look.page.keyboard.press(key)
            focused = await look.page.evaluate("document.activeElement.closest('.row').getAttribute('aria-rowindex')")
            assert focused == str(place + 2)
        theme = await look.page.locator("html").get_attribute("data-theme")
        await look.page.keyboard.press("t")
        await expect(look.page.locator("html")).not_to_have_attribute("data-theme", theme or "")
        await look.page.keyboard.press("?")
        await expect(look.page.get_by_role("dialog")).to_be_visible()
        await look.page.keyboard.press("Escape")
        await expect(look.page.get_by_role("dialog")).to_be_hidden()


async def test_who_listens_hears_one_sentence_and_never_the_list(stage: Stage) -> None:
    await stage.write("heard", *((f"step {n}", DONE if n < 3 else WORKING if n == 3 else PENDING) for n in range(7)))
    async with stage.looking("heard") as look:
        await expect(look.page.get_by_role("status").last).to_have_text("3 of 7 done, now: step 3")
        assert await look.page.locator("[aria-live]").count() == 1


async def test_a_value_that_may_be_wrong_says_so_beside_itself(stage: Stage) -> None:
    await stage.write("marked", ("good", WORKING))
    await stage.projected("marked", await stage.broken("marked"))
    async with stage.looking("marked") as look:
        await expect(look.page.locator(".stale")).to_contain_text("event 1 could not be applied")
        await look.shows("good")
        await look.page.goto(f"{stage.url}#/?text=marked")
        await expect(look.row("marked").locator(".doubt")).to_have_text("stale")


async def test_the_empty_board_says_how_a_first_session_comes_onto_it(own_stage: Stage) -> None:
    async with own_stage.looking() as look:
        await expect(look.page.get_by_role("heading", name="No session yet")).to_be_visible()
        await own_stage.write("my-session", ("Try it", WORKING))
        await expect(look.row("my-session")).to_be_visible()


@pytest.mark.parametrize("own_stage", [{"TODO_GATEWAY_PREFIX": "/plans"}], indirect=True)
async def test_the_page_works_behind_a_prefix(own_stage: Stage) -> None:
    await own_stage.write("s1", ("a", WORKING))
    async with own_stage.looking() as look:
        await look.page.goto(own_stage.url.removesuffix("/"))
        await look.row("s1").locator("a").click()
        await look.shows("a")
        await look.live()
