"""The journal: what processes that keep running tell, a JSON object a line, or lines for people on a terminal.

Loggers of libraries tell through it too. No line holds a password, no traceback what variables held. structlog is
imported when a journal is started: commands that end at once start none.
"""

import logging
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import TextIO
from urllib.parse import unquote, urlsplit

_IN_URL = re.compile(r"(://[^:@/\s\"']*:)[^@/\s\"']+@")


def start_journal(
    level: str, *, secrets: Iterable[str] = (), handler: logging.Handler | None = None, stream: TextIO | None = None
) -> None:
    """Tell what is logged from now on to standard error, or through a handler of one's own.

    ``secrets`` are URLs, of which passwords are never told, or words which are not.
    """
    out = sys.stderr if stream is None else stream
    to_people = handler is not None or out.isatty()
    colourful = handler is None and to_people and not os.environ.get("NO_COLOR")
    handler = handler or logging.StreamHandler(out)
    handler.setFormatter(_formatter(_hidden(secrets), to_people=to_people, colourful=colourful))
    root = logging.getLogger()
    for before in list(root.handlers):
        root.removeHandler(before)
    root.addHandler(handler)
    root.setLevel(level.upper())


def _hidden(secrets: Iterable[str]) -> Mapping[str, str]:
    """What is told instead of each secret, and of the forms in which it may turn up."""
    words: set[str] = set()
    for secret in secrets:
        word = (urlsplit(secret).password or "") if "://" in secret else secret
        words |= {word, unquote(word)}
    return dict.fromkeys(sorted(words - {""}, key=len, reverse=True), "***")


def _formatter(hidden: Mapping[str, str], *, to_people: bool, colourful: bool) -> logging.Formatter:
    import structlog  # noqa: PLC0415  a hook imports this module, and starts no journal

    class Formatter(structlog.stdlib.ProcessorFormatter):
        """Renders, then hides what must not be told, wherever it came from."""

        def format(self, record: logging.LogRecord) -> str:
            told = _IN_URL.sub(r"\1***@", super().format(record))
            for word, instead in hidden.items():
                told = told.replace(word, instead)
            return told

    # structlog's own choice for people shows the variables of each frame, and these hold plans.
    people = structlog.dev.ConsoleRenderer(colors=colourful, exception_formatter=structlog.dev.plain_traceback)
    machines = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
    return Formatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
        ],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *([people] if to_people else machines)],
    )
