"""A progress bar over bytes, on a terminal only."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def progress_bar(total_bytes: int) -> Generator[Callable[[int], None]]:
    """A bar on standard error; what it gives is told how many bytes more are done. Silent where nobody looks."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total_bytes or None)
        yield lambda more: progress.advance(task, more)
