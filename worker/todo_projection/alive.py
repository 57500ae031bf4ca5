"""Whether a process of this machine gets round: asked at its port, with the standard library alone.

A container is asked every half minute for as long as it lives, so what a command needs else is not imported for it.
"""

import json
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple

ANSWER_S = 3.0
PORT_MAX = 65_535
ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  what a process listens on is not where it is reached


class Place(NamedTuple):
    """Which process, and where it listens."""

    process: str
    host: str
    port: int

    def problems(self, *, ready: bool) -> list[str]:
        """What is wrong with it, a line each; none: it gets round, and with ``ready`` redis answers it, too."""
        found = _ask(ANY.get(self.host, self.host), self.port, "/readyz" if ready else "/livez")
        return [f"{self.process} at {self.host}:{self.port}: {problem}" for problem in found]


def problems(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str] | None:
    """What is wrong with the process that these arguments of ``alive`` name.

    None where more than a name and ``--ready`` is said, or a variable is not plainly a port: the command reads that.
    """
    ready = "--ready" in arguments
    match [argument for argument in arguments if argument != "--ready"]:
        case ["worker" | "gateway" as process]:
            place = _place(process, environ)
            return place and place.problems(ready=ready)
        case _:
            return None


def _place(process: str, environ: Mapping[str, str]) -> Place | None:
    """Where it listens by its variables, read as Settings read them."""
    if process == "worker":
        host, port = environ.get("TODO_METRICS_HOST"), environ.get("TODO_METRICS_PORT") or "0"
    else:
        host, port = environ.get("TODO_GATEWAY_HOST"), environ.get("TODO_GATEWAY_PORT") or environ.get("PORT") or "8421"
    if not (port.isascii() and port.isdigit() and 0 < int(port) <= PORT_MAX):
        return None
    return Place(process, host or "127.0.0.1", int(port))


def _ask(host: str, port: int, path: str) -> list[str]:
    connection = HTTPConnection(host, port, timeout=ANSWER_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, HTTPException) as error:
        return [f"no answer: {type(error).__name__} {error}"]
    finally:
        connection.close()
    return [] if answer.status == 200 else _told(answer.status, body)  # noqa: PLR2004  OK


def _told(status: int, body: bytes) -> list[str]:
    try:
        told: Any = json.loads(body)
        return [str(problem) for problem in told["problems"]] or [f"status {status}"]
    except (ValueError, KeyError, TypeError):
        return [f"status {status}: is it another process that listens there?"]
