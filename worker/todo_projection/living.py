"""The command ``alive``: asks a process on this machine how it is, for containers and whoever can't ask HTTP."""

from typing import Annotated, Literal

import typer

from todo_projection.alive import Place
from todo_projection.ending import NO, USAGE, end, notes
from todo_projection.flags import with_settings
from todo_projection.settings import Settings, variable

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
    place = Place(process, settings.gateway_host, settings.gateway_port)
    if process == "worker":
        place = Place(process, settings.metrics_host, settings.metrics_port)
    if not place.port:
        end(
            USAGE, f"{variable('metrics_port' if process == 'worker' else 'gateway_port')} is 0: there is nobody to ask"
        )
    if problems := place.problems(ready=ready):
        end(NO, "\n".join(problems))
