"""A diagnosis: what ails a server or a namespace, the worst first. Pure."""

from collections.abc import Sequence
from typing import Literal

import msgspec

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Ailment(msgspec.Struct, frozen=True):
    """One finding: what it is, why it matters, and what mends it.

    A ``mend`` in capitals is a command of the server, any other one for a shell; without any, ``why`` says what to do.
    ``at`` are the servers it was found at, where there are several.
    """

    severity: Severity
    name: str
    what: str
    why: str
    mend: list[str] = []
    at: list[str] = []


class Diagnosis(msgspec.Struct, frozen=True):
    """All findings about the server at ``address``, and what it is; ``primary``: whom sentinels name, if any."""

    address: str
    server: str
    checks: int
    findings: list[Ailment]
    primary: str = ""

    @property
    def sick(self) -> bool:
        """Whether something is wrong that loses events or stops work."""
        return any(one.severity == "error" for one in self.findings)


def ordered(found: Sequence[Ailment]) -> list[Ailment]:
    """The worst first, else as they came."""
    return sorted(found, key=lambda one: SEVERITIES.index(one.severity))
