"""What servers that belong together say of each other: a cluster's nodes, and a service's sentinels."""

from collections import Counter
from collections.abc import Mapping, Sequence

from redis.exceptions import RedisError

from todo_projection.facts import ClusterFacts, PrimaryFacts, SentinelFacts
from todo_projection.wire import Wire, settled
from todo_write.log import Address, Location

SENTINEL_S = 2.0
FIELDS = 8  # of a line of CLUSTER NODES; slots come behind them


async def read_cluster(wire: Wire) -> ClusterFacts:
    """As the first primary that answers sees it; raises redis errors when none does.

    Of slots on their way each tells its own only.
    """
    failed: Exception | None = None
    seen: list[tuple[str, str]] = []
    for node in await wire.primaries():
        try:
            nodes, info = settled(await node.pipeline([("CLUSTER", "NODES"), ("CLUSTER", "INFO")]))
            seen.append((nodes.decode(), info.decode()))
        except (RedisError, OSError) as error:
            failed = error
    if not seen:
        raise failed or RedisError("no node serves a slot")
    said = dict(line.split(":", 1) for line in seen[0][1].splitlines() if ":" in line)
    moving = Counter(address for nodes, _ in seen for address in _moving(nodes))
    return ClusterFacts(said["cluster_state"], int(said["cluster_slots_ok"]), _primaries(seen[0][0], moving))


async def read_sentinels(location: Location) -> list[SentinelFacts]:
    """What each sentinel of a URL says of the service; one that does not answer is said to."""
    return [await _sentinel(location, address) for address in location.addresses]


async def _sentinel(location: Location, address: Address) -> SentinelFacts:
    wire = Wire(location.sentinel(address), timeout_s=SENTINEL_S)
    try:
        flat = await wire.command("SENTINEL", "MASTER", location.service)
        replicas = [_said(one) for one in await wire.command("SENTINEL", "REPLICAS", location.service)]
    except (RedisError, OSError) as error:
        return SentinelFacts(str(address), refused=str(error))
    finally:
        await wire.aclose()
    said = _said(flat)
    return SentinelFacts(
        str(address),
        primary=str(Address(said["ip"], int(said["port"]))),
        quorum=int(said["quorum"]),
        others=int(said["num-other-sentinels"]),
        replicas=int(said["num-slaves"]),
        away=[_at(one) for one in replicas if _is_away(one)],
        apart=[_at(one) for one in replicas if one["master-link-status"] != "ok"],
    )


def _said(flat: Sequence[bytes]) -> dict[str, str]:
    return {name.decode(): value.decode("utf-8", "replace") for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _is_away(replica: Mapping[str, str]) -> bool:
    return bool({"s_down", "o_down", "disconnected"}.intersection(replica["flags"].split(",")))


def _at(replica: Mapping[str, str]) -> str:
    return str(Address(replica["ip"], int(replica["port"])))


def _rows(nodes: str) -> list[list[str]]:
    """A line: id, host:port@bus,name, flags, whom it follows, ping, pong, epoch, link, slots."""
    return [line.split() for line in nodes.splitlines() if line]


def _address(row: Sequence[str]) -> str:
    host, _, port = row[1].partition("@")[0].rpartition(":")
    return str(Address(host.strip("[]"), int(port)))


def _moving(nodes: str) -> list[str]:
    """The node's own address, once for each slot that it gives away: `[slot->-id]`; the other end has `[slot-<-id]`."""
    return [_address(row) for row in _rows(nodes) if "myself" in row[2] for part in row[FIELDS:] if "->-" in part]


def _primaries(nodes: str, moving: Mapping[str, int]) -> list[PrimaryFacts]:
    """Those with slots."""
    rows = _rows(nodes)
    in_touch = [row for row in rows if _is_in_touch(row)]
    found: list[PrimaryFacts] = []
    for row in rows:
        if "master" in row[2] and len(row) > FIELDS:
            replicas, address = [_address(one) for one in in_touch if one[3] == row[0]], _address(row)
            found.append(PrimaryFacts(address, len(replicas), moving.get(address, 0), *replicas[:1]))
    return found


def _is_in_touch(row: Sequence[str]) -> bool:
    """Whether it is a replica that is there; one that may not promote itself has the flag `nofailover`."""
    flags = set(row[2].split(","))
    return "slave" in flags and not flags & {"fail", "fail?"} and row[7] == "connected"
