"""The operator's doctor: reads what a server and a namespace say of themselves, and says what ails them."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from redis.exceptions import ResponseError
from rich.console import Group
from rich.text import Text

from todo_projection import condition, configuration, ensemble
from todo_projection.diagnosis import Ailment, Diagnosis, Severity, ordered
from todo_projection.facts import Facts, Role
from todo_projection.plain import plain
from todo_projection.probe import Probe
from todo_projection.settings import Settings
from todo_projection.standing import read_cluster, read_sentinels
from todo_projection.store import reach
from todo_projection.wire import Wire
from todo_write.events import PARTITIONS_DEFAULT, Keys
from todo_write.log import Address, Client, LayoutMismatch, locate

Check = Callable[[Facts], Ailment | None]

CHECKS: Sequence[Check] = (
    configuration.server_version,
    condition.topology,
    condition.layout,
    condition.is_primary,
    condition.rights,
    condition.disk,
    condition.memory,
    configuration.eviction,
    configuration.persistence,
    configuration.fsync,
    configuration.replicas,
    condition.unread,
    condition.connections,
    configuration.pubsub_buffer,
    configuration.idle_timeout,
    condition.namesakes,
    condition.clock,
    condition.feed_clock,
    condition.strangers,
    configuration.stream_nodes,
    configuration.row_hashes,
    configuration.configuration_told,
    ensemble.cluster_state,
    ensemble.cluster_replicas,
    ensemble.cluster_slots,
    ensemble.sentinels_reached,
    ensemble.sentinels_agree,
    ensemble.sentinels_quorum,
    ensemble.service_replicas,
)
# Those of a server, which every primary of a cluster is put to; the others are of the whole.
OF_A_SERVER = frozenset(
    {
        *(configuration.server_version, condition.rights, condition.disk, condition.memory, configuration.eviction),
        *(configuration.persistence, configuration.fsync, configuration.replicas, condition.connections),
        *(configuration.pubsub_buffer, configuration.idle_timeout, condition.clock, configuration.stream_nodes),
        *(configuration.row_hashes, configuration.configuration_told),
    }
)
SIGNS: dict[Severity, tuple[str, str]] = {"error": ("✗", "red"), "warning": ("!", "yellow"), "note": ("·", "cyan")}


async def examine(settings: Settings, *, user: str | None, role: Role | None) -> Diagnosis:
    """What ails the store of these settings; nothing is written. Raises NoAnswer."""
    location = locate(settings.redis_url)

    async def read(client: Client, wire: Wire) -> tuple[Facts, list[Facts]]:
        layout = ""
        try:
            keys = await client.keys(create=False)
        except LayoutMismatch as mismatch:
            keys, layout = Keys(settings.namespace), str(mismatch)
        except ResponseError:  # refused: rights or topology will say why
            keys = Keys(settings.namespace, settings.partitions or PARTITIONS_DEFAULT)
        number = client.address.rpartition("/")[2]
        database = int(number) if number.isdigit() else 0
        given: dict[str, Any] = {"user": user, "role": role, "scheme": settings.redis_url.partition("://")[0]}

        def probe(of: Wire) -> Probe:
            return Probe(of, keys, database=database, beat_ms=settings.beat_ms)

        more: dict[str, Any] = {"partitions_asked": settings.partitions, "layout": layout, "service": location.service}
        if location.kind == "sentinel":
            more["sentinels"] = await read_sentinels(location)
        if location.kind != "cluster":
            return await probe(wire).read(address=client.address, **given, **more), []
        more["cluster"] = found = await read_cluster(wire)
        nodes: list[Facts] = []
        for primary in found.primaries:
            host, _, port = primary.address.rpartition(":")
            node = Wire(location.at(Address(host.strip("[]"), int(port))))
            try:
                nodes.append(await probe(node).read_server(address=primary.address, **given))
            finally:
                await node.aclose()
        return await probe(wire).read(address=client.address, **given, **more), nodes

    facts, nodes = await reach(settings, read)
    return diagnose(facts, nodes)


def diagnose(facts: Facts, nodes: Sequence[Facts] = ()) -> Diagnosis:
    """The judgement on facts, without a server; ``nodes`` are those of a cluster's primaries."""
    found: list[Ailment] = []
    for check in CHECKS:
        if nodes and check in OF_A_SERVER:
            found += _everywhere(check, nodes)
        elif (ailment := check(facts)) is not None:
            found.append(ailment)
    server = f"{facts.kind} {facts.version}, {facts.mode}".strip()
    return Diagnosis(facts.address, server, len(CHECKS), ordered(found))


def _everywhere(check: Check, nodes: Sequence[Facts]) -> list[Ailment]:
    """What is the same at several is one finding."""
    found: dict[str, Ailment] = {}
    for node in nodes:
        if (ailment := check(node)) is None:
            continue
        known_by = f"{ailment.what} {ailment.mend}"
        known = found.get(known_by, ailment)
        found[known_by] = msgspec.structs.replace(known, at=[*known.at, node.address])
    return list(found.values())


def diagnosis_view(diagnosis: Diagnosis) -> Group:
    """A finding below the other, what mends it indented; then a line that counts."""
    parts = [Text(f"{plain(diagnosis.address)}  ", "bold").append(plain(diagnosis.server), "not bold bright_black")]
    for one in diagnosis.findings:
        sign, colour = SIGNS[one.severity]
        parts += [Text(), Text(f"{sign} ", colour).append(plain(one.what), "bold")]
        parts += [_indented(plain(f"at {', '.join(one.at)}"))] if one.at else []
        parts += [_indented(plain(one.why))]
        parts += [_indented(plain(command), "green") for command in one.mend]
    return Group(*parts, Text(), _summary(diagnosis))


def _indented(text: str, colour: str = "bright_black") -> Text:
    return Text(f"  {text}", colour)


def _summary(diagnosis: Diagnosis) -> Text:
    if not diagnosis.findings:
        return Text(f"✓ {diagnosis.checks} checks, nothing found", "green")
    counts = {severity: sum(one.severity == severity for one in diagnosis.findings) for severity in SIGNS}
    told = ", ".join(f"{count} {severity}{'s' if count > 1 else ''}" for severity, count in counts.items() if count)
    text = Text(f"{diagnosis.checks} checks: {told}")
    if any(command[0].isupper() for one in diagnosis.findings for command in one.mend):
        several = any(one.at for one in diagnosis.findings)
        client = "redis-cli -h HOST -p PORT, at each of these," if several else _client(diagnosis.address)
        text.append(f"\n{client} takes commands in capitals; CONFIG REWRITE keeps them", "bright_black")
    return text


def _client(address: str) -> str:
    where = address.rpartition("/")[0]
    host, colon, port = where.rpartition(":")
    return plain(f"redis-cli -h {host} -p {port}" if colon else f"redis-cli -s {where}")
