"""Drafts into session logs: what a log already holds is compared, what it lacks is appended, in atomic batches."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import msgspec
from redis.exceptions import RedisError

from todo_write.events import Entry, InvalidSession, Position, Unsound
from todo_write.log import NO_LOG, Client, LogReader, NotSaved, Overtaken, SessionLog, Tail, TooFast
from todo_write.report import SessionReport
from todo_write.transcript import Draft, Refused

BATCH_EVENTS_MAX = 200
BATCH_BYTES_MAX = 512 * 1024
SESSIONS_MAX = 64


class Intake:
    """Takes the drafts of one file, of any of its sessions, each session's in order; holds a batch a session."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._targets: dict[str, _Target] = {}
        self.reports: list[SessionReport] = []

    async def take(self, draft: Draft) -> None:
        """Compare the draft, or add it to its session's batch, which goes out when it is full.

        Raises Refused for one session too many; what ``SessionLog.append_all`` raises, NotSaved also when the log
        can't be read.
        """
        target = self._targets.get(draft.session)
        if target is None:
            if len(self._targets) == SESSIONS_MAX:
                raise Refused(
                    f"line {draft.line} names one more than {SESSIONS_MAX} sessions, the most a file may hold"
                )
            target = self._targets[draft.session] = _Target(self._client, draft.session)
            self.reports.append(target.report)
        await target.take(draft)

    async def flush(self) -> None:
        """Append what is left of every batch; raises as ``take``."""
        for target in self._targets.values():
            await target.flush()

    async def aclose(self) -> None:
        """Let go of the logs; what was not flushed is dropped."""
        for target in self._targets.values():
            await target.aclose()


class _Target:
    """One session: how far its log has been compared, and the batch to be appended behind it."""

    def __init__(self, client: Client, session: str) -> None:
        self.report = SessionReport(session)
        self._client = client
        self._tail = NO_LOG  # the last entry compared
        self._ahead: Entry | None = None  # the one to be compared next
        self._stored: AsyncGenerator[Entry] | None = None  # those behind it; None when the log has been read
        self._log: SessionLog | None = None  # to append to; None while the log is read
        self._batch: list[Draft] = []
        self._batch_bytes = 0
        try:
            self._stored = LogReader(client, session).events()
        except InvalidSession as error:
            self.report.refused = str(error)

    async def take(self, draft: Draft) -> None:
        if self.report.refused is not None:
            return
        entry = await self._next_stored()
        if entry is not None:
            self._compare(entry, draft)
            return
        self._batch.append(draft)
        self._batch_bytes += len(bytes(draft.data)) + len(draft.type)
        if len(self._batch) >= BATCH_EVENTS_MAX or self._batch_bytes >= BATCH_BYTES_MAX:
            await self.flush()

    async def flush(self) -> None:
        if not self._batch or self.report.refused is not None:
            return
        # Never behind events that were not compared: two imports at once must not both append.
        self._log = self._log or SessionLog(self._client, self.report.session, behind=self._tail)
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        try:
            await self._append(self._log, batch)
        except Overtaken:
            self.report.refused = (
                f"line {batch[0].line}: another writer appends to this session right now; nothing from here on is in "
                "the log: import again when that is over"
            )
        else:
            self.report.appended += len(batch)

    async def _append(self, log: SessionLog, batch: Sequence[Draft]) -> None:
        while True:
            try:
                await log.append_all(_given(draft) for draft in batch)
            except TooFast as error:
                await asyncio.sleep(error.wait_s)  # who has the whole of a transcript is in no hurry
            else:
                return

    async def aclose(self) -> None:
        if self._stored is not None:
            await self._stored.aclose()
            self._stored = None

    def _compare(self, entry: Entry, draft: Draft) -> None:
        seq = self.report.already_there
        if self._tail is NO_LOG and entry.position.seq > seq:
            self.report.already_there += 1  # the log's beginning has been trimmed: nothing is left to compare with
            return
        self.report.refused = _difference(entry, draft, Position(entry.position.epoch, seq))
        if self.report.refused is None:
            self._ahead, self._tail = None, Tail(entry.position, entry.op)
            self.report.already_there += 1

    async def _next_stored(self) -> Entry | None:
        if self._ahead is None and self._stored is not None:
            try:
                self._ahead = await anext(self._stored, None)
            except (RedisError, OSError, TimeoutError) as error:
                raise NotSaved(f"{self._client.address} did not answer: {error}") from error
            except Unsound as error:
                raise Refused(f"the log of session {self.report.session!r} can't be compared: {error}") from None
            if self._ahead is None:
                await self.aclose()
        return self._ahead


def _given(draft: Draft) -> tuple[str, msgspec.Raw] | tuple[str, msgspec.Raw, int]:
    return (draft.type, draft.data) if draft.time is None else (draft.type, draft.data, draft.time)


def _difference(entry: Entry, draft: Draft, expected: Position) -> str | None:
    """Why the stored entry is not the draft; None when it is."""
    event, place = entry.event, f"line {draft.line} differs from the log"
    if entry.position != expected:
        return f"{place}: the log has a gap there, {entry.position} instead of {expected}"
    if event.type != draft.type:
        return f"{place}: {event.type!r} stands at {entry.position}, not {draft.type!r}"
    if not _same_json(event.data, draft.data):
        return f"{place}: the {event.type!r} at {entry.position} has other data"
    if draft.dated and event.time != draft.time:
        return f"{place}: the {event.type!r} at {entry.position} has another time, {event.time} instead of {draft.time}"
    return None


def _number(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() else number


_decoder = msgspec.json.Decoder(float_hook=_number)  # in JSON 1 and 1.0 are the same number
_encoder = msgspec.json.Encoder(order="sorted")


def _same_json(one: msgspec.Raw, other: msgspec.Raw) -> bool:
    if bytes(one) == bytes(other):
        return True
    try:
        return _encoder.encode(_decoder.decode(one)) == _encoder.encode(_decoder.decode(other))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False  # what is stored is no JSON, so not from here
