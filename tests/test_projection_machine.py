"""The projection against whatever order things happen in: two workers stopped between any two of their round trips,
a server that loses its newest writes, sessions deleted and begun again, a group lost and made again.

Writers and workers are the real ones, on a real server. However it went, once nothing is under way any more every row
is an independent fold of its log, the feed is drained, and no reader was shown anything older than it had seen.
"""

import asyncio
import json
from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from redis.asyncio import Redis

import todo_write
from oracle import expected_row, shown
from servers import Server
from todo_projection.feed import Feeds
from todo_projection.projector import Batches, Outcome, Projector
from todo_projection.rows import Rows
from todo_projection.unit import mounted_units
from todo_projection.wire import Command, Wire
from todo_write.events import GROUP, token
from workshop import Workshop

DELETE = (Path(todo_write.__file__).parent / "delete.lua").read_text()
SESSIONS = ("s", "t")
FUTURE = 4_000_000_000_000  # a row's epoch above every clock: then a log begun again after a fail-over has the same one
ROUNDS_MAX = 200

T = TypeVar("T")
Copy = dict[bytes, tuple[bytes, int]]

WORKERS = st.integers(0, 1)
NAMES = st.sampled_from(SESSIONS)
EVENTS: st.SearchStrategy[tuple[str, Any]] = st.sampled_from(
    [
        ("todo/write", {"todos": [{"content": "a", "status": "in_progress"}, {"content": "b", "status": "pending"}]}),
        ("todo/write", {"todos": [{"content": "c", "status": "completed"}]}),
        ("todo/write", {"todos": []}),
        ("todo/write", {"todos": [{"content": ""}]}),
        ("turn/start", {"turn": 1}),
        ("turn/end", {"turn": 1, "reason": "completed"}),
        ("session/title", {"title": "t"}),
        ("assistant/chunk", {}),
    ]
)


