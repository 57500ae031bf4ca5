"""The web page: files of the package, served under a policy that lets a browser run and load nothing but them."""

from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.staticfiles import StaticFiles

FILES = Path(__file__).with_name("page")

POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",  # text never becomes HTML: the browser refuses
)
HEADERS = {
    "cache-control": "no-cache",  # kept, and asked for again by its ETag: an upgraded gateway has an upgraded page
    "content-security-policy": "; ".join(POLICY),
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Files(StaticFiles):
    """The page's scripts and styles."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """A file, or that it has not changed."""
        return _guarded(super().file_response(*args, **kwargs))


_files = Files(directory=FILES)


def page_routes() -> list[BaseRoute]:
    """Routes of the page: it stands at the root of the gateway, its files in a folder beside the API."""
    return [Route("/", _page), Route("/page/{name}", _file)]


async def _page(request: Request) -> Response:
    return await _files.get_response("page.html", request.scope)


async def _file(request: Request) -> Response:
    return await _files.get_response(request.path_params["name"], request.scope)


def _guarded(response: Response) -> Response:
    response.headers.update(HEADERS)
    return response
