"""What can happen to a command on its way, or to what comes back."""

import asyncio
from dataclasses import dataclass, field
from enum import Enum, auto


class Kind(Enum):
    """What happens to the command or to what comes back."""

    LOSE_REQUEST = auto()
    LOSE_REPLY = auto()
    CUT_BEFORE = auto()
    CUT_AFTER = auto()
    HOLD_REQUEST = auto()
    HOLD_REPLY = auto()


ON_REQUEST = {Kind.LOSE_REQUEST, Kind.CUT_BEFORE, Kind.HOLD_REQUEST}


@dataclass(eq=False)
class Fault:
    """One fault; ``hit`` is set when it happens: for those on a reply, when the server has done the command."""

    kind: Kind
    match: bytes
    left: int
    delay_s: float | None
    hit: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Let go what is held."""
        self.released.set()

    async def wait_until_released(self) -> None:
        self.hit.set()
        if self.delay_s is not None:
            asyncio.get_running_loop().call_later(self.delay_s, self.release)
        await self.released.wait()
