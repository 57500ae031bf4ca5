"""Each alert fires on a stack that is broken in its way, and on none that is well."""

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from redis.asyncio import Redis

from eventually import eventually
from projecting import projected, working
from promtool import RULES, firing, run
from scraped import Scraped
from servers import Server
from serving import serving
from sse import Http
from stepping import POISON, write
from todo_projection.metrics import WHOLE, WORKER, families, text
from todo_projection.settings import Settings
from todo_projection.tally import Tally
from todo_projection.unit import mounted_units
from todo_projection.vitals import Pulse
from todo_projection.wire import Wire
from todo_projection.worker import Worker
from todo_write.canary import sing
from todo_write.events import CANARY
from todo_write.log import Client, LogRewound, NotSaved, SessionLog, connect
from todo_write.metrics import Appends
from workshop import Workshop

ALERTS = re.findall(r"- alert: (\w+)", RULES.read_text())
ANCHORS = re.findall(r"runbook_url: deploy/README\.md#([\w-]+)", RULES.read_text())


class Watched:
    """The figures of the whole, and of one worker, as they would be scraped."""

    def __init__(self, client: Client, wire: Wire, standing_s: float = 0.0) -> None:
        self._pulse = Pulse(client, wire, beat_ms=100, standing_s=standing_s)

    async def scrape(self, tally: Tally | None = None) -> Scraped:
        vitals = await self._pulse.take()
        return Scraped(text(families(WORKER, tally or Tally()), families(WHOLE, vitals)).decode())


@pytest.fixture
def watched(client: Client, wire: Wire) -> Watched:
    return Watched(client, wire)