class SteppedWire(Wire):
    """A wire that stops before each round trip until it is let go."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.stopped = asyncio.Event()
        self._go = asyncio.Event()

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """One round trip, when it is let go."""
        if commands:
            self.stopped.set()
            await self._go.wait()
            self._go.clear()
        return await super().pipeline(commands)

    def let_go(self) -> None:
        """Let the round trip happen that is waiting."""
        self.stopped.clear()
        self._go.set()


class Hand:
    """A worker: its consumer, its memory of rows, and what it is in the middle of."""

    def __init__(self, shop: Workshop, wire: SteppedWire, name: str) -> None:
        self.feeds = Feeds(shop.wire, shop.wire, shop.keys, name)
        self.rows = Rows(wire, shop.keys)
        self.projector = Projector(wire, shop.keys, mounted_units(), self.rows)
        self.wire = wire
        self.conflicts: Batches = {}
        self._task: asyncio.Task[Outcome] | None = None

    @property
    def busy(self) -> bool:
        """Whether it is in the middle of a step."""
        return self._task is not None

    async def begin(self, batches: Batches, *, unseen: bool = False) -> None:
        """Take up a batch; it stops before its first round trip."""
        if batches:
            self._task = asyncio.create_task(self.projector.project(batches, unseen=unseen))
            await self._until_it_stops()

    async def go_on(self) -> None:
        """One round trip further."""
        if self._task is not None:
            self.wire.let_go()
            await self._until_it_stops()

    async def finish(self) -> None:
        """To the end of the step."""
        while self._task is not None:
            await self.go_on()

    async def drop(self) -> None:
        """It is gone, in the middle of whatever it was doing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self._task = None

    async def _until_it_stops(self) -> None:
        assert self._task is not None
        stopping = asyncio.create_task(self.wire.stopped.wait())
        await asyncio.wait({self._task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if self._task.done():
            outcome, self._task = self._task.result(), None
            self.conflicts = outcome.conflicts
            if outcome.rewound:
                self.rows.forget_all()


class Machine(RuleBasedStateMachine):
    """The rules; what one run needs of the outside stands in ``ground``."""

    ground: "Ground"

    def __init__(self) -> None:
        super().__init__()
        self.shop = self.ground.new_shop()
        self.names = (f"w{number}" for number in range(1000))
        self.hands = [self.ground.hand(self.shop, number, next(self.names)) for number in (0, 1)]
        self.copies: list[Copy] = []
        self.newest: dict[str, tuple[int, int, str, Any]] = {}
        self.run(self._begin())

    def run(self, doing: Awaitable[T]) -> T:
        return self.ground.loop.run_until_complete(doing)

    async def _begin(self) -> None:
        await self.hands[0].feeds.ensure_groups()
        await self.shop.redis.hset(self.shop.keys.row("s"), mapping={"pos": f"{FUTURE}-3", "etag": "e0", "rev": "5-e0"})
        await self._replicate()
        self.ear = self.shop.redis.pubsub()
        await self.ear.subscribe(*map(self.shop.keys.channel, SESSIONS))

    # --- writers

    @rule(session=NAMES, events=st.lists(EVENTS, min_size=1, max_size=3))
    def append(self, session: str, events: list[tuple[str, Any]]) -> None:
        self.run(self._replicate())
        self.run(self.shop.append(session, *events))

    @rule(session=NAMES)
    def delete(self, session: str) -> None:
        keys = self.shop.keys
        names = [keys.log(session), keys.row(session), keys.recent(0), keys.working(0), keys.stale(0)]
        arguments = [session, token(), "PUBLISH", keys.channel(session), "1000000", f"{10 * FUTURE}"]
        self.run(self.shop.redis.eval(DELETE, 5, *names, *arguments))

    # --- workers

    @rule(n=WORKERS, count=st.integers(1, 4))
    def go_on(self, n: int, count: int) -> None:
        """One round trip further; or a new batch, when it has none."""
        hand = self.hands[n]
        if hand.busy:
            self.run(hand.go_on())
        elif hand.conflicts:
            self.run(hand.begin(hand.conflicts))
        else:
            self.run(self._read(hand, count))

    @rule(n=WORKERS, count=st.integers(1, 4))
    def finish(self, n: int, count: int) -> None:
        if not self.hands[n].busy:
            self.go_on(n, count)
        self.run(self.hands[n].finish())
        self.run(self._replicate())

    @rule(n=WORKERS)
    def recover(self, n: int) -> None:
        if not self.hands[n].busy:
            self.run(self._recover(self.hands[n]))

    @rule(n=WORKERS)
    def take_over(self, n: int) -> None:
        """Of the other one too, which may only be slow."""
        if not self.hands[n].busy:
            self.run(self._take_over(self.hands[n]))

    @rule(n=WORKERS)
    def die(self, n: int) -> None:
        self.run(self.hands[n].drop())
        self.hands[n] = self.ground.hand(self.shop, n, next(self.names))

    # --- the server

    @rule(back=st.integers(1, 3), session=NAMES, events=st.lists(EVENTS, max_size=3))
    def fail_over(self, back: int, session: str, events: list[tuple[str, Any]]) -> None:
        """To a replica that had got no further than one of the last copies; other events get the lost positions."""
        self.run(self._restore(self.copies[-back:][0]))
        self.newest.clear()
        if events:
            self.run(self.shop.append(session, *events))

    @rule()
    def lose_the_group(self) -> None:
        self.run(self.shop.redis.xgroup_destroy(self.shop.keys.feed(0), GROUP))
        self.run(self.hands[0].feeds.ensure_groups())

    @rule(session=NAMES)
    def lose_a_row(self, session: str) -> None:
        """While its log lives, for a lost tombstone would be a lost promise; the next event brings it back."""
        if self.run(self.shop.redis.exists(self.shop.keys.log(session))):
            self.run(self.shop.redis.delete(self.shop.keys.row(session)))
            self.newest.pop(session, None)
            self.run(self.shop.append(session, ("assistant/chunk", {})))

    # --- what must hold

    @invariant()
    def no_reader_is_shown_anything_older(self) -> None:
        self.run(self._hear())

    def teardown(self) -> None:
        try:
            self.run(self._settle())
        finally:
            for hand in self.hands:
                self.run(hand.drop())
            self.run(self.ear.aclose())
            self.run(self.shop.redis.flushall())

    async def _read(self, hand: Hand, count: int) -> None:
        if await self._unread():  # else it would wait
            await hand.begin(await hand.feeds.read(count_max=count, block_ms=1), unseen=True)

    async def _unread(self) -> bool:
        feed = self.shop.keys.feed(0)
        (group,) = await self.shop.redis.xinfo_groups(feed)
        return bool(await self.shop.redis.xrange(feed, min=b"(" + group["last-delivered-id"], count=1))

    async def _recover(self, hand: Hand) -> None:
        await hand.begin(await hand.feeds.own_pending())

    async def _take_over(self, hand: Hand) -> None:
        await hand.begin((await hand.feeds.claim(idle_ms_min=0)).batches)

    async def _hear(self) -> None:
        await self.shop.redis.publish(self.shop.keys.channel("s"), b'"marker"')
        while True:
            message = await self.ear.get_message(ignore_subscribe_messages=True, timeout=5)
            frame = json.loads(message["data"]) if message else None
            if frame == "marker":
                return
            if frame is not None:
                self._see(frame)

    def _see(self, frame: dict[str, Any]) -> None:
        session, n = frame["sessionId"], int(frame["rev"].partition("-")[0])
        seen = (frame["epoch"], n, frame["rev"], frame.get("value"))
        before = self.newest.get(session, (-1, -1, "", None))
        assert seen[:2] > before[:2], f"{seen} after {before}"
        self.newest[session] = seen

    async def _settle(self) -> None:
        """Let the workers end what they are at, then one of them do the rest; then look."""
        for hand in self.hands:
            await hand.finish()
        await self._drain()
        for session in SESSIONS:
            await self._look(session)
        for session in SESSIONS:
            await self.shop.append(session, ("assistant/chunk", {}))  # a commit, so that the feed is trimmed
        await self._drain()
        for session in SESSIONS:
            await self._look(session)
        assert await self.shop.redis.xrange(self.shop.keys.feed(0)) == []

    async def _drain(self) -> None:
        hand = self.hands[0]
        for _ in range(ROUNDS_MAX):
            for step in (self._take_over(hand), self._read(hand, 100)):
                await step
                await hand.finish()
                while hand.conflicts:
                    await hand.begin(hand.conflicts)
                    await hand.finish()
            if await self.shop.pending() == 0 and not await self._unread():
                await self._hear()
                return
        pytest.fail(f"the feed is not drained: {await self.shop.redis.xrange(self.shop.keys.feed(0))}")

    async def _look(self, session: str) -> None:
        row = await self.shop.row(session)
        if not await self.shop.log(session):
            assert "units" not in row
            return
        assert shown(row) == expected_row(await self.shop.log(session)), session
        assert await self.shop.redis.ttl(self.shop.keys.row(session)) == -1
        epoch, _, rev, value = self.newest.get(session, (-1, -1, "", None))
        if f"{epoch}" == row["pos"].partition("-")[0]:  # a carrier that heard everything shows what is stored
            assert (rev, value) == (row["rev"], json.loads(row["todos"]))

    async def _replicate(self) -> None:
        pipe = self.shop.redis.pipeline()
        keys = await self.shop.redis.keys()
        for key in keys:
            pipe.dump(key).pttl(key)
        found = await pipe.execute()
        self.copies = [*self.copies[-2:], dict(zip(keys, zip(found[::2], found[1::2], strict=True), strict=True))]

    async def _restore(self, copy: Copy) -> None:
        pipe = self.shop.redis.pipeline()
        pipe.flushdb()
        for key, (raw, ttl_ms) in copy.items():
            pipe.restore(key, max(0, ttl_ms), raw)
        await pipe.execute()


class Ground:
    """One loop, one server and its connections for all runs of the machine."""

    def __init__(self, url: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.redis = Redis.from_url(url)
        self.wire = Wire(url)
        self._stepped = [SteppedWire(url), SteppedWire(url)]

    def new_shop(self) -> Workshop:
        return Workshop(self.redis, "todo", self.wire)

    def hand(self, shop: Workshop, number: int, name: str) -> Hand:
        self._stepped[number].stopped.clear()
        return Hand(shop, self._stepped[number], name)

    def close(self) -> None:
        for closing in (self.redis.aclose(), self.wire.aclose(), *(wire.aclose() for wire in self._stepped)):
            self.loop.run_until_complete(closing)
        self.loop.close()


@pytest.fixture
def ground(own_server: Server) -> Iterator[Ground]:
    ground = Ground(own_server.url)
    yield ground
    ground.close()


def test_in_whatever_order_things_happen_rows_are_folds_and_readers_see_no_older_value(ground: Ground) -> None:
    machine = type("ProjectionMachine", (Machine,), {"ground": ground})
    run_state_machine_as_test(machine, settings=settings(max_examples=150, stateful_step_count=50, deadline=None))
