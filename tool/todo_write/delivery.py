"""Getting one call of a script answered within a budget: what may be repeated, and what is known when it is over.

A try is *refused* (it had no effect: nothing was sent, or the server said no) or *unanswered* (it may have had one).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha1
from importlib.resources import files
from typing import Any, TypeVar

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ReadOnlyError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_before_delay, wait_random_exponential

from todo_write.append import Moved, NotSaved, OutcomeUnknown, TooFewReplicas
from todo_write.client import Client, exchange
from todo_write.durability import Confirmation
from todo_write.events import Unsound
from todo_write.nodes import HOPS_MAX, Hop

T = TypeVar("T")

# Refusals that pass by themselves: the server starts, fails over, is full or busy for a while.
_TRANSIENT = frozenset(
    {"OOM", "LOADING", "READONLY", "BUSY", "NOSCRIPT", "NOREPLICAS", "MISCONF", "UNBLOCKED"}
    | {"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN"}
)
_TOO_MANY_CLIENTS = "max number of clients reached"

_backoff = wait_random_exponential(multiplier=0.02, max=0.5)
_logger = logging.getLogger(__name__)


class Script:
    """A Lua script of the package, called by its hash and sent whole where the server does not know it."""

    def __init__(self, name: str) -> None:
        self.source = files("todo_write").joinpath(f"{name}.lua").read_bytes()
        self.sha = sha1(self.source, usedforsecurity=False).hexdigest()


class Refused(Exception):
    """A try that had no effect; ``__cause__`` says why. ``transient``: the next one may get through."""

    def __init__(self, error: Exception) -> None:
        super().__init__(_reason(error))
        found = _code(error)
        self.transient = found in _TRANSIENT or _TOO_MANY_CLIENTS in str(error) if found else _is_network(error)


class Unanswered(Exception):
    """A try that may have had its effect, since its answer is missing; ``__cause__`` says why."""


class Delivery:
    """The tries of one call: the budget runs from here on. ``maybe_stored``: a try that was sent got no answer."""

    def __init__(self, client: Client, *, budget_ms: int, attempt_ms: int) -> None:
        self._client = client
        self._attempt_s = min(attempt_ms, budget_ms) / 1000
        self._ends = asyncio.get_running_loop().time() + budget_ms / 1000
        self._deadline = 0.0
        self.maybe_stored = False

    async def within_budget(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """The first answer; one try is made even when waiting for one's turn has used up the budget.

        Raises NotSaved when every try was refused, OutcomeUnknown when one may have had its effect. Nobody repeats
        behind that. What ``attempt`` raises beyond Refused, Unanswered and Moved ends it as it is.
        """

        async def once() -> T:
            self._deadline = asyncio.get_running_loop().time() + self._attempt_s
            return await attempt()

        try:
            try:
                return await once()  # past tenacity, whose bookkeeping costs a third of an append
            except (Refused, Unanswered, Moved) as error:
                if not _may_repeat(error) or self._left_s() <= 0:
                    raise
                self._tell(1, error)
            return await self._retrying()(once)
        except (Refused, Unanswered, Moved) as error:
            cause = error.__cause__ or error
            if self.maybe_stored:
                raise OutcomeUnknown(f"{self._client.address} did not confirm it in time: {error}") from cause
            kind = TooFewReplicas if _code(cause) == "NOREPLICAS" else NotSaved
            raise kind(f"{self._client.address} did not take it: {error}") from cause

    def _retrying(self) -> AsyncRetrying:
        return AsyncRetrying(
            retry=retry_if_exception(_may_repeat),
            stop=stop_before_delay(self._left_s()),
            wait=_wait,
            before_sleep=lambda state: self._tell(state.attempt_number + 1, _error_of(state)),
            reraise=True,
        )

    def _tell(self, number: int, error: BaseException | None) -> None:
        # The first, second, fourth, eighth …: a program with many sessions would say as many lines a try.
        seldom = number & (number - 1) == 0
        level = logging.WARNING if seldom and not isinstance(error, Moved) else logging.DEBUG
        _logger.log(level, "redis at %s: try %d: %s; trying again", self._client.address, number, error)

    def _left_s(self) -> float:
        """For how long tries may still begin: each gets its whole time, since one cut short would tell nothing."""
        return self._ends - self._attempt_s - asyncio.get_running_loop().time()

    async def ask(self, step: Callable[[], Awaitable[T]]) -> T:
        """A harmless step of a try, one that only reads; raises Refused."""
        try:
            async with asyncio.timeout_at(self._deadline):
                return await step()
        except (RedisError, OSError, TimeoutError, Unsound) as error:
            raise Refused(error) from error

    async def send(
        self,
        script: Script,
        keys: Sequence[str],
        arguments: Sequence[str | bytes],
        *,
        confirmation: Confirmation | None = None,
    ) -> Any:
        """The one step that writes; raises Refused or Unanswered. A connection that owes an answer is dropped.

        A ``confirmation`` is asked on the same connection once this try has appended, past the try's deadline.
        """
        sent = False
        hop: Hop | None = None
        try:
            async with asyncio.timeout_at(self._deadline) as limit:
                for _ in range(HOPS_MAX):
                    async with self._client.connection(keys[0], hop) as connection:
                        sent = True
                        try:
                            call = (len(keys), *keys, *arguments)
                            answer = await _run(connection, script, call, asking=hop is not None and hop.asking)
                        except ResponseError as error:
                            hop = self._client.follow(error, connection)
                            if hop is None:
                                raise
                            sent = False  # a node that sends us on has done nothing
                            continue
                        if confirmation is not None and answer[0] == b"ok":
                            limit.reschedule(None)
                            await confirmation.ask(connection)
                        return answer
                raise RedisConnectionError(f"{HOPS_MAX} redirections led nowhere")
        except (RedisError, OSError, TimeoutError) as error:
            if sent and _code(error) is None:
                self.maybe_stored = True
                raise Unanswered(_reason(error)) from error
            raise Refused(error) from error


async def _run(connection: AbstractConnection, script: Script, arguments: Sequence[Any], *, asking: bool) -> Any:
    try:
        return await exchange(connection, "EVALSHA", script.sha, *arguments, asking=asking)
    except NoScriptError:
        return await exchange(connection, "EVAL", script.source, *arguments, asking=asking)
    except ReadOnlyError:
        await connection.disconnect()  # another server is the primary now: look its address up again
        raise


def _may_repeat(error: BaseException) -> bool:
    return isinstance(error, Moved | Unanswered) or (isinstance(error, Refused) and error.transient)


def _error_of(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None


def _wait(state: RetryCallState) -> float:
    return 0.0 if isinstance(_error_of(state), Moved) else _backoff(state)


def _code(error: BaseException) -> str | None:
    """The code of an error the server answered with, None for one that is not an answer."""
    told: str | None = getattr(error, "status_code", None)
    if told is None and isinstance(error, ResponseError):
        return str(error).partition(" ")[0]
    return told


def _is_network(error: Exception) -> bool:
    return isinstance(error, RedisConnectionError | RedisTimeoutError | TimeoutError | OSError)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    told: str | None = getattr(error, "status_code", None)
    return f"{told} {error}" if told and told != "ERR" else str(error)
