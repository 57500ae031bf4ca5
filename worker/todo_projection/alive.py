"""The command ``alive``: asks a process on this machine how it is, for containers and whoever can't ask HTTP."""

import json
from http.client import HTTPConnection, HTTPException
from typing import Annotated, Any, Literal

import typer

from todo_projection.ending import NO, USAGE, end, notes
from todo_projection.flags import with_settings
from todo_projection.settings import Settings, variable

ANSWER_S = 3.0
ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  what a process listens on is not where it is reached

app = typer.Typer()


@app.command(
    epilog=notes(
        "alive worker",
        "alive gateway --ready",
        codes="0 it is, 1 it is not, or does not answer, 2 wrong usage or setting, or its port is off",
    )
)
@with_settings("metrics_host", "metrics_port", "gateway_host", "gateway_port")
def alive(
    settings: Settings,
    process: Annotated[Literal["worker", "gateway"], typer.Argument(help="Which process of this machine.")],
    ready: Annotated[bool, typer.Option("--ready", help="Whether it can work, too: redis answers.")] = False,
) -> None:
    """Ask the worker or the gateway of this machine whether it gets round, at the port that its settings name."""
    host, port = settings.gateway_host, settings.gateway_port
    if process == "worker":
        host, port = settings.metrics_host, settings.metrics_port
    if not port:
        end(
            USAGE, f"{variable('metrics_port' if process == 'worker' else 'gateway_port')} is 0: there is nobody to ask"
        )
    problems = _ask(ANY.get(host, host), port, "/readyz" if ready else "/livez")
    if problems:
        end(NO, "\n".join(f"{process} at {host}:{port}: {problem}" for problem in problems))


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
    return [] if answer.status == 200 else _problems(answer.status, body)  # noqa: PLR2004  OK


def _problems(status: int, body: bytes) -> list[str]:
    try:
        told: Any = json.loads(body)
        return [str(problem) for problem in told["problems"]] or [f"status {status}"]
    except (ValueError, KeyError, TypeError):
        return [f"status {status}: is it another process that listens there?"]
