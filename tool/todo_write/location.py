"""Where the store is, out of its URL: one server, a service that sentinels watch, or a cluster. No input or output."""

import re
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

Kind = Literal["server", "sentinel", "cluster"]

SENTINEL_PORT = 26379
SERVER_PORT = 6379
_SENTINEL_OPTION = re.compile(r"sentinel_(username|password)")
_PORT_MAX = 65535


class Address(NamedTuple):
    """Where one server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Location(NamedTuple):
    """A URL taken apart: ``addresses`` are the sentinels to ask, or nodes of the cluster; none for one server.

    ``user`` is ``user:password@`` as it stood there, ``options`` what goes to every server.
    """

    kind: Kind
    url: str
    addresses: tuple[Address, ...] = ()
    service: str = ""
    database: str = "0"
    tls: bool = False
    user: str = ""
    options: tuple[tuple[str, str], ...] = ()
    sentinel_options: tuple[tuple[str, str], ...] = ()

    def at(self, address: Address) -> str:
        """The URL of one server of it, with the same user, database and options."""
        scheme, query = "rediss" if self.tls else "redis", urlencode(self.options)
        return f"{scheme}://{self.user}{address}/{self.database}{'?' if query else ''}{query}"

    def sentinel(self, address: Address) -> str:
        """The URL of one of its sentinels: these have users of their own, or none."""
        options = [(name.removeprefix("sentinel_"), value) for name, value in self.sentinel_options]
        options += [(name, value) for name, value in self.options if name.startswith("ssl_")]
        query = urlencode(options)
        return f"{'rediss' if self.tls else 'redis'}://{address}/0{'?' if query else ''}{query}"

    def __str__(self) -> str:
        """Without a password: for messages."""
        nodes = ",".join(map(str, self.addresses))
        return f"sentinel {nodes}/{self.service}/{self.database}" if self.kind == "sentinel" else f"cluster {nodes}"


def locate(url: str) -> Location:
    """Take a URL apart; raises ValueError, which quotes no password.

    ``redis+sentinel://user:password@host:port,host:port/service/database`` and ``redis+cluster://…@host:port,host:port``,
    with ``rediss+`` over TLS; any other URL is that of one server, and not looked into.
    """
    scheme, _, rest = url.partition("://")
    security, _, topology = scheme.partition("+")
    if topology not in ("sentinel", "cluster") or security not in ("redis", "rediss"):
        return Location("server", url)
    parts = urlsplit(f"//{rest}")
    if "@" in parts.path + parts.query:
        raise ValueError("in a password '/', '?', '#' and '@' are written %2F, %3F, %23 and %40")
    user, at, nodes = parts.netloc.rpartition("@")
    default = SENTINEL_PORT if topology == "sentinel" else SERVER_PORT
    addresses = tuple(_address(node, default) for node in nodes.split(","))
    given = [(name, values[0]) for name, values in parse_qs(parts.query, keep_blank_values=True).items()]
    service, database = _path(topology, parts.path, dict(given))
    for_sentinels = tuple(pair for pair in given if topology == "sentinel" and _SENTINEL_OPTION.fullmatch(pair[0]))
    return Location(
        "sentinel" if topology == "sentinel" else "cluster",
        url,
        addresses,
        service,
        database,
        security == "rediss",
        user + at,
        tuple(pair for pair in given if pair not in for_sentinels and pair[0] != "db"),
        for_sentinels,
    )


def _address(node: str, default: int) -> Address:
    try:
        parts = urlsplit(f"//{node}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("a host or port can't be read; host:port,host:port is allowed") from None
    if not host:
        raise ValueError("a host is missing; host:port,host:port is allowed")
    return Address(host, default if port is None else port)


def _path(topology: str, path: str, options: dict[str, Any]) -> tuple[str, str]:
    """Service and database."""
    service, _, database = path.removeprefix("/").partition("/")
    if topology == "cluster":
        if service not in ("", "0") or database or options.get("db", "0") != "0":
            raise ValueError("a cluster has no database but 0")
        return "", "0"
    if not service:
        raise ValueError("the name of the service is missing behind the sentinels: …/service")
    database = options.get("db", "") or database or "0"
    if not re.fullmatch(r"[0-9]+", database):
        raise ValueError(f"database {database!r} is not a number")
    return service, database
