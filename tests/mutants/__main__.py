"""``make mutants``: breaks one line after another of a copy, and says whether the tests notice."""

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from mutants.mutant import Mutant, OutOfDate
from mutants.run import NotGreen, Outcome, copied, outcome, prove_green
from mutants.table import MUTANTS

COLOURS = {"killed": "green", "survived": "red", "broken": "red"}

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(
    epilog="Example: make mutants ARGS='--only etag --only poll'. "
    "Exit 0: all are killed; 1: one survives or has no verdict; 2: one is out of date, or the tests fail without any."
)
def run(
    only: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="Those with this in their name.")] = None,
    jobs: Annotated[int, typer.Option("-j", min=1, metavar="NUMBER", help="So many at once.")] = 2,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Apply each mutant to a copy and run the tests meant for it; one that survives is a hole in the tests."""
    wanted = [one for one in MUTANTS if not only or any(text in one.name for text in only)]
    if not wanted:
        raise typer.BadParameter(f"no mutant has {only} in its name")
    try:
        for one in wanted:
            one.applied()
        with copied() as copy:  # one state of the tree for all, whoever edits it meanwhile
            prove_green(copy, wanted)
            found = list(_outcomes(copy, wanted, jobs))
    except (OutOfDate, NotGreen) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(code=2) from None
    if json:
        typer.echo(msgspec.json.encode(found).decode())
    else:
        _show(found)
    raise typer.Exit(code=any(one.verdict != "killed" for one in found))


def _outcomes(copy: Path, mutants: Sequence[Mutant], jobs: int) -> Iterator[Outcome]:
    console = Console(stderr=True)
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = pool.map(partial(outcome, root=copy), mutants)
        yield from track(
            outcomes, "mutants", total=len(mutants), console=console, disable=not console.is_terminal, transient=True
        )


def _show(found: Sequence[Outcome]) -> None:
    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = max(200, shutil.get_terminal_size().columns)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("invariant", "mutant", "verdict", "s", "first test that fails"):
        table.add_column(name, justify="right" if name in ("invariant", "s") else "left", overflow="fold")
    for one in found:
        cells = (str(one.invariant), one.name, one.verdict, f"{one.seconds:.0f}", one.by)
        table.add_row(*cells, style="" if one.verdict == "killed" else COLOURS[one.verdict])
    console.print(table)
    killed = sum(one.verdict == "killed" for one in found)
    console.print(f"\n{killed} of {len(found)} mutants killed", style="green" if killed == len(found) else "red")


if __name__ == "__main__":
    app()
