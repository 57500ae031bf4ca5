"""Lines over pipes, sockets and files: none lost, none torn, and nobody blocked."""

import asyncio
import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventually import eventually
from todo_write.lines import CHUNK_BYTES, LineReader, LineWriter

MAX = 100_000


class Ends:
    """A descriptor to read from and one to write to; each is closed once."""

    def __init__(self, kind: str) -> None:
        self.reading, self.writing = os.pipe() if kind == "pipe" else (end.detach() for end in socket.socketpair())
        self._open = {self.reading, self.writing}

    def close(self, end: int) -> None:
        self._open.remove(end)
        os.close(end)

    def close_all(self) -> None:
        for end in list(self._open):
            self.close(end)

    def is_full(self) -> bool:
        """Whether the one to write to takes no more."""
        return select.select([], [self.writing], [], 0)[1] == []


@pytest.fixture(params=["pipe", "socket"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    ends = Ends(request.param)
    yield ends
    ends.close_all()


async def read_all(reader: LineReader) -> list[bytes | None]:
    return [line async for line in reader.lines()]


async def write_all(ends: Ends, pieces: list[bytes]) -> None:
    for piece in pieces:
        await asyncio.to_thread(os.write, ends.writing, piece)
    ends.close(ends.writing)


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([], []),
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a\n\nb"], [b"a", b"", b"b"]),
        ([b"a", b"b\nc", b"\n"], [b"ab", b"c"]),
        ([b"a\r\n"], [b"a\r"]),
        ([b"x" * MAX + b"\n", b"y"], [b"x" * MAX, b"y"]),
        ([b"x" * (MAX + 1) + b"\n", b"y"], [None, b"y"]),
        ([b"x" * (3 * MAX), b"x\ny\n", b"z" * (MAX + 1)], [None, b"y", None]),
        ([b"x" * (MAX + 1)], [None]),
        ([b"a\n" * CHUNK_BYTES], [b"a"] * CHUNK_BYTES),
    ],
    ids=["nothing", "two", "no end", "pieces", "returns", "longest", "too long", "far too long", "last", "many"],
)
async def test_lines_are_read_whole_whatever_pieces_they_come_in(
    ends: Ends, pieces: list[bytes], lines: list[bytes | None]
) -> None:
    read, _ = await asyncio.gather(read_all(LineReader(ends.reading, line_bytes_max=MAX)), write_all(ends, pieces))
    assert read == lines


async def test_a_file_is_read_and_written_like_a_pipe(tmp_path: Path) -> None:
    lines = [f"line {number}".encode() for number in range(20_000)]
    out = os.open(tmp_path / "lines", os.O_CREAT | os.O_WRONLY)
    writer = LineWriter(out)
    await asyncio.gather(*(writer.write(line) for line in lines))
    os.close(out)
    source = os.open(tmp_path / "lines", os.O_RDONLY)
    assert await read_all(LineReader(source, line_bytes_max=MAX)) == lines
    os.close(source)


async def test_a_closed_reader_gives_what_it_has_read_and_no_more(ends: Ends) -> None:
    reader = LineReader(ends.reading, line_bytes_max=MAX)
    os.write(ends.writing, b"a\nb\nhalf")
    read: list[bytes | None] = []
    async for line in reader.lines():
        read.append(line)
        reader.close()
        os.write(ends.writing, b" of it\n")
    assert read == [b"a", b"b", b"half"]


async def test_a_reader_that_waits_can_be_closed(ends: Ends) -> None:
    reader = LineReader(ends.reading, line_bytes_max=MAX)
    reading = asyncio.create_task(read_all(reader))
    await asyncio.sleep(0)  # it begins
    reader.close()
    assert await asyncio.wait_for(reading, 5) == []


async def test_lines_are_written_whole_and_in_order_to_one_who_reads_slowly(ends: Ends) -> None:
    lines = [str(number).encode() * 1000 for number in range(2000)]
    writer = LineWriter(ends.writing)
    writes = [asyncio.create_task(writer.write(line)) for line in lines]
    await eventually(ends.is_full)
    assert not writes[-1].done()  # a writer that waits keeps nobody else from running: this test does
    reader = LineReader(ends.reading, line_bytes_max=MAX)

    async def finish() -> None:
        await asyncio.gather(*writes)
        ends.close(ends.writing)

    read, _ = await asyncio.gather(read_all(reader), finish())
    assert read == lines


async def test_one_who_has_gone_is_told_and_the_rest_dropped(ends: Ends) -> None:
    ends.close(ends.reading)
    writer = LineWriter(ends.writing)
    await writer.write(b"a")
    assert isinstance(writer.broken, BrokenPipeError)
    await writer.write(b"b")


async def test_a_closed_writer_drops_what_nobody_has_read(ends: Ends) -> None:
    writer = LineWriter(ends.writing)
    writes = [asyncio.create_task(writer.write(b"x" * MAX)) for _ in range(20)]
    await eventually(ends.is_full)
    writer.close(TimeoutError("late"))
    await asyncio.wait_for(asyncio.gather(*writes), 5)
    assert str(writer.broken) == "late"
