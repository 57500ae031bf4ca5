"""Sparing log lines: of many like each other only some are shown, and how many were not is told."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

LINES_MAX = 20
WINDOW_S = 30.0
KINDS_MAX = 1000


@dataclass(slots=True)
class _Window:
    began_s: float
    shown: int = 0
    left_out: int = 0


class Sparing(logging.Filter):
    """Lets through, of warnings and errors with one text, ``lines_max`` in ``window_s`` seconds.

    The text is what stands in the code, whatever session or address it is about. The first line of the next window says
    how many were left out.
    """

    def __init__(
        self,
        *,
        lines_max: int = LINES_MAX,
        window_s: float = WINDOW_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._lines_max = lines_max
        self._window_s = window_s
        self._clock = clock
        self._windows: dict[tuple[str, object], _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is shown."""
        if record.levelno < logging.WARNING:
            return True
        now, key = self._clock(), (record.name, record.msg)
        window = self._windows.get(key)
        if window is None or now - window.began_s >= self._window_s:
            left_out = window.left_out if window else 0
            if len(self._windows) >= KINDS_MAX:
                self._windows.clear()
            window = self._windows[key] = _Window(now)
            if left_out:
                record.msg = f"{record.getMessage()} ({left_out} lines like this one were left out)"
                record.args = ()
        window.shown += 1
        if window.shown > self._lines_max:
            window.left_out += 1
            return False
        return True
