"""Headers that every answer has, whoever made it, unless it says otherwise itself."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

EVERY = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
}


def with_headers(app: ASGIApp) -> ASGIApp:
    """The application, its answers with the headers above."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in EVERY.items():
                    headers.setdefault(name, value)
            await send(message)

        await app(scope, receive, tell)

    return guarded
