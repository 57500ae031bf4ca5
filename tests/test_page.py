"""The page as files: where they are served, under which policy, and how long they are kept."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import todo_projection
from serving import serving
from sse import Http
from todo_projection.page import page_routes

FOLDER = Path(todo_projection.__file__).parent / "page"
FILES = sorted(path.name for path in FOLDER.iterdir())


@pytest.fixture
async def http(redis_url: str, namespace: str) -> AsyncIterator[Http]:
    async with serving(redis_url, namespace, routes=page_routes()) as http:
        yield http


async def test_the_page_stands_at_the_root_and_runs_nothing_but_its_own_files(http: Http) -> None:
    page = await http.get("/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert not re.search(rb"<script>|<style|\sstyle=|\son\w+=", page.body)


@pytest.mark.parametrize("name", FILES)
async def test_every_file_is_served_and_asked_for_again_by_its_tag(http: Http, name: str) -> None:
    file = await http.get(f"/page/{name}")
    assert (file.status, file.headers["x-content-type-options"], file.headers["referrer-policy"]) == (
        200,
        "nosniff",
        "no-referrer",
    )
    assert file.headers["cache-control"] == "no-cache"
    again = await http.get(f"/page/{name}", {"if-none-match": file.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert "content-security-policy" in again.headers


async def test_nothing_beside_the_files_is_served(http: Http) -> None:
    for path in ("/page", "/page/", "/page/nope.js", "/page/../page.py", "/page/%2e%2e/page.py", "/page/..%2fpage.py"):
        answer = await http.get(path)
        assert (answer.status, answer.headers["content-type"]) == (404, "application/json"), path


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith(".svg")])
def test_a_file_names_no_address_but_relative_ones(name: str) -> None:
    text = (FOLDER / name).read_text()
    for found in re.findall(r"""(?:https?:)?//[\w.-]+""", re.sub(r"^\s*//.*$|\s// .*$", "", text, flags=re.MULTILINE)):
        assert found == "http://www.w3.org", found  # a name, not an address
    assert not re.search(r"""(?:href|src)="/|innerHTML|insertAdjacentHTML|document\.write|eval\(""", text)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_the_page_holds_one_concept(name: str) -> None:
    limit = 600 if name.endswith(".css") else 300
    assert len((FOLDER / name).read_text().splitlines()) <= limit


async def test_a_prefix_without_its_slash_leads_to_the_page(redis_url: str, namespace: str) -> None:
    async with serving(redis_url, namespace, routes=page_routes(), gateway_prefix="/plans/all") as http:
        answer = await http.get("")
        assert (answer.status, answer.headers["location"]) == (307, "/plans/all/")
        for as_sent in (http, Http(http.host, http.port)):  # left on by a proxy, or taken off
            assert (await as_sent.get("/")).status == 200
            assert (await as_sent.get("/page/main.js")).status == 200


async def test_the_gateways_own_answers_stand_beside_it(http: Http) -> None:
    assert (await http.get("/api/sessions")).status == 200
    assert (await http.get("/nope")).status == 404
    answer = await http.get("/", method="POST")
    assert (answer.status, answer.headers["content-type"]) == (405, "application/json")
