"""Five questions that bring somebody to the page, each answered within two clicks of opening it."""

import pytest
from playwright.async_api import expect

from page.fleet import populate
from page.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_five_questions_are_answered_within_two_clicks(own_stage: Stage) -> None:
    people = await populate(own_stage)
    async with own_stage.looking() as look:
        row = look.row(people.stuck)
        # Which one is stuck, and since when? It stands on top.
        await expect(row).to_have_attribute("aria-rowindex", "2")
        await expect(row.locator(".state")).to_contain_text("in progress for 4")
        # What is this agent doing now?
        await expect(row.locator(".now")).to_have_text("Run the suite under the new interpreter")
        # Which ones are done?
        await look.page.get_by_role("button", name="Done").click()
        await expect(look.row("invoices")).to_be_visible()
        await expect(look.row(people.stuck)).to_have_count(0)
        await look.page.get_by_role("button", name="Done").click()
        # What changed in its last write?
        await row.locator("a").click()
        await expect(look.page.locator(".last")).to_contain_text("1 completed, 1 started")
        # What was its plan an hour ago?
        await look.page.get_by_role("button", name="1 h ago").click()
        await look.says("1 completed · 1 in progress · 4 pending")
        await expect(look.page.locator(".past")).to_contain_text("You look at the past")
