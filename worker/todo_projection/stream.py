"""The event stream of one client: what its source has, a heartbeat, and an end that is said."""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from todo_projection.access import Holder, too_many
from todo_projection.refusal import away
from todo_projection.sse import block, retry
from todo_projection.tally import Histogram

CHUNK_BYTES = 32 * 1024
RETRY_MS = (500, 3000)  # clients that lose their stream at one moment don't come back at one moment
RETRY_FULL_S = 5
LIFE_SPREAD = 0.1

HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-accel-buffering": "no",  # a proxy in between must not collect a stream before it passes it on
}


class Source(Protocol):
    """What a stream carries."""

    async def take(self) -> list[bytes]:
        """Blocks of everything new, waiting for the first; an empty list is no end. May be cancelled while it waits."""
        ...

    def close(self) -> None:
        """End it, and wake who waits in ``take``; harmless when done twice."""
        ...


class Heartbeat(msgspec.Struct, frozen=True):
    """The gateway's clock, epoch ms."""

    time: int


class Bye(msgspec.Struct, frozen=True, rename="camel"):
    """Why a stream ends, and when to connect again (ms from now)."""

    reason: str
    retry_ms: int


class Streams:
    """The open streams of a process; ``end`` them all at its end. The counts are for those who watch the process."""

    def __init__(
        self,
        *,
        heartbeat_ms: int,
        life_ms: int,
        open_max: int,
        of_token_max: int,
        token_sessions_max: int,
        counts: Callable[[Holder], bool] = lambda _: True,
    ) -> None:
        self.heartbeat_s = heartbeat_ms / 1000
        self.ending = False
        self.opened = 0
        self.cut = 0
        self.blocks = 0
        self.delivery_s = Histogram()
        self._life_s = life_ms / 1000
        self._open_max = open_max
        self._open: set[Stream] = set()
        self._counts = counts
        self._of_token_max = of_token_max
        self._token_sessions_max = token_sessions_max

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, holder: Holder, sessions: int = 0) -> None:
        """Raise Refusal when there is no room for one more of so many sessions, or when the process is about to end."""
        if self.ending:
            raise away("this gateway is about to end", retry_s=1)
        if len(self._open) >= self._open_max:
            raise away(f"this gateway carries {self._open_max} streams and no more", retry_s=5)
        if not holder.grant.name:
            return
        of_token = [stream for stream in self._open if stream.holder.grant.name == holder.grant.name]
        if len(of_token) >= self._of_token_max:
            raise too_many(f"this token has {self._of_token_max} streams open and may have no more", RETRY_FULL_S)
        if sessions + sum(stream.sessions for stream in of_token) > self._token_sessions_max:
            allowed = self._token_sessions_max
            raise too_many(f"the streams of this token may carry {allowed} sessions and no more", RETRY_FULL_S)

    def end(self, reason: str) -> None:
        """Tell every client why, and end its stream; no new one is admitted."""
        self.ending = True
        for stream in list(self._open):
            stream.end(reason)

    def recheck(self) -> None:
        """End every stream whose token does not allow any more what it allowed when the stream began."""
        for stream in list(self._open):
            if not self._counts(stream.holder):
                stream.end("revoked")

    def enter(self, stream: "Stream") -> asyncio.TimerHandle:
        """Count a stream in; it ends when its life or its token's is over, or when the handle is called off."""
        self.opened += 1
        self._open.add(stream)
        life_s = self._life_s * random.uniform(1 - LIFE_SPREAD, 1 + LIFE_SPREAD)  # noqa: S311  not a secret
        reason, expires_at = "life", stream.holder.grant.expires_at
        if expires_at is not None and (left_s := expires_at - time.time()) < life_s:
            life_s, reason = left_s, "expired"
        handle = asyncio.get_running_loop().call_later(life_s, stream.end, reason)
        if self.ending:
            stream.end("shutdown")
        elif not self._counts(stream.holder):
            stream.end("revoked")
        return handle

    def count_cut(self) -> None:
        """A client was cut off because it did not read."""
        self.cut += 1

    def leave(self, stream: "Stream") -> None:
        """Count a stream out."""
        self._open.discard(stream)


class Stream(Response):
    """The answer that does not end by itself."""

    media_type = "text/event-stream"

    def __init__(self, streams: Streams, source: Source, holder: Holder, sessions: int = 0) -> None:
        super().__init__(headers=HEADERS)
        self.sessions = sessions
        self.holder = holder
        del self.headers["content-length"]
        self._streams = streams
        self._source = source
        self._reason: str | None = None
        self._ended = False

    def end(self, reason: str | None) -> None:
        """End the stream: with a ``bye`` for this reason, or, without one, because nobody reads it any more."""
        if not self._ended:
            self._ended, self._reason = True, reason
            self._source.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Carry the stream until its client or this process has enough."""
        life = self._streams.enter(self)
        leaving = asyncio.create_task(self._listen(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if scope["method"] != "HEAD":
                await self._pump(send)
            await send({"type": "http.response.body", "body": self._bye(), "more_body": False})
        finally:
            life.cancel()
            leaving.cancel()
            self._source.close()
            self._streams.leave(self)

    async def _listen(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end(None)

    async def _pump(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        beat_s = self._streams.heartbeat_s
        beat_at = loop.time() + beat_s
        await send({"type": "http.response.body", "body": retry(_retry_ms()), "more_body": True})
        while not self._ended:
            blocks: list[bytes] = []
            try:
                async with asyncio.timeout_at(beat_at):
                    blocks = await self._source.take()
            except TimeoutError:
                blocks = []
            if loop.time() >= beat_at:
                beat_at = loop.time() + beat_s
                blocks.append(block("heartbeat", msgspec.json.encode(Heartbeat(time.time_ns() // 1_000_000))))
            self._streams.blocks += len(blocks)
            for chunk in _chunks(blocks):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})

    def _bye(self) -> bytes:
        if self._reason is None:
            return b""
        ms = _retry_ms()
        return retry(ms) + block("bye", msgspec.json.encode(Bye(self._reason, ms)))


def _chunks(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Blocks joined to pieces worth a packet, so that a slow client is waited for every few of them."""
    waiting: list[bytes] = []
    size = 0
    for piece in blocks:
        waiting.append(piece)
        size += len(piece)
        if size >= CHUNK_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _retry_ms() -> int:
    return random.randint(*RETRY_MS)  # noqa: S311  not a secret
