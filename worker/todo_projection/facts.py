"""The facts an operator's doctor judges by. Pure: ``probe`` reads them."""

from collections.abc import Mapping
from typing import Literal

import msgspec

Role = Literal["agent", "worker", "carrier", "operator"]
ROLES: tuple[Role, ...] = ("agent", "worker", "carrier", "operator")

PARAMETERS = (
    *("maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save", "stream-node-max-bytes", "timeout"),
    *("min-replicas-to-write", "client-output-buffer-limit", "maxclients", "hash-max-listpack-value"),
)


class FeedFacts(msgspec.Struct, frozen=True):
    """One feed: pointers in it, ids of the first one and of the last one ever (epoch ms), and who else reads it."""

    key: str
    length: int
    first_ms: int
    last_ms: int
    has_group: bool
    other_groups: list[str]


class PrimaryFacts(msgspec.Struct, frozen=True):
    """A primary of a cluster: the replicas in touch with it, the slots it is giving away, and one of those replicas."""

    address: str
    replicas: int
    slots_on_their_way: int
    replica: str = ""


class ClusterFacts(msgspec.Struct, frozen=True):
    """A cluster, as one of its nodes sees it."""

    state: str
    slots_served: int
    primaries: list[PrimaryFacts]


class SentinelFacts(msgspec.Struct, frozen=True):
    """A sentinel: the primary it names, and what it knows of; ``refused`` says why it did not answer, if so.

    ``away`` are those of the replicas that are out of its reach, ``apart`` those out of the primary's.
    """

    address: str
    refused: str = ""
    primary: str = ""
    quorum: int = 0
    others: int = 0
    replicas: int = 0
    away: list[str] = []
    apart: list[str] = []


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. ``info``, ``config``, ``feeds`` and ``lacking`` hold nothing of what was refused.

    ``refused`` says what was, by command, and why. Times in epoch ms: ``now`` by the server's clock, ``host_now`` by
    this machine's at the same moment, give or take ``doubt_ms``. ``mode`` is what the server is, standalone, cluster or
    sentinel; ``scheme`` what the URL takes it for.
    """

    address: str
    namespace: str
    database: int
    silent: str = ""  # why it gives no answer, if so: then nothing else is known of it
    replica: str = ""  # of a cluster's primary: one that is in touch
    scheme: str = "redis"
    kind: str = "redis"
    version: str = ""
    mode: str = "standalone"
    user: str = "default"
    role: Role | None = None
    lacking: Mapping[Role, list[str]] | None = None
    info: Mapping[str, str] = {}
    config: Mapping[str, str] = {}
    refused: Mapping[str, str] = {}
    now: int = 0
    host_now: int = 0
    doubt_ms: int = 0
    layout: str = ""  # why it can't be used, if so
    partitions_asked: int | None = None
    databases: list[int] = []  # the others that hold the same namespace
    feeds: list[FeedFacts] = []
    workers: int | None = 0  # those that work and beat; None when that can't be read
    cluster: ClusterFacts | None = None
    service: str = ""  # what sentinels call it
    sentinels: list[SentinelFacts] = []

    def says(self, name: str) -> str:
        """A parameter, from CONFIG or, where that is refused, from INFO; '' when nobody says."""
        return self.config.get(name) or self.info.get(name.replace("-", "_"), "")

    def number(self, name: str) -> int:
        """A whole number as ``says`` has it; 0 when nobody says."""
        said = self.says(name)
        return int(said) if said.isdigit() else 0
