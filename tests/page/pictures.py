"""The pictures of the README, from a fleet of its own: ``PYTHONPATH=tests .venv/bin/python -m page.pictures``."""

import asyncio
from pathlib import Path

from page.browser import launched
from page.fleet import populate, settle
from page.stage import staged
from todo_projection.embedded import launched_server
from todo_write.log import connect

DOCS = Path(__file__).parents[2] / "docs"
HEIGHTS = {"board": 660, "session": 700}


async def main() -> None:
    async with (
        launched() as browser,
        launched_server() as server,
        connect(server.url) as client,
        staged(browser, client, server.url, "todo") as stage,
    ):
        people = await populate(stage)
        for name, session, theme in (("board", None, "dark"), ("session", people.lead, "light")):
            async with stage.looking(session, color_scheme=theme) as look:
                await look.live()
                await settle(look.page, name)
                clip = {"x": 0, "y": 0, "width": 1360, "height": HEIGHTS[name]}
                await look.page.screenshot(path=DOCS / f"{name}.png", clip=clip)  # type: ignore[arg-type]  # a TypedDict


if __name__ == "__main__":
    asyncio.run(main())
