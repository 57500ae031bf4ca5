"""The canary as a gateway hears it: whether what is appended comes here as a frame, whatever else looks well."""

import asyncio
import logging
import time
from typing import Any

from redis.exceptions import RedisError

from todo_projection.frames import Frame
from todo_projection.subscriber import Snapshot, Subscriber
from todo_projection.tally import Histogram
from todo_projection.wire import Wire, settled
from todo_write.events import CANARY, Position
from todo_write.log import Client, LayoutMismatch

LATE_S = 5.0
LOOK_S = 1.0
SILENT_S = 120.0
MISSED_MAX = 1  # by a frame that was published while this process connected anew

_NOWHERE = Position(-1, -1)

logger = logging.getLogger(__name__)


class Canary:
    """Listens while it is ``run``; ``alive`` is None while redis is away, or no canary has sung for ``SILENT_S``.

    An event that comes only with the next look at the row was delivered by nobody: two of them in a row, or one that
    does not come at all for ``late_s``, and delivery is dead. ``delivery_s`` is by the server's clock, and so is
    ``age_s``, for how long none has sung; None where none ever has, and while redis is away.
    """

    def __init__(self, client: Client, wire: Wire, subscriber: Subscriber, *, late_s: float = LATE_S) -> None:
        self.delivery_s = Histogram()
        self.age_s: float | None = None
        self._client = client
        self._wire = wire
        self._subscriber = subscriber
        self._late_s = late_s
        self._offset_s = 0.0  # this clock less the server's
        self._first: Position | None = None  # where its log ended when this process began to listen
        self._heard = _NOWHERE
        self._missed = 0
        self._waiting: tuple[Position, float] | None = None  # the oldest not heard, and its time by the server
        self._late = False
        self._away = True
        self._sung = False

    @property
    def alive(self) -> bool | None:
        """Whether delivery lives; None: not known."""
        if self._away or not self._sung:
            return None
        return not self._late and self._missed <= MISSED_MAX

    async def run(self) -> None:
        """Listen for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            group.create_task(self._keep_looking())

    async def _listen(self) -> None:
        async for update in self._subscriber.subscription(CANARY):
            match update:
                case Frame(key="todos"):
                    self._hear(Position(update.epoch, update.seq))
                    self._missed = 0
                    self.delivery_s.add(max(0.0, time.time() - self._offset_s - update.time / 1000))
                case Snapshot(_, baseline) if baseline.epoch is not None:
                    position = Position(baseline.epoch, baseline.as_of_seq)
                    self._missed += self._first is not None and position > self._heard
                    self._hear(position)
                case _:
                    pass

    def _hear(self, position: Position) -> None:
        self._heard = max(self._heard, position)
        if self._waiting is not None and self._waiting[0] <= self._heard:
            self._waiting, self._late = None, False

    async def _keep_looking(self) -> None:
        told: bool | None = None
        while True:
            try:
                await self._look()
                self._away = False
            except (RedisError, OSError, LayoutMismatch) as error:
                self._away, self.age_s = True, None
                logger.debug("canary: %s", error)  # the subscriber meets the same server and says so loudly
            told = self._tell(told)
            await asyncio.sleep(LOOK_S)

    def _tell(self, told: bool | None) -> bool | None:
        if self.alive is None or self.alive is told:
            return told
        if self.alive:
            logger.info("delivery lives: the canary is heard")
        else:
            logger.error("delivery is dead: %s", self._why())
        return self.alive

    async def _look(self) -> None:
        keys = await self._client.keys(create=False)
        clock, newest = settled(
            await self._wire.pipeline([("TIME",), ("XREVRANGE", keys.log(CANARY), "+", "-", "COUNT", 1)])
        )
        now_s = int(clock[0]) + int(clock[1]) / 1e6
        self._offset_s = time.time() - now_s
        tail, at_s = _entry(newest) if newest else (_NOWHERE, 0.0)
        if self._first is None:
            self._first = tail
            self._heard = max(self._heard, tail)
        self.age_s = now_s - at_s if newest else None
        self._sung = tail > self._first and now_s - at_s < SILENT_S
        if tail > self._heard:
            self._waiting = self._waiting or (tail, at_s)
            self._late = now_s - self._waiting[1] > self._late_s

    def _why(self) -> str:
        if self._late and self._waiting:
            return f"the canary's event at {self._waiting[0]} has not come for {self._late_s:.0f} s"
        return "the canary's events come by looking at its row only, no frame tells them"


def _entry(found: Any) -> tuple[Position, float]:
    ((id, fields),) = found
    times = dict(zip(fields[::2], fields[1::2], strict=True))
    return Position.parse(id), int(times[b"time"]) / 1000
