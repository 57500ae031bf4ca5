"""A browser, and pages of it that may not complain."""

import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SIZES = {"desk": {"width": 1360, "height": 850}, "phone": {"width": 390, "height": 844}}
ARTEFACTS = Path(__file__).parents[2] / ".artifacts"
PATIENCE_MS = 20_000

expect.set_options(timeout=PATIENCE_MS)


def program() -> str:
    """The browser to drive; skips where there is none."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if found is None:
        why = f"none of {', '.join(PROGRAMS)} is on PATH; on Debian: apt-get install chromium"
        if os.environ.get("TODO_REQUIRE_BROWSER") == "1":
            pytest.fail(f"TODO_REQUIRE_BROWSER=1, but {why}")
        pytest.skip(why)
    return found


@asynccontextmanager
async def launched() -> AsyncGenerator[Browser]:
    """A browser without a window."""
    path = program()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def opened(browser: Browser, size: str = "desk", **options: Any) -> AsyncGenerator[Page]:
    """A page in a profile of its own; what it throws, or its policy forbids, fails the test."""
    context = await browser.new_context(viewport=SIZES[size], locale="en-GB", **options)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE_MS)
    page = await context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if _is_complaint(message) else None)
    try:
        yield page
    except AssertionError:
        ARTEFACTS.mkdir(exist_ok=True)
        await page.screenshot(path=ARTEFACTS / "failed.png")
        raise
    finally:
        await context.close()
    assert complaints == []


def _is_complaint(message: Any) -> bool:
    """Whether it is a mistake of the page; that a server is away is none."""
    return message.type == "error" and "Failed to load resource" not in message.text and "net::ERR" not in message.text
