"""Log lines: of many alike some are shown, and how many were not is told."""

import logging

from todo_projection.sparing import Sparing


class Sheet(logging.Handler):
    """What was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def logger(sheet: Sheet, clock: list[float]) -> logging.Logger:
    found = logging.getLogger(f"of a test {id(sheet)}")
    found.setLevel(logging.INFO)
    sheet.addFilter(Sparing(lines_max=3, window_s=10, clock=lambda: clock[0]))
    found.addHandler(sheet)
    return found


def test_of_many_warnings_with_one_text_a_few_are_shown_and_the_rest_counted() -> None:
    sheet, clock = Sheet(), [0.0]
    log = logger(sheet, clock)
    for number in range(10):
        log.warning("session %r is foreign", f"s{number}")
    assert sheet.lines == [f"session 's{number}' is foreign" for number in range(3)]
    clock[0] = 11
    log.warning("session %r is foreign", "t")
    assert sheet.lines[3:] == ["session 't' is foreign (7 lines like this one were left out)"]
    log.warning("session %r is foreign", "u")
    assert sheet.lines[4:] == ["session 'u' is foreign"]


def test_another_text_is_another_matter_and_what_is_no_warning_is_always_shown() -> None:
    sheet = Sheet()
    log = logger(sheet, [0.0])
    for _ in range(5):
        log.warning("one")
        log.error("two")
        log.info("three")
    assert [sheet.lines.count(text) for text in ("one", "two", "three")] == [3, 3, 5]
