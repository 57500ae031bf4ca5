"""The demo: agents that work through plans at human speed, with the real tool, until somebody ends it."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import Random
from typing import Any, TypeVar

from redis.exceptions import RedisError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_exponential_jitter

from todo_write.events import SESSION_START, SESSION_TITLE, Status
from todo_write.log import Client, InvalidEvent, LogRewound, NotSaved, OutcomeUnknown, SessionLog
from todo_write.plans import ERRANDS, PLANS, REMARKS, Plan
from todo_write.signals import until_signal
from todo_write.tool import TodoWrite

ARRIVAL_S = (0.0, 2.0)
STEP_S = (1.5, 5.0)
REST_S = (4.0, 12.0)
FAREWELL_S = 2.0

REMARK_CHANCE = 0.5
OVERLAP_CHANCE = 0.2  # of beginning the next step while one is still in progress
ERRAND_CHANCE = 0.1
INTERRUPT_CHANCE = 0.03

T = TypeVar("T")

_logger = logging.getLogger(__name__)


async def run_demo(client: Client, *, sessions: int, seed: int, speed: float = 1.0, once: bool = False) -> None:
    """Keep ``sessions`` agents busy, each for one turn with ``once``, until SIGINT or SIGTERM; nothing is deleted.

    ``seed`` decides what they do, ``speed`` how fast: 1 is human. Redis away: waits, loudly. Raises LayoutMismatch.
    """
    tool = TodoWrite(client, allow_parallel_in_progress=True)
    with until_signal():
        await _patiently(client.keys)
        plans = _random(f"{seed}").sample(PLANS, len(PLANS))
        async with asyncio.TaskGroup() as agents:
            for number in range(sessions):
                agent = Agent(client, tool, f"demo-{seed}-{number + 1:02}", _random(f"{seed}/{number}"), speed)
                own = [plans[(number + turn) % len(plans)] for turn in range(len(plans))]
                agents.create_task(agent.live(own[:1] if once else itertools.cycle(own), label=f"agent {number + 1}"))


def _random(seed: str) -> Random:
    return Random(seed)  # noqa: S311  it makes a plot, no secret


async def _patiently(step: Callable[[], Awaitable[T]]) -> T:
    """The step's answer, however long the store is away; a step done twice does a demo no harm."""

    async def once() -> T:
        return await step()

    retrying = AsyncRetrying(
        retry=retry_if_exception_type((NotSaved, OutcomeUnknown, LogRewound, RedisError, OSError)),
        wait=wait_exponential_jitter(multiplier=0.2, max=5),
        before_sleep=_tell,
    )
    return await retrying(once)


def _tell(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    _logger.warning("demo: %s; going on when the store is back", error)


class Agent:
    """One agent: its session, and how it works through plans."""

    def __init__(
        self, client: Client, tool: TodoWrite, session: str, random: Random, speed: float, *, helped: bool = True
    ) -> None:
        self._client = client
        self._tool = tool
        self._log = SessionLog(client, session)
        self._random = random
        self._speed = speed
        self._helped = helped  # whether it hands errands to subagents

    async def live(self, plans: Iterable[Plan], **start: str) -> None:
        """Plan after plan, with rests; a session that is there already goes on."""
        await self._pause(ARRIVAL_S)
        for number, plan in enumerate(plans):
            if number:
                await self._pause(REST_S)
            await self.work_on(plan, **start)

    async def work_on(self, plan: Plan, **start: str) -> None:
        """One plan in a turn of its own; ``start`` is what ``session/start`` says of a new session."""
        if await _patiently(self._log.tail) is None:
            await self._append(SESSION_START, {"cwd": "/srv/demo", **start})
        await self._append(SESSION_TITLE, {"title": plan.title})
        try:
            await _patiently(self._log.start_turn)
            reason = await self._take_steps(plan.steps)
        except asyncio.CancelledError:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL_S):
                    await self._end_turn("interrupted")
            raise
        await self._end_turn(reason)

    async def _take_steps(self, steps: Sequence[str]) -> str:
        """Step by step, the list written after each; the reason with which the turn ends."""
        await self._remark()
        ahead = 0  # how many steps beyond the current one are in progress too
        for current in range(len(steps)):
            await self._write(steps, current, current + ahead)
            await self._pause(STEP_S)
            if self._random.random() < INTERRUPT_CHANCE:
                return "interrupted"
            if self._helped and self._random.random() < ERRAND_CHANCE:
                await self._send_errand()
            if self._random.random() < REMARK_CHANCE:
                await self._remark()
            ahead = 1 if not ahead and self._random.random() < OVERLAP_CHANCE else 0
        await self._write(steps, len(steps), len(steps))
        return "completed"

    async def _write(self, steps: Sequence[str], current: int, last: int) -> None:
        def status(index: int) -> Status:
            if index < current:
                return "completed"
            return "in_progress" if index <= last else "pending"

        todos = [{"content": content, "status": status(index)} for index, content in enumerate(steps)]

        async def call() -> None:
            outcome = await self._tool.run({"todos": todos}, self._log.session)
            if not outcome.ok:
                raise NotSaved(outcome.text)

        await _patiently(call)

    async def _send_errand(self) -> None:
        label, plan = self._random.choice(ERRANDS)
        session = f"{self._log.session}/{label}-{self._random.randrange(1000):03}"
        child = Agent(self._client, self._tool, session, self._random, self._speed, helped=False)
        await child.work_on(plan, label=label, parentSession=self._log.session)

    async def _remark(self) -> None:
        text = self._random.choice(REMARKS)
        message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
        await self._append("assistant/message", {"message": message})

    async def _append(self, type: str, data: dict[str, Any]) -> None:
        await _patiently(lambda: self._log.append(type, data))

    async def _end_turn(self, reason: str) -> None:
        with contextlib.suppress(InvalidEvent):  # no open turn: a try that got no answer had ended it
            await _patiently(lambda: self._log.end_turn(reason))

    async def _pause(self, between_s: tuple[float, float]) -> None:
        await asyncio.sleep(self._random.uniform(*between_s) / self._speed)
