"""One browser for all tests of the page, and a stage a file for those that do it no harm."""

import secrets
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from page.browser import launched
from page.fleet import People, populate
from page.stage import Stage, staged
from servers import Server
from todo_write.log import connect


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """The browser of this run."""
    async with launched() as browser:
        yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stage(browser: Browser, server: Server) -> AsyncIterator[Stage]:
    """A stage that the tests of a file share: each has sessions of its own, and leaves the processes alone."""
    namespace = f"t{secrets.token_hex(5)}"
    async with (
        connect(server.url, namespace=namespace) as client,
        staged(browser, client, server.url, namespace) as stage,
    ):
        yield stage


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def people(stage: Stage) -> People:
    """Whom to look at among the fleet on the shared stage."""
    return await populate(stage)


@pytest_asyncio.fixture(loop_scope="session")
async def own_stage(
    request: pytest.FixtureRequest, browser: Browser, namespace: str, target: Server
) -> AsyncIterator[Stage]:
    """A stage of the test's own, on its own server when it asks for one; processes may be killed."""
    async with (
        connect(target.url, namespace=namespace) as client,
        staged(browser, client, target.url, namespace, **getattr(request, "param", {})) as stage,
    ):
        yield stage
