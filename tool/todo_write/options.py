"""Arguments and options that several commands share."""

from typing import Annotated

import typer

Session = Annotated[str, typer.Argument(help="Session id, 1-256 bytes of UTF-8.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Mode = Annotated[
    bool | None,
    typer.Option(
        "--parallel/--single",
        help="Whether several todos may be in progress at once; TODO_ALLOW_PARALLEL_IN_PROGRESS, no default.",
        show_default=False,
    ),
]
RedisUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Where the logs are; TODO_REDIS_URL, else redis://127.0.0.1:6379/0."),
]
Namespace = Annotated[
    str | None, typer.Option(metavar="NAME", help="First part of every key; TODO_NAMESPACE, else todo.")
]
Partitions = Annotated[
    str | None,
    typer.Option(metavar="N", help="For the first writer of a namespace; TODO_PARTITIONS, else 64."),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Tell Prometheus at /metrics how appends end; HOST is 127.0.0.1 unless given."
    ),
]
