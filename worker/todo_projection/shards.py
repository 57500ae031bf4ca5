"""Sharded pub/sub of a cluster: each channel is heard at the primary of its slot, wherever that slot goes."""

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress

from redis.crc import key_slot
from redis.exceptions import MovedError, RedisError

from todo_projection.background import end
from todo_projection.channels import Alive, Channels, Ended, Heard
from todo_write.log import Address, Client, Nodes

CHECK_S = 3.0  # how often the places of the channels are compared with what the cluster says
SILENT_S = 3.0


async def open_channels(client: Client) -> "Channels | Shards":
    """A fresh pub/sub connection of the kind that the server wants; raises redis errors."""
    if client.nodes is not None:
        shards = Shards(client, client.nodes)
        shards.open()
        return shards
    channels = Channels(client.open_pool(None, 1), sharded=await client.publish_command() == "SPUBLISH")
    try:
        await channels.open()
    except BaseException:
        await channels.close()  # sentinels may have been asked by then
        raise
    return channels


class Shards:
    """As ``Channels``, with a connection to every primary that serves one of the channels.

    A slot that moves takes its channels along: the old primary gives them up, the new one confirms them, and whoever
    reads confirmations reads baselines. A connection that breaks breaks all of it.
    """

    def __init__(self, client: Client, nodes: Nodes[object]) -> None:
        self._client = client
        self._cluster = nodes
        self._at: dict[str, Address] = {}  # where each channel was asked for
        self._connections: dict[Address, Channels] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._heard: asyncio.Queue[Heard | BaseException] = asyncio.Queue()
        self._placing = asyncio.Lock()

    def open(self) -> None:
        """Begin to see whether slots move; connections come with the first channels."""
        self._start(self._check())

    async def subscribe(self, channels: Iterable[str]) -> None:
        """Ask for these channels; each is confirmed by itself."""
        await self._place(list(channels), None)

    async def unsubscribe(self, channels: Iterable[str]) -> None:
        """Give these channels up."""
        async with self._placing:
            for (address, _), names in self._by_slot({name: self._at.pop(name) for name in channels}).items():
                if address in self._connections:
                    await self._connections[address].unsubscribe(names)

    async def ping(self) -> None:
        """Ask every server for a sign of life."""
        for connection in list(self._connections.values()):
            await connection.ping()
        if not self._connections:
            self._heard.put_nowait(Alive())

    async def read(self, timeout_s: float) -> Heard | None:
        """The next thing any server says; None when all are silent for that long. Raises what broke a connection."""
        try:
            async with asyncio.timeout(timeout_s):
                heard = await self._heard.get()
        except TimeoutError:
            return None
        if isinstance(heard, BaseException):
            raise heard
        return heard

    async def close(self) -> None:
        """Drop the connections; harmless when done twice."""
        await end(*self._tasks)
        self._tasks.clear()
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()

    async def _place(self, names: Iterable[str], gone_from: Address | None) -> None:
        """Ask for channels where they are served now; of those ``gone_from`` a server only what is still there."""
        async with self._placing:
            wanted = [name for name in names if gone_from is None or self._at.get(name) == gone_from]
            places = {name: await self._cluster.of(name) for name in wanted}
            self._at |= places
            for (address, _), found in self._by_slot(places).items():
                await (await self._connection(address)).subscribe(found)

    def _by_slot(self, places: dict[str, Address]) -> dict[tuple[Address, int], list[str]]:
        """One command takes channels of one slot only."""
        found: dict[tuple[Address, int], list[str]] = {}
        for name, address in places.items():
            found.setdefault((address, key_slot(name.encode())), []).append(name)
        return found

    async def _connection(self, address: Address) -> Channels:
        if address not in self._connections:
            connection = Channels(self._client.open_pool_at(address, None, 1), sharded=True)
            try:
                await connection.open()
            except BaseException:
                await connection.close()
                raise
            self._connections[address] = connection  # only now: whoever finds it here may send
            self._start(self._listen(address, connection))
        return self._connections[address]

    async def _listen(self, address: Address, connection: Channels) -> None:
        silent = False
        while True:
            try:
                heard = await connection.read(SILENT_S)
            except MovedError as error:  # asked for where it is not, or not any more
                self._cluster.follow(error, address)
                await self._leave(address, error.slot_id)
                continue
            if heard is None:
                if silent:
                    raise TimeoutError(f"{address}: the pub/sub connection does not answer")
                silent = True
                await connection.ping()
                continue
            silent = False
            if isinstance(heard, Ended) and self._at.get(heard.channel) == address:
                await self._cluster.look()
                await self._leave(address, key_slot(heard.channel.encode()))
            self._heard.put_nowait(heard)

    async def _leave(self, address: Address, slot: int) -> None:
        """A server does not serve the channels of this slot: they are to be heard where it is now."""
        await self._place([name for name in self._at if key_slot(name.encode()) == slot], address)

    async def _check(self) -> None:
        """A server that was cut off from the others says nothing: see whether the others name another one."""
        while True:
            await asyncio.sleep(CHECK_S)
            with suppress(RedisError, OSError):
                await self._cluster.look()
                for name, address in list(self._at.items()):
                    if await self._cluster.of(name) != address:
                        await self._leave(address, key_slot(name.encode()))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        async def run() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001  whoever reads gets it
                self._heard.put_nowait(error)

        self._tasks.append(asyncio.create_task(run()))
