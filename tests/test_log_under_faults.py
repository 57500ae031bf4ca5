"""Appends over a bad wire and to a bad server: stored once or told, never twice, never silently not."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, NoPermissionError, OutOfMemoryError, ReadOnlyError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from eventually import eventually
from proxy import Proxy
from servers import Server
from stored import Stored
from todo_write.log import (
    Client,
    LogRewound,
    NotSaved,
    OutcomeUnknown,
    SessionLog,
    connect,
)

FROZEN_S = 1.3


@pytest.fixture
def log(client: Client) -> SessionLog:
    return SessionLog(client, "s1")


@pytest.fixture
def stored(redis: Redis, namespace: str) -> Stored:
    return Stored(redis, namespace, "s1")


@pytest.fixture
async def far_client(proxy: Proxy, namespace: str) -> AsyncIterator[Client]:
    """The same server through a proxy that can lose and hold what the test names."""
    async with connect(proxy.url, namespace=namespace, append_attempt_ms=300) as client:
        yield client


@pytest.fixture
def far(far_client: Client) -> SessionLog:
    return SessionLog(far_client, "s1")


@pytest.fixture
def hasty(far_client: Client) -> SessionLog:
    """A writer like ``far`` that gives up soon."""
    return SessionLog(far_client, "s1", append_budget_ms=700)


class TestRepeats:
    async def test_an_answer_that_is_lost_is_found_again(
        self, proxy: Proxy, far: SessionLog, stored: Stored, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        await far.append("x", 0)
        fault = proxy.lose_reply(b"EVALSHA")
        positions = await far.append_all([("x", 1), ("x", 2)])
        assert fault.hit.is_set()
        assert [position.seq for position in positions] == [1, 2]
        assert "an earlier try had landed" in caplog.text
        assert await stored.contents() == [0, 1, 2]

    async def test_a_request_that_is_lost_is_sent_again(
        self, proxy: Proxy, far: SessionLog, stored: Stored, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        await far.append("x", 0)
        fault = proxy.lose_request(b"EVALSHA")
        assert (await far.append("x", 1)).seq == 1
        assert fault.hit.is_set()
        assert "an earlier try had landed" not in caplog.text
        assert await stored.contents() == [0, 1]

    @pytest.mark.parametrize("after", [True, False])
    async def test_a_connection_that_is_cut_is_opened_again(
        self, proxy: Proxy, far: SessionLog, stored: Stored, after: bool
    ) -> None:
        await far.append("x", 0)
        fault = proxy.cut_after(b"EVALSHA") if after else proxy.cut_before(b"EVALSHA")
        await far.append("x", 1)
        assert fault.hit.is_set()
        assert await stored.contents() == [0, 1]

    async def test_a_first_event_whose_answer_is_lost_is_stored_once(
        self, proxy: Proxy, far: SessionLog, stored: Stored, redis: Redis
    ) -> None:
        await redis.script_flush()
        whole = proxy.lose_reply(b"compare-and-append")  # the script itself, sent to a server that does not know it
        await far.append("x", 0)
        assert whole.hit.is_set()
        await far.append("x", 1)
        assert await stored.contents() == [0, 1]

    async def test_a_try_that_arrives_when_its_repeat_is_stored_changes_nothing(
        self, proxy: Proxy, far: SessionLog, stored: Stored, redis: Redis
    ) -> None:
        await far.append("x", 0)
        held = proxy.hold_request(b"EVALSHA")
        await far.append("x", 1)
        await far.append("x", 2)
        before = await _calls(redis)
        held.release()
        await eventually(lambda: _more_calls(redis, before))
        assert await stored.contents() == [0, 1, 2]

    async def test_a_lost_answer_and_a_second_writer_meanwhile(
        self, proxy: Proxy, far: SessionLog, log: SessionLog, stored: Stored
    ) -> None:
        await far.append("x", 0)
        lost = proxy.lose_request(b"EVALSHA")
        call = asyncio.create_task(far.append("x", "far"))
        await lost.hit.wait()
        await log.append("x", "near")
        assert (await call).seq == 2
        assert await stored.contents() == [0, "near", "far"]

    async def test_a_server_frozen_in_the_middle_of_appends_stores_nothing_twice_and_misses_nothing(
        self, own_server: Server, proxy: Proxy, redis: Redis, namespace: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        async with (
            connect(own_server.url, namespace=namespace, append_attempt_ms=500) as near,
            connect(proxy.url, namespace=namespace, append_attempt_ms=500) as far,
        ):
            logs = [SessionLog(near, f"near-{number}") for number in range(20)] + [SessionLog(far, "far")]
            await asyncio.gather(*(log.append("x", 0) for log in logs))
            lost = proxy.lose_request(b"EVALSHA")
            own_server.freeze()
            asyncio.get_running_loop().call_later(FROZEN_S, own_server.thaw)
            await asyncio.gather(*(log.append("x", number) for log in logs for number in range(1, 6)))
        for log in logs:
            assert await Stored(redis, namespace, log.session).contents() == list(range(6))
        landed = [record.getMessage() for record in caplog.records if "had landed" in record.getMessage()]
        assert any("'near-" in message for message in landed), "no first try landed; nothing was shown"
        assert lost.hit.is_set()
        assert not any("'far'" in message for message in landed), "this one's first try can't have landed"


class TestLoss:
    async def test_it_is_told_once_and_then_the_servers_tail_is_taken(self, log: SessionLog, stored: Stored) -> None:
        first = await log.append("x", 0)
        copy = await stored.copy()
        lost = await log.append("x", 1)
        await stored.fail_over(copy)
        with pytest.raises(LogRewound, match="went back") as told:
            await log.append("x", 2)
        assert (told.value.expected, told.value.tail) == (lost, first)
        assert not told.value.maybe_stored
        ops = [fields["op"] for _, fields in await stored.entries()]
        assert (told.value.expected_op in ops, told.value.tail_op) == (False, ops[0])
        assert (await log.append("x", 3)).seq == 1
        assert await stored.contents() == [0, 3]

    async def test_it_is_told_when_the_whole_log_is_gone(self, log: SessionLog, stored: Stored) -> None:
        last = await log.append("x", 0)
        await stored.fail_over({stored.log: None, stored.feed: None})
        with pytest.raises(LogRewound) as told:
            await log.append("x", 1)
        assert (told.value.expected, told.value.tail, told.value.tail_op) == (last, None, "")
        assert (await log.append("x", 2)).epoch > last.epoch
        assert await stored.contents() == [2]

    async def test_it_is_told_when_the_log_has_grown_again_with_other_events(
        self, client: Client, log: SessionLog, stored: Stored
    ) -> None:
        await log.append("x", 0)
        copy = await stored.copy()
        await log.append("x", 1)
        await stored.fail_over(copy)
        await SessionLog(client, "s1").append_all([("x", "other"), ("x", "other")])
        with pytest.raises(LogRewound):
            await log.append("x", 2)
        assert await stored.contents() == [0, "other", "other"]

    async def test_it_is_told_to_one_whose_session_another_deleted(self, client: Client, log: SessionLog) -> None:
        first = await log.append("x", 0)
        await SessionLog(client, "s1").delete()
        with pytest.raises(LogRewound):
            await log.append("x", 1)
        assert (await log.append("x", 2)).epoch > first.epoch

    async def test_it_is_told_even_when_the_call_before_ended_unknown(
        self, proxy: Proxy, hasty: SessionLog, stored: Stored
    ) -> None:
        await hasty.append("x", 0)
        copy = await stored.copy()
        await hasty.append("x", 1)
        lost = proxy.lose_request(b"EVALSHA")
        call = asyncio.create_task(hasty.append("x", 2))
        await lost.hit.wait()
        proxy.refuse()
        with pytest.raises(OutcomeUnknown):
            await call
        await proxy.accept()
        await stored.fail_over(copy)
        with pytest.raises(LogRewound):
            await hasty.append("x", 3)

    async def test_a_trimmed_log_is_told_as_unknown_never_as_moved(
        self, client: Client, log: SessionLog, stored: Stored, redis: Redis
    ) -> None:
        await log.append("x", 0)
        await SessionLog(client, "s1").append_all([("x", 1), ("x", 2), ("x", 3)])
        await redis.xtrim(stored.log, maxlen=1, approximate=False)
        with pytest.raises(OutcomeUnknown, match="trimmed"):
            await log.append("x", 4)
        assert (await log.append("x", 5)).seq == 4


class TestUnknown:
    async def test_it_is_told_when_the_server_stays_away_after_the_request_was_sent(
        self, proxy: Proxy, hasty: SessionLog, stored: Stored
    ) -> None:
        await hasty.append("x", 0)
        lost = proxy.lose_reply(b"EVALSHA")
        call = asyncio.create_task(hasty.append("x", 1))
        await lost.hit.wait()
        proxy.refuse()
        with pytest.raises(OutcomeUnknown, match="did not confirm it in time") as told:
            await call
        assert isinstance(told.value.__cause__, RedisConnectionError)
        await proxy.accept()
        assert (await hasty.append("x", 2)).seq == 2
        assert await stored.contents() == [0, 1, 2]

    async def test_an_append_that_was_cancelled_leaves_the_log_usable(
        self, proxy: Proxy, far: SessionLog, stored: Stored
    ) -> None:
        await far.append("x", 0)
        held = proxy.hold_reply(b"EVALSHA")
        call = asyncio.create_task(far.append("x", 1))
        await held.hit.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        held.release()
        assert (await far.append("x", 2)).seq == 2
        assert await stored.contents() == [0, 1, 2]

    async def test_a_refusal_after_an_unanswered_try_does_not_make_it_known(
        self, own_server: Server, proxy: Proxy, redis: Redis, hasty: SessionLog
    ) -> None:
        await hasty.append("x", 0)
        lost = proxy.lose_reply(b"EVALSHA")
        call = asyncio.create_task(hasty.append("x", 1))
        await lost.hit.wait()
        await redis.config_set("maxmemory", "1")
        with pytest.raises(OutcomeUnknown) as told:
            await call
        assert isinstance(told.value.__cause__, OutOfMemoryError)


class TestRefusal:
    async def test_nobody_there_is_told_within_the_budget(self, proxy: Proxy, namespace: str) -> None:
        proxy.refuse()
        started = time.monotonic()
        async with connect(proxy.url, namespace=namespace, append_budget_ms=400, append_attempt_ms=100) as client:
            with pytest.raises(NotSaved, match=f"127.0.0.1:{proxy.port}/0 did not take it: ") as told:
                await SessionLog(client, "s1").append("x", 1)
        assert isinstance(told.value.__cause__, RedisConnectionError)
        assert 0.1 < time.monotonic() - started < 3

    async def test_a_server_that_comes_back_within_the_budget_gets_it(
        self, proxy: Proxy, far: SessionLog, stored: Stored, caplog: pytest.LogCaptureFixture
    ) -> None:
        proxy.refuse()
        call = asyncio.create_task(far.append("x", 1))
        await eventually(lambda: "trying again" in caplog.text)
        await proxy.accept()
        await call
        assert await stored.contents() == [1]

    async def test_a_silent_server_is_told_within_the_budget(self, proxy: Proxy, namespace: str) -> None:
        proxy.silence()
        started = time.monotonic()
        async with connect(proxy.url, namespace=namespace, append_budget_ms=500, append_attempt_ms=200) as client:
            log = SessionLog(client, "s1")
            calls = await asyncio.gather(*(log.append("x", n) for n in range(3)), return_exceptions=True)
        assert [type(answer) for answer in calls] == [NotSaved] * 3  # no connection was made: nothing was sent
        assert time.monotonic() - started < 4

    async def test_a_full_server_is_told_and_nothing_is_written(
        self, own_server: Server, redis: Redis, client: Client, log: SessionLog, stored: Stored
    ) -> None:
        await log.append("x", 0)
        await redis.config_set("maxmemory", "1")
        with pytest.raises(NotSaved, match="OOM") as told:
            await SessionLog(client, "s1", append_budget_ms=1200).append_all([("x", 1), ("x", 2)])
        assert isinstance(told.value.__cause__, OutOfMemoryError)
        await redis.config_set("maxmemory", "0")
        assert await stored.contents() == [0]
        assert (await log.append("x", 3)).seq == 1

    async def test_ever_fewer_of_the_tries_are_told_aloud(
        self, own_server: Server, redis: Redis, log: SessionLog, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG, "todo_write")
        await redis.config_set("maxmemory", "1")
        call = asyncio.create_task(log.append("x", 0))
        await eventually(lambda: "try 5: " in caplog.text)
        await redis.config_set("maxmemory", "0")
        await call
        aloud = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
        assert [line.partition(": try ")[2][0] for line in aloud][:3] == ["1", "2", "4"]

    async def test_a_server_that_was_full_for_a_moment_gets_it(
        self, own_server: Server, redis: Redis, log: SessionLog, stored: Stored, caplog: pytest.LogCaptureFixture
    ) -> None:
        await redis.config_set("maxmemory", "1")
        call = asyncio.create_task(log.append("x", 0))
        await eventually(lambda: "trying again" in caplog.text)
        await redis.config_set("maxmemory", "0")
        await call
        assert await stored.contents() == [0]

    async def test_a_demoted_server_is_told_and_a_promoted_one_gets_it(
        self, own_server: Server, launch: Callable[..., Server], redis: Redis, client: Client, stored: Stored
    ) -> None:
        primary = launch()
        await SessionLog(client, "s0").append("x", 0)
        await redis.replicaof(primary.host, primary.port)
        with pytest.raises(NotSaved, match="READONLY") as told:
            await SessionLog(client, "s1", append_budget_ms=1200).append("x", 0)
        assert isinstance(told.value.__cause__, ReadOnlyError | ResponseError)
        await redis.replicaof("NO", "ONE")
        await SessionLog(client, "s1").append("x", 1)
        assert await stored.contents() == [1]

    async def test_too_few_replicas_are_told(self, own_server: Server, redis: Redis, client: Client) -> None:
        await client.keys()
        await redis.config_set("min-replicas-to-write", "1")
        with pytest.raises(NotSaved, match="NOREPLICAS"):
            await SessionLog(client, "s1", append_budget_ms=1200).append("x", 1)

    async def test_a_key_of_another_type_is_told_at_once(
        self, redis: Redis, log: SessionLog, stored: Stored, caplog: pytest.LogCaptureFixture
    ) -> None:
        await redis.set(stored.feed, "mine")
        started = time.monotonic()
        with pytest.raises(NotSaved, match=r"WRONGTYPE .*feed is a string, not a stream") as told:
            await log.append("x", 1)
        assert isinstance(told.value.__cause__, ResponseError)
        assert time.monotonic() - started < 2.5  # of a budget of 5
        assert "trying again" not in caplog.text
        assert await stored.entries() == []

    async def test_a_wrong_password_is_told_at_once_and_not_shown(self, own_server: Server, redis: Redis) -> None:
        await redis.acl_setuser("writer", enabled=True, passwords=["+right"], reset=True)
        where = f"redis://writer:geheim@{own_server.host}:{own_server.port}/0"
        started = time.monotonic()
        async with connect(where) as client:
            with pytest.raises(NotSaved, match="WRONGPASS") as told:
                await SessionLog(client, "s1").append("x", 1)
        assert isinstance(told.value.__cause__, AuthenticationError)
        assert "geheim" not in str(told.value) + repr(client.settings) + client.address
        assert time.monotonic() - started < 2.5  # of a budget of 5

    async def test_a_missing_permission_is_told_at_once(self, own_server: Server, redis: Redis) -> None:
        await redis.acl_setuser("reader", enabled=True, nopass=True, keys=["*"], categories=["+@read"], reset=True)
        async with connect(f"redis://reader:any@{own_server.host}:{own_server.port}/0") as client:
            with pytest.raises(NotSaved, match="NOPERM") as told:
                await SessionLog(client, "s1").append("x", 1)
        assert isinstance(told.value.__cause__, NoPermissionError)

    async def test_a_database_that_does_not_exist_is_told_at_once(self, redis_url: str) -> None:
        async with connect(redis_url.removesuffix("/0") + "/999") as client:
            with pytest.raises(NotSaved, match="DB index is out of range"):
                await SessionLog(client, "s1").append("x", 1)


async def _calls(redis: Redis) -> int:
    stats: Any = await redis.info("commandstats")
    return int(stats["cmdstat_evalsha"]["calls"])


async def _more_calls(redis: Redis, before: int) -> bool:
    return await _calls(redis) > before
