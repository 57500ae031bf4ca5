"""Where the gateway asks for tokens the page does too, and shows what the token allows."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from granting import write_tokens
from page.stage import Look, staged
from servers import Server
from todo_write.log import connect

pytestmark = pytest.mark.asyncio(loop_scope="session")

SESSION = "team-a/1"


async def sign_in(look: Look, token: str) -> None:
    await look.page.get_by_label("Token").fill(token)
    await look.page.keyboard.press("Enter")


async def test_a_token_is_asked_for_once_and_what_it_allows_is_shown(
    browser: Browser, server: Server, namespace: str, tmp_path: Path
) -> None:
    tokens = write_tokens(tmp_path / "tokens.jsonl")
    async with (
        connect(server.url, namespace=namespace) as client,
        staged(browser, client, server.url, namespace, TODO_GATEWAY_TOKENS_FILE=str(tokens)) as stage,
    ):
        await stage.write(SESSION, ("secret", "in_progress"))
        async with stage.looking() as look:
            await sign_in(look, "wrong")
            await expect(look.page.get_by_role("alert")).to_have_text("This token is not known here.")
            await sign_in(look, "all")
            await look.row(SESSION).locator("a").click()
            await look.shows("secret")
            await look.page.reload()
            await look.shows("secret")
            await expect(look.page.locator(".events li")).to_have_count(1)
            await look.page.get_by_role("button", name="Sign out").click()
            await expect(look.page.get_by_label("Token")).to_be_visible()
            await expect(look.items).to_have_count(0)
            await sign_in(look, "plans")  # no board, no events
            await look.shows("secret")
            await expect(look.page.locator(".events, input[type=range]").first).to_be_hidden()
            await look.page.get_by_role("link", name="Plans").click()
            await expect(look.page.get_by_role("heading", name="This token shows no board")).to_be_visible()