def test_the_rules_are_sound() -> None:
    ran = run("check", "rules", RULES)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_each_alert_fires_in_its_unit_test_and_none_when_all_is_well() -> None:
    ran = run("test", "rules", RULES.with_name("alerts.test.yml"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    page = RULES.with_name("alerts.test.yml").read_text()
    for alert in ALERTS:
        assert f"alertname: {alert}, exp_alerts: []" in page, "one test in which it does not fire"
        assert f"alertname: {alert}\n        exp_alerts:\n" in page, "one test in which it does"


def test_each_alert_says_where_its_remedy_stands() -> None:
    assert len(ANCHORS) == len(ALERTS)
    runbook = RULES.parents[1] / "README.md"
    if not runbook.exists():
        pytest.skip("there is no deploy/README.md")
    headings = re.findall(r"^#+ (.+)$", runbook.read_text(), re.MULTILINE)
    slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(ANCHORS) - slugs == set()


async def test_nothing_fires_on_a_fleet_that_is_well(
    redis_url: str, namespace: str, client: Client, redis: Redis, watched: Watched, tmp_path: Path
) -> None:
    keys = await client.keys()
    async with working(redis_url, namespace, beat_ms=100) as worker:
        await projected(redis, keys, "s1", await SessionLog(client, "s1").append(*write("a")))
        await eventually(lambda: redis.exists(keys.workers))
        found = await watched.scrape(worker.tally)
    assert [alert for alert in ALERTS if firing(tmp_path, alert, found)] == []


async def test_no_worker(redis_url: str, namespace: str, client: Client, watched: Watched, tmp_path: Path) -> None:
    await client.keys()
    assert firing(tmp_path, "TodoNoWorker", await watched.scrape())


async def test_redis_away(own_server: Server, redis_url: str, client: Client, watched: Watched, tmp_path: Path) -> None:
    await client.keys()
    own_server.freeze()
    found = await watched.scrape()
    own_server.thaw()
    assert firing(tmp_path, "TodoRedisAway", found)
    assert not firing(tmp_path, "TodoNoWorker", found)


async def of_gateway(http: Http) -> Scraped:
    return Scraped((await http.get("/metrics")).body.decode())


async def test_delivery_dead(redis_url: str, namespace: str, client: Client, tmp_path: Path) -> None:
    async def dead(http: Http) -> Scraped | None:
        await sing(client)
        found = await of_gateway(http)
        return found if found.value("todo_gateway_delivery_alive") == 0 else None

    async with serving(redis_url, namespace) as http:
        found = await eventually(lambda: dead(http), within=30)
        assert found is not None
        assert firing(tmp_path, "TodoDeliveryDead", found)


async def test_a_canary_that_has_fallen_silent_and_none_that_ever_sang(
    redis_url: str, namespace: str, client: Client, redis: Redis, tmp_path: Path
) -> None:
    async def silent(http: Http) -> Scraped | None:
        found = await of_gateway(http)
        return found if (found.value("todo_gateway_canary_age_seconds") or 0) > 3600 else None

    async with serving(redis_url, namespace) as http:
        never = await of_gateway(http)
        await SessionLog(client, CANARY).append(*write("canary"), time=((await redis.time())[0] - 3601) * 1000)
        found = await eventually(lambda: silent(http), within=30)
    assert found is not None
    assert firing(tmp_path, "TodoCanarySilent", found)
    assert not firing(tmp_path, "TodoDeliveryDead", found)
    assert not firing(tmp_path, "TodoCanarySilent", never)


async def test_a_backlog_that_is_old(client: Client, redis: Redis, watched: Watched, tmp_path: Path) -> None:
    keys = await client.keys()
    ms = (await redis.time())[0] * 1000
    await redis.xadd(keys.feed(0), {"s": "s1", "i": "1-0", "o": "o", "t": "x"}, id=f"{ms - 90_000}-0")
    assert firing(tmp_path, "TodoBacklogOld", await watched.scrape())


class Stuck(Worker):
    """A worker that beats and reads nothing."""

    async def _step(self) -> None:
        await self._assemble()
        await self._stop.wait()


async def test_feeds_that_nobody_reads_though_a_worker_beats(
    redis_url: str, namespace: str, client: Client, redis: Redis, watched: Watched, tmp_path: Path
) -> None:
    keys = await client.keys()
    settings = Settings.from_env({}, redis_url=redis_url, namespace=namespace, beat_ms=100)
    stuck = Stuck(settings, mounted_units())
    running = asyncio.create_task(stuck.run())
    try:
        await eventually(lambda: redis.exists(keys.workers))
        await SessionLog(client, "s1").append(*write("a"))
        found = await watched.scrape(stuck.tally)
        assert firing(tmp_path, "TodoFeedsUnread", found)
        assert not firing(tmp_path, "TodoNoWorker", found)
    finally:
        stuck.stop()
        await running


async def test_a_stale_session(
    redis_url: str, namespace: str, client: Client, redis: Redis, wire: Wire, watched: Watched, tmp_path: Path
) -> None:
    keys = await client.keys()
    await Workshop(redis, namespace, wire, keys.partitions).append("s1", POISON)
    async with working(redis_url, namespace):
        await eventually(lambda: redis.hlen(keys.stale(keys.partition("s1"))))
        assert firing(tmp_path, "TodoSessionsStale", await watched.scrape())


def writers(client: Client) -> Scraped:
    registry = CollectorRegistry()
    registry.register(Appends(client.tally))
    return Scraped(generate_latest(registry).decode())


async def test_a_writer_that_is_told_of_a_rewind(client: Client, redis: Redis, tmp_path: Path) -> None:
    log = SessionLog(client, "s1")
    await log.append("note", {})
    before = writers(client)
    await redis.delete((await client.keys()).log("s1"))
    with pytest.raises(LogRewound):
        await log.append("note", {})
    assert firing(tmp_path, "TodoWritersRewound", writers(client), before)
    assert not firing(tmp_path, "TodoWritersRewound", before)


async def test_writes_that_a_full_server_refuses(own_server: Server, namespace: str, tmp_path: Path) -> None:
    async with connect(own_server.url, namespace=namespace, append_budget_ms=200, append_attempt_ms=100) as client:
        await SessionLog(client, "s1").append("note", {})
        before = writers(client)
        full: Any = client.redis
        await full.config_set("maxmemory", "1")
        with pytest.raises(NotSaved):
            await SessionLog(client, "s1").append("note", {})
        assert firing(tmp_path, "TodoWritesRefused", writers(client), before, at="4m")


async def test_repairs(
    redis_url: str, namespace: str, client: Client, redis: Redis, watched: Watched, tmp_path: Path
) -> None:
    keys = await client.keys()
    await SessionLog(client, "s1").append(*write("a"))
    await redis.delete(keys.feed(keys.partition("s1")))
    async with working(redis_url, namespace, audit_rate=10_000, beat_ms=100) as worker:
        before = await watched.scrape(worker.tally)
        await eventually(lambda: worker.tally.repaired, within=30)
        assert firing(tmp_path, "TodoRepairs", await watched.scrape(worker.tally), before)


async def test_a_clock_that_is_wrong(
    client: Client, watched: Watched, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await client.keys()
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() - 30)
    found = await watched.scrape()
    monkeypatch.undo()
    assert firing(tmp_path, "TodoClockWrong", found)
