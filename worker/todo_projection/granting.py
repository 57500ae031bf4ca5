"""The command that makes a token for the gateway."""

import time
from typing import Annotated

import typer

from todo_projection.ending import NO, USAGE, Json, end, notes, say
from todo_projection.flags import with_settings
from todo_projection.output import print_json, print_line
from todo_projection.settings import Settings, variable
from todo_projection.token_list import Line, append_line, digest, new_token, read_list

DAY_S = 24 * 3600

app = typer.Typer()


@app.command(
    epilog=notes(
        "token alice --all --board --events --tokens-file tokens.jsonl",
        "token team-a --prefix team-a/ --board --days 30 --tokens-file tokens.jsonl",
        codes="0 made, 1 the file can't be written, 2 wrong usage or setting",
    )
)
@with_settings("gateway_tokens_file")
def token(  # noqa: PLR0917  a flag for each thing a token may show
    settings: Settings,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is; streams and requests are counted by it.")],
    all: Annotated[bool, typer.Option("--all", help="It shows every session.")] = False,
    session: Annotated[list[str] | None, typer.Option(metavar="ID", help="It shows this session.")] = None,
    prefix: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="It shows sessions whose id begins so.")
    ] = None,
    events: Annotated[bool, typer.Option("--events", help="It shows events, and values of former times.")] = False,
    board: Annotated[bool, typer.Option("--board", help="It shows the board of the sessions it shows.")] = False,
    days: Annotated[float | None, typer.Option(min=0, metavar="NUMBER", help="It counts for so long.")] = None,
    json: Json = False,
) -> None:
    """Make a token for the gateway, add its hash to the list, and print it: it is shown once, and kept nowhere.

    A gateway reads the list anew soon after it has changed. Take a token away by taking its line away.
    """
    path = settings.gateway_tokens_file
    if path is None:
        end(USAGE, f"where to? --tokens-file FILE, or {variable('gateway_tokens_file')}")
    made = new_token()
    line = Line(
        name=name,
        sha256=digest(made),
        expires=None if days is None else float(int(time.time() + days * DAY_S)),
        all=all,
        sessions=session or [],
        prefixes=prefix or [],
        events=events,
        board=board,
    )
    try:
        append_line(path, line)
        read_list(path)
    except OSError as error:
        end(NO, f"{path}: {error.strerror}")
    if not (all or session or prefix):
        say("it shows no session: say --all, --session or --prefix for one that does")
    if json:
        print_json({"token": made, "line": line})
    else:
        print_line(made.encode())
