"""What commands print: JSON for programs, the same JSON made harmless and coloured on a terminal, tables for people."""

import logging
import sys
from typing import Any

import msgspec
from rich.console import Console, RenderableType
from rich.highlighter import JSONHighlighter
from rich.text import Text

from todo_projection.plain import escaped, plain
from todo_projection.settings import Settings
from todo_projection.sparing import Sparing
from todo_write.log import start_journal

WIDTH_UNBOUNDED = 10_000
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_highlight = JSONHighlighter()


def open_console() -> Console:
    """Standard output for people: colours, and cutting to the width, on a terminal only."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a locale without the sign is no reason to fail
    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = WIDTH_UNBOUNDED
    return console


def print_json(value: Any, *, indented: bool = False) -> None:
    """One JSON document on standard output: UTF-8 whatever the locale is; coloured on a terminal."""
    raw = msgspec.json.encode(value)
    if indented:
        raw = msgspec.json.format(raw)
    console = open_console()
    if console.is_terminal:
        console.print(_highlight(Text(escaped(raw.decode()))), soft_wrap=True)
        return
    print_line(raw)


def print_line(raw: bytes) -> None:
    """A line of bytes as they are, at once, for the program that reads them."""
    sys.stdout.buffer.write(raw + b"\n")
    sys.stdout.buffer.flush()


def print_view(view: RenderableType) -> None:
    """A table, or several, on standard output."""
    open_console().print(view)


class ConsoleHandler(logging.Handler):
    """Log lines above what moves on a console."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        self._console.print(plain(self.format(record)), style="bright_black")


def start_logging(level: str) -> None:
    """Log lines to standard error, for people who look; of very many alike only some."""
    logging.basicConfig(level=level.upper(), format=LOG_FORMAT)
    _spare()


def keep_journal(settings: Settings, console: Console | None = None) -> None:
    """What a process that keeps running tells, on standard error or above what moves on a console."""
    handler = None if console is None or not console.is_terminal else ConsoleHandler(console)
    start_journal(settings.log_level, secrets=[settings.redis_url], handler=handler)
    _spare()


def _spare() -> None:
    for one in logging.getLogger().handlers:
        one.addFilter(Sparing())
