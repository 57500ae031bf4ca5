"""Import of one file: what kind of transcript it is, its lines into the logs of its sessions, and the report."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from todo_write.claude import read_claude
from todo_write.intake import Intake
from todo_write.log import Client, LogRewound, NotSaved, OutcomeUnknown
from todo_write.report import FileReport, Kind
from todo_write.transcript import Draft, Line, Malformed, Refused, parse, read_lines
from todo_write.upstream import HEADER, read_upstream

PEEK_LINES_MAX = 100
ADVANCE_BYTES = 256 * 1024

Advance = Callable[[int], None]


async def import_file(
    client: Client, path: Path, session: str | None = None, advance: Advance = lambda _: None
) -> FileReport:
    """Bring the logs of a file's sessions up to the file; ``advance`` is told how many bytes more have been read.

    What a log already holds is not appended again, so after ``not_saved`` the same import goes on where it ended.
    Raises LayoutMismatch, and OSError when the file can't be read.
    """
    intake = Intake(client)
    report = FileReport(str(path), sessions=intake.reports)
    try:
        with path.open("rb") as file:
            await _take_in(file, intake, report, session, advance)
        await intake.flush()
    except (NotSaved, OutcomeUnknown, LogRewound) as error:
        report.not_saved = str(error)
    finally:
        await intake.aclose()
    return report


async def _take_in(file: BinaryIO, intake: Intake, report: FileReport, session: str | None, advance: Advance) -> None:
    lines = _told(read_lines(file), advance)
    peeked: list[Line] = []
    try:
        report.kind = _kind_of(lines, peeked)
        read = read_upstream if report.kind == "upstream" else read_claude
        for found in read(itertools.chain(peeked, lines), session):
            if isinstance(found, Draft):
                await intake.take(found)
            else:
                report.skip(found)
    except Refused as error:
        report.refused = str(error)


def _told(lines: Iterator[Line], advance: Advance) -> Iterator[Line]:
    end = told = 0
    for line in lines:
        yield line
        end = line.end
        if end - told >= ADVANCE_BYTES:
            advance(end - told)
            told = end
    advance(end - told)


class _Look(msgspec.Struct, rename="camel"):
    """The marks by which a line tells its kind; only whether they are there counts."""

    type: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    data: msgspec.Raw = msgspec.Raw()
    session_id: msgspec.Raw = msgspec.Raw()
    leaf_uuid: msgspec.Raw = msgspec.Raw()
    uuid: msgspec.Raw = msgspec.Raw()


def _kind_of(lines: Iterator[Line], peeked: list[Line]) -> Kind:
    """The kind the first lines tell, which go to ``peeked``; raises Refused when none of them tells one."""
    problem: str | None = None
    objects = 0
    for line in itertools.islice(lines, PEEK_LINES_MAX):
        peeked.append(line)
        try:
            look = parse(line, _Look)
        except Malformed as error:
            problem = problem or f"line {line.number}: {error}"
            continue
        objects += 1
        kind = _kind_of_line(look)
        if kind is not None:
            return kind
    if not peeked:
        raise Refused("the file is empty: there is nothing to import")
    if not objects:
        raise Refused(f"not a file of JSON lines: {problem}")
    raise Refused(
        f"neither session events nor a Claude Code transcript: none of the first {len(peeked)} lines has "
        "type and data, or a sessionId"
    )


def _kind_of_line(look: _Look) -> Kind | None:
    type, id, data, *claude = (bool(bytes(getattr(look, name))) for name in look.__struct_fields__)
    if any(claude):
        return "claude-code"
    if bytes(look.type) == f'"{HEADER}"'.encode() and id:
        return "upstream"
    return "upstream" if type and data else None
