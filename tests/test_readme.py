"""README.md: its programs run as they stand there, and what it links to exists."""

import asyncio
import re
import sys
from pathlib import Path

from eventually import eventually
from projecting import working
from todo_write.log import Client, SessionLog

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "README.md").read_text()
WRITER, READER = re.findall(r"```python\n(import asyncio\n.*?)```", PAGE, re.DOTALL)
URL = "redis://127.0.0.1:6379/0"


def program(code: str, redis_url: str, namespace: str) -> list[str]:
    """A program of the page, for the store of a test."""
    assert URL in code
    told = code.replace(f'connect("{URL}")', f'connect("{redis_url}", namespace="{namespace}")')
    return [sys.executable, "-u", "-X", "dev", "-c", told]


async def test_the_writer_and_the_reader_work_as_they_stand(client: Client, redis_url: str, namespace: str) -> None:
    await client.keys()
    async with working(redis_url, namespace):
        writer = await asyncio.create_subprocess_exec(
            *program(WRITER, redis_url, namespace), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await writer.communicate()
        assert (out.decode(), err.decode()) == ("Updated todo list: 0 pending, 1 in progress, 0 completed.\n", "")
        types = [entry.event.type for entry in await SessionLog(client, "s1").read(count_max=9)]
        assert types == ["turn/start", "todo/write", "turn/end"]

        reader = await asyncio.create_subprocess_exec(
            *program(READER, redis_url, namespace), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        assert reader.stdout is not None
        seen: list[str] = []

        async def says(text: str) -> bool:
            assert reader.stdout is not None
            seen.append((await reader.stdout.readline()).decode())
            return text in seen[-1]

        try:
            await eventually(lambda: says("'content': 'build'"), 30)
            await SessionLog(client, "s1").append("todo/write", {"todos": [{"content": "ship", "status": "pending"}]})
            await eventually(lambda: says("s1 todos [{'content': 'ship'"), 30)
        finally:
            reader.kill()
            await reader.wait()


def test_what_the_page_links_to_is_there() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / link).exists(), link


def test_the_table_of_hosts_is_the_one_whose_lines_are_run() -> None:
    page = (ROOT / "docs" / "HOSTS.md").read_text()
    table = page[page.index("<table>") : page.index("</table>")]
    assert table.replace("](../", "](") in PAGE
