"""What an import did, for people and for programs."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from todo_write.transcript import Skipped

SKIPPED_SHOWN_MAX = 100

Kind = Literal["upstream", "claude-code"]


class SessionReport(msgspec.Struct):
    """What happened to one session; ``refused`` says why it went no further, with the line."""

    session: str
    appended: int = 0
    already_there: int = 0
    refused: str | None = None


class FileReport(msgspec.Struct):
    """What became of one file: ``refused`` it could not be taken in, ``not_saved`` the store stopped it half-way.

    ``skipped`` holds the first ``SKIPPED_SHOWN_MAX`` of ``skipped_count`` lines.
    """

    file: str
    kind: Kind | None = None
    sessions: list[SessionReport] = msgspec.field(default_factory=list[SessionReport])
    skipped: list[Skipped] = msgspec.field(default_factory=list[Skipped])
    skipped_count: int = 0
    refused: str | None = None
    not_saved: str | None = None

    @property
    def clean(self) -> bool:
        """Whether every line that should give an event did, and every event is in its log."""
        return not (self.skipped_count or self.refused or self.not_saved or any(s.refused for s in self.sessions))

    def skip(self, skipped: Skipped) -> None:
        """Note a skipped line."""
        self.skipped_count += 1
        if len(self.skipped) < SKIPPED_SHOWN_MAX:
            self.skipped.append(skipped)

    def describe(self) -> Iterator[str]:
        """The report as lines of text."""
        yield self.file
        for session in self.sessions:
            yield f"  session {session.session}: {session.appended} appended, {session.already_there} already there"
            if session.refused is not None:
                yield f"    refused: {session.refused}"
        for skipped in self.skipped:
            yield f"  line {skipped.line} skipped: {skipped.reason}"
        if self.skipped_count > len(self.skipped):
            yield f"  {self.skipped_count - len(self.skipped)} more lines skipped"
        if self.refused is not None:
            yield f"  refused: {self.refused}"
        if self.not_saved is not None:
            yield f"  not saved: {self.not_saved}; import it again when that is mended, it goes on where it ended"
        if self.clean and not self.sessions:
            yield "  no events in it"
