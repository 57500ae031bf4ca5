"""Rights: which commands each role sends, on which keys and channels, and which of them a user may not.

A script's own commands count too: the server checks them against the user that calls it. HELLO everybody may say.
To lay a namespace out is a worker's right: an agent needs it only where none has been.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from redis.exceptions import ResponseError

from todo_projection.facts import ROLES, Role
from todo_projection.wire import Command, Wire
from todo_write.events import Keys

_ANY = "time eval evalsha"
# What is sent to each kind of key; `-` is none. What a command takes besides its key is in _REST.
_SENT: Mapping[Role, Mapping[str, str]] = {
    "agent": {
        "meta": "hmget",
        "log": "xadd xrange xrevrange xinfo|stream type exists",
        "feed": "xadd type",
        "row": "hget type",
        "-": _ANY,
    },
    "worker": {
        "meta": "hmget hsetnx hget",
        "workers": "hset hgetall hdel",
        "log": "xrange xrevrange xlen type",
        "feed": "xreadgroup xpending xclaim xautoclaim xack xtrim xrange xadd type"
        " xinfo|groups xinfo|consumers xgroup|create xgroup|delconsumer",
        "row": "hgetall hmget hget hset hdel persist exists type",
        "recent": "zadd zscore type",
        "working": "zadd zrem type",
        "stale": "hset hdel hget type",
        "channel": "publish",
        "-": f"{_ANY} multi exec scan",
    },
    "carrier": {
        "meta": "hmget",
        "workers": "hgetall",
        "log": "xrange xrevrange xread",
        "feed": "xrange xlen",
        "row": "hgetall hmget",
        "recent": "zrange zscore",
        "working": "zrange",
        "stale": "hlen hscan",
        "channel": "subscribe unsubscribe",
        "-": "time ping",
    },
    "operator": {
        "meta": "hmget hget hset hdel",
        "workers": "hgetall",
        "log": "xrange xrevrange xlen xdel unlink exists type xinfo|stream",
        "feed": "xrange xlen xadd xpending type xinfo|stream xinfo|groups",
        "row": "hgetall hmget hget hset persist unlink pexpire type",
        "recent": "zrange zrandmember zcard zscore zrem type",
        "working": "zrange zscore zrem type",
        "stale": "hget hkeys hlen hscan hdel type",
        "channel": "publish",
        "-": f"{_ANY} scan info config|get acl|whoami acl|dryrun",
    },
}
_REST: Mapping[str, Sequence[object]] = {
    "hmget": ["f"], "hsetnx": ["f", 1], "hget": ["f"], "hset": ["f", 1], "hdel": ["f"], "hscan": [0], "pexpire": [1],
    "zadd": [1, "m"], "zrem": ["m"], "zrange": [0, 1], "zscore": ["m"],
    "xadd": ["*", "f", 1], "xrange": ["-", "+"], "xrevrange": ["+", "-"], "xpending": ["g"], "xack": ["g", "1-0"],
    "xclaim": ["g", "c", 1, "1-0"], "xautoclaim": ["g", "c", 1, "0"], "xtrim": ["MINID", "1-0"], "xdel": ["1-0"],
    "publish": ["m"], "xinfo|consumers": ["g"], "xgroup|create": ["g", "0"], "xgroup|delconsumer": ["g", "c"],
    "scan": [0], "eval": ["return 1", 0], "evalsha": ["0" * 40, 0], "config|get": ["save"],
    "acl|dryrun": ["default", "ping"],
}  # fmt: skip


def commands(role: Role) -> list[str]:
    """The names of all commands of a role, as access rules have them: ``xinfo|stream``."""
    return sorted({name for names in _SENT[role].values() for name in names.split()})


async def lacking(wire: Wire, keys: Keys, user: str, *, sharded: bool = False) -> dict[Role, list[str]] | str:
    """What a user lacks for each role, as access rules to be granted; a text: why the server does not tell.

    A node of a cluster publishes ``sharded``, and is asked who serves what.
    Raises redis errors other than a refusal.
    """
    samples = [sample for role in ROLES for sample in _samples(role, keys, sharded=sharded)]
    replies = await wire.pipeline([("ACL", "DRYRUN", user, *sample.command) for sample in samples])
    lacks: dict[Role, dict[str, None]] = {role: {} for role in ROLES}
    reached: dict[Role, set[str]] = {role: set() for role in ROLES}
    for sample, reply in zip(samples, replies, strict=True):
        if isinstance(reply, ResponseError):
            return str(reply)
        said = reply.decode("utf-8", "replace")
        pattern = _pattern(sample.place, keys)
        if said == "OK":
            reached[sample.role].add(pattern)
        else:
            lacks[sample.role][pattern if "to access" in said else f"+{sample.name}"] = None
    for role in ROLES:  # where no command gets as far as its key or channel, nobody has told about those
        for place in _SENT[role] if lacks[role] else ():
            if (pattern := _pattern(place, keys)) and pattern not in reached[role]:
                lacks[role][pattern] = None
    return {role: list(rules) for role, rules in lacks.items()}


class _Sample(NamedTuple):
    """A command of a role as it might be sent, the name by which rules know it, and the kind of key it goes to."""

    role: Role
    name: str
    place: str
    command: Command


def _samples(role: Role, keys: Keys, *, sharded: bool) -> Iterator[_Sample]:
    if sharded:
        yield _Sample(role, "cluster|slots", "-", ("CLUSTER", "SLOTS"))
    for place, names in _SENT[role].items():
        key = () if place == "-" else (_sample_key(place, keys),)
        for plain in names.split():
            name = f"s{plain}" if sharded and place == "channel" else plain
            command: Command = (*name.split("|"), *key, *_REST.get(plain, []))
            if name == "xreadgroup":
                command = ("XREADGROUP", "GROUP", "g", "c", "STREAMS", *key, ">")
            elif name == "xread":
                command = ("XREAD", "STREAMS", *key, "0")
            yield _Sample(role, name, place, command)


def _sample_key(place: str, keys: Keys) -> str:
    session, of_partition = "doctor", {"feed": keys.feed, "recent": keys.recent}
    of_partition |= {"working": keys.working, "stale": keys.stale}
    if place in of_partition:
        return of_partition[place](keys.partition(session))
    of_session = {"log": keys.log, "row": keys.row, "channel": keys.channel}
    if place in of_session:
        return of_session[place](session)
    return {"meta": keys.meta, "workers": keys.workers}.get(place, "")


def _pattern(place: str, keys: Keys) -> str:
    if place == "-":
        return ""
    return f"{'&' if place == 'channel' else '~'}{keys.namespace}:*"
