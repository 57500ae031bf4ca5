"""The session log and its one kind of writer: appends that stay exact under retries, turns, deletion."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Literal, overload

from todo_write.append import (
    NO_LOG,
    AppendCall,
    Given,
    LogRewound,
    Moved,
    NotSaved,
    OutcomeUnknown,
    Overtaken,
    Tail,
    TooFast,
    TooFewReplicas,
    event_fields,
)
from todo_write.client import Client, LayoutMismatch, connect
from todo_write.connections import LendingPool, PackedConnection
from todo_write.delivery import Delivery, Script
from todo_write.durability import Confirmation, Durability, Receipt
from todo_write.events import (
    TODO_WRITE,
    TURN_END,
    TURN_START,
    InvalidEvent,
    InvalidSession,
    Keys,
    Position,
    token,
)
from todo_write.journal import start_journal
from todo_write.location import Address, Location, locate
from todo_write.nodes import HOPS_MAX, Hop, Nodes, key_of
from todo_write.pace import Pace
from todo_write.primary import leads_where_it_should, open_pool
from todo_write.reader import LogReader
from todo_write.settings import InvalidSetting, StoreSettings, mask, variable
from todo_write.tally import Ending
from todo_write.turn import Turn, last_turn

__all__ = [
    "HOPS_MAX",
    "NO_LOG",
    "Address",
    "Client",
    "Hop",
    "InvalidEvent",
    "InvalidSession",
    "InvalidSetting",
    "LayoutMismatch",
    "LendingPool",
    "Location",
    "LogReader",
    "LogRewound",
    "Nodes",
    "NotSaved",
    "OutcomeUnknown",
    "Overtaken",
    "Pace",
    "PackedConnection",
    "Receipt",
    "SessionLog",
    "StoreSettings",
    "Tail",
    "TooFast",
    "TooFewReplicas",
    "connect",
    "key_of",
    "leads_where_it_should",
    "locate",
    "mask",
    "open_pool",
    "start_journal",
    "variable",
]

TOMBSTONE_MS = 7 * 24 * 3600 * 1000

_APPEND = Script("append")
_DELETE = Script("delete")

_logger = logging.getLogger(__name__)


class SessionLog(LogReader):
    """One session's log, to be written; its appends run one after another, in the order of the calls.

    Any number of writers may write one session, each keeping its own place. One that has read up to ``behind`` and
    must not miss an event appends there or, when others were faster, nowhere: Overtaken is raised. ``append_budget_ms``
    bounds a whole call, ``append_attempt_ms`` each of its tries; None takes the client's settings.
    """

    def __init__(
        self,
        client: Client,
        session: str,
        *,
        behind: Tail | None = None,
        append_budget_ms: int | None = None,
        append_attempt_ms: int | None = None,
    ) -> None:
        super().__init__(client, session)
        self._moves = behind is None
        self._budget_ms = append_budget_ms or client.settings.append_budget_ms
        self._attempt_ms = append_attempt_ms or client.settings.append_attempt_ms
        self._lock = asyncio.Lock()  # wakes those who wait in the order in which they came
        self._tail = behind  # None: never looked
        self._turn: Turn | None = None  # None: to be looked up in the log
        self._names: list[str] = []

    @overload
    async def append(
        self, type: str, data: Any, *, time: int | None = None, durability: Literal["memory"] = "memory"
    ) -> Position: ...
    @overload
    async def append(
        self, type: str, data: Any, *, time: int | None = None, durability: Literal["replicated", "fsynced"]
    ) -> Receipt: ...
    async def append(
        self, type: str, data: Any, *, time: int | None = None, durability: Durability = "memory"
    ) -> Position | Receipt:
        """Append one event, ``data`` any JSON value or msgspec.Raw, ``time`` in epoch ms; returns its position.

        ``durability`` beyond memory gives a Receipt, once a replica has the event (``replicated``) or the primary's
        disk (``fsynced``), or ``append_attempt_ms`` after it: it says whether that was reached. Raises InvalidEvent;
        NotSaved, OutcomeUnknown, LogRewound and Overtaken as their texts say; LayoutMismatch. Everything that may be
        repeated has been, within the budget.
        """
        events: list[Given] = [(type, data) if time is None else (type, data, time)]
        if durability == "memory":
            return (await self.append_all(events))[0]
        confirmation = Confirmation(durability, self._attempt_ms)
        return confirmation.receipt(await self._append(events, confirmation))

    async def append_all(self, events: Iterable[Given]) -> list[Position]:
        """Append several events, all or none, one behind the other: ``(type, data)`` or ``(type, data, time)`` each.

        Raises what ``append`` raises.
        """
        return await self._append(events, None)

    async def _append(self, events: Iterable[Given], confirmation: Confirmation | None) -> list[Position]:
        fields = [field for event in events for field in self._fields(event)]
        if not fields:
            return []
        self._check_pace(len(fields) // 3)
        self._check_size(sum(map(len, fields)))
        delivery = self._deliver()
        async with self._lock:
            call = AppendCall(self.session, self._tail or NO_LOG, fields)

            async def attempt() -> list[Position]:
                names = self._names or await delivery.ask(self._look_up_names)
                if self._tail is None:
                    self._tail = call.tail = await delivery.ask(self._read_tail)
                answer = await delivery.send(_APPEND, names, call.arguments(), confirmation=confirmation)
                try:
                    return call.read(answer, maybe_stored=delivery.maybe_stored)
                except Moved:
                    if self._moves:
                        raise
                    raise Overtaken(f"session {self.session!r} goes on to {call.tail.position} by now") from None

            try:
                positions = await delivery.within_budget(attempt)
            except Exception as error:
                self._client.tally.count(_ending(error))
                raise
            finally:
                # Also after an unknown outcome or a cancellation: what the server last confirmed stays the belief, so
                # that the next call compares with it and a loss in between is told.
                if self._tail is not None:
                    self._tail = call.tail
        self._client.tally.count("landed" if call.landed_earlier else "appended")
        if call.landed_earlier:
            _logger.info("append to session %r: an earlier try had landed at %s", self.session, positions[0])
        return positions

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[int]:
        """``turn/start`` now, ``turn/end`` at the end, with reason completed, error or interrupted; gives the number.

        Raises what ``append`` raises; when the body raised and its ``turn/end`` fails as well, the body's error goes
        on, with a note.
        """
        number = await self.start_turn()
        try:
            yield number
        except BaseException as error:
            try:
                await self.end_turn("error" if isinstance(error, Exception) else "interrupted")
            except Exception as failed:  # noqa: BLE001  whatever it is, the body's own error is the one to raise
                error.add_note(f"turn/end of turn {number} was not appended: {failed}")
            raise
        await self.end_turn("completed")

    async def start_turn(self) -> int:
        """Append ``turn/start`` with the number behind the log's last turn, and return it; raises as ``append``."""
        turn = Turn((await self._last_turn()).number + 1, is_open=True)
        await self._append_turn(TURN_START, {"turn": turn.number}, turn)
        return turn.number

    async def end_turn(self, reason: str) -> int:
        """Append ``turn/end`` of the open turn and return its number; raises as ``append``, InvalidEvent for none."""
        number, is_open = await self._last_turn()
        if not is_open:
            raise InvalidEvent(f"session {self.session!r} has no open turn to end; append turn/start first")
        await self._append_turn(TURN_END, {"turn": number, "reason": {"kind": reason}}, Turn(number, is_open=False))
        return number

    async def delete(self) -> bool:
        """Delete the session, log and values; False when there was nothing.

        A log that began after this call looked stays. Raises NotSaved when it is still there, OutcomeUnknown.
        """
        delivery = self._deliver()
        etag = token()
        async with self._lock:
            seen: list[str] = []

            async def attempt() -> bytes:
                keys = await delivery.ask(self._look_up_keys)
                if not seen:
                    tail = await delivery.ask(self.tail)
                    seen.append(str(tail.epoch) if tail else "")
                publish = await delivery.ask(self._client.publish_command)
                session, partition = self.session, keys.partition(self.session)
                names = [keys.log(session), keys.row(session)]
                names += [keys.recent(partition), keys.working(partition), keys.stale(partition)]
                told = [session, etag, publish, keys.channel(session), str(TOMBSTONE_MS), seen[0]]
                answer: bytes = await delivery.send(_DELETE, names, told)
                return answer

            word = await delivery.within_budget(attempt)
            self._tail, self._turn = None, None
            return word == b"deleted"

    def _fields(self, event: Given) -> list[bytes]:
        limits = self._client.settings
        bytes_max = limits.todo_write_bytes_max if event[0] == TODO_WRITE else limits.event_bytes_max
        return event_fields(event, bytes_max=bytes_max)

    def _check_size(self, size: int) -> None:
        limit = self._client.settings.append_bytes_max
        if size > limit:
            raise InvalidEvent(f"one append of {size} bytes; at most {limit} are allowed: append in several calls")

    def _check_pace(self, count: int) -> None:
        """Raise TooFast for what comes too fast to be anything but a loop; whole, and before anything is sent."""
        client = self._client
        for whose, pace, key in (
            (f"session {self.session!r}", client.session_pace, self.session),
            ("this process", client.process_pace, ""),
        ):
            if (wait_s := pace.wait_s(key, count)) > 0:
                raise TooFast(whose, pace.per_s, wait_s)

    def _deliver(self) -> Delivery:
        return Delivery(self._client, budget_ms=self._budget_ms, attempt_ms=self._attempt_ms)

    async def _look_up_names(self) -> list[str]:
        keys, session = await self._client.keys(), self.session
        self._names = [keys.log(session), keys.feed(keys.partition(session)), keys.row(session)]
        return self._names

    async def _look_up_keys(self) -> Keys:
        return await self._client.keys(create=False)

    async def _append_turn(self, type: str, data: dict[str, Any], turn: Turn) -> None:
        self._turn = None  # looked up again, should the append end otherwise than well
        await self.append(type, data)
        self._turn = turn

    async def _last_turn(self) -> Turn:
        if self._turn is None:
            delivery = self._deliver()
            self._turn = await delivery.within_budget(lambda: delivery.ask(lambda: last_turn(self)))
        return self._turn


def _ending(error: Exception) -> Ending:
    match error:
        case Overtaken():
            return "overtaken"
        case LogRewound():
            return "rewound"
        case OutcomeUnknown():
            return "unknown"
        case NotSaved():
            return "not_saved"
        case _:
            return "invalid"
