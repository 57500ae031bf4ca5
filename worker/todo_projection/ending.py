"""What all commands have in common: exit codes, the end of their help, and their last words."""

import sys
from typing import Annotated, NoReturn

import typer

from todo_projection.plain import plain

NO, USAGE, NO_ANSWER = 1, 2, 3
READING = "2 wrong usage, setting or layout, 3 redis does not answer"

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def notes(*examples: str, codes: str) -> str:
    """The end of a command's help."""
    shown = "\n".join(f"  todo-projection {example}" for example in examples)
    return f"\b\nExamples:\n{shown}\n\nExit codes: {codes}."


def say(text: str) -> None:
    """Lines for people, on standard error."""
    for line in text.splitlines():
        print(f"todo-projection: {plain(line)}", file=sys.stderr)  # noqa: T201  a command talks


def agreed(question: str, *, yes: bool) -> bool:
    """What a person answers; where nobody can be asked, a usage error unless ``yes``."""
    if yes:
        return True
    if not sys.stdin.isatty():
        end(USAGE, f"{question} nobody can be asked here: say --yes")
    return typer.confirm(question, err=True)


def end(code: int, text: str) -> NoReturn:
    """Last words, and the exit code."""
    say(text)
    sys.exit(code)
