"""How much of a stream of requests may be under way at once."""

import asyncio

REQUESTS_MAX = 256
BYTES_MAX = 64 * 1024 * 1024


class Room:
    """Bounded in requests and in bytes; a request larger than all of it is let in alone."""

    def __init__(self, requests_max: int = REQUESTS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._requests_max = requests_max
        self._bytes_max = bytes_max
        self._requests = 0
        self._bytes = 0
        self._freed = asyncio.Event()

    async def take(self, size: int) -> None:
        """Return when one more request, of so many bytes, may begin."""
        while self._requests and (self._requests >= self._requests_max or self._bytes + size > self._bytes_max):
            self._freed.clear()
            await self._freed.wait()
        self._requests += 1
        self._bytes += size

    def give(self, size: int) -> None:
        """A request of so many bytes is over."""
        self._requests -= 1
        self._bytes -= size
        self._freed.set()
