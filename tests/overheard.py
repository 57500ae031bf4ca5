"""A worker's wire with a memory."""

from collections.abc import Sequence
from typing import Any

from todo_projection.wire import Command, Wire


class Overheard(Wire):
    """A wire that remembers what was sent over it."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.sent: list[Command] = []

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """One round trip."""
        self.sent += commands
        return await super().pipeline(commands)

    @property
    def names(self) -> list[str]:
        """The commands alone."""
        return [command[0] for command in self.sent]
