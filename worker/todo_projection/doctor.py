"""The operator's doctor: says what ails a server and a namespace, by what they say of themselves. Pure."""

from collections.abc import Callable, Sequence

import msgspec
from rich.console import Group
from rich.text import Text

from todo_projection import condition, configuration, ensemble
from todo_projection.diagnosis import Ailment, Diagnosis, Severity, ordered
from todo_projection.facts import Facts
from todo_projection.plain import plain

Check = Callable[[Facts], Ailment | None]

CHECKS: Sequence[Check] = (
    ensemble.answers,
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
        *(
            ensemble.answers,
            configuration.server_version,
            condition.rights,
            condition.disk,
            condition.memory,
            configuration.eviction,
        ),
        *(configuration.persistence, configuration.fsync, configuration.replicas, condition.connections),
        *(configuration.pubsub_buffer, configuration.idle_timeout, condition.clock, configuration.stream_nodes),
        *(configuration.row_hashes, configuration.configuration_told),
    }
)
# Those of a service whose primary is away: sentinels know so much.
OF_A_SERVICE: Sequence[Check] = (
    *(ensemble.answers, ensemble.sentinels_reached, ensemble.sentinels_agree, ensemble.sentinels_quorum),
    ensemble.service_replicas,
)
SIGNS: dict[Severity, tuple[str, str]] = {"error": ("✗", "red"), "warning": ("!", "yellow"), "note": ("·", "cyan")}


def diagnose(facts: Facts, nodes: Sequence[Facts] = ()) -> Diagnosis:
    """The judgement on facts, without a server; ``nodes`` are those of a cluster's primaries.

    Where a whole service is ``silent``, sentinels have told what is known.
    """
    found: list[Ailment] = []
    checks = OF_A_SERVICE if facts.silent else CHECKS
    for check in checks:
        if nodes and check in OF_A_SERVER:
            found += _everywhere(check, [one for one in nodes if not one.silent or check is ensemble.answers])
        elif (ailment := check(facts)) is not None:
            found.append(ailment)
    server = "a service without a primary" if facts.silent else f"{facts.kind} {facts.version}, {facts.mode}".strip()
    named = next((one.primary for one in facts.sentinels or () if one.primary), "")
    return Diagnosis(facts.address, server, len(checks), ordered(found), named)


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
        client = "redis-cli -h HOST -p PORT, at each of these," if several else _client(diagnosis)
        text.append(f"\n{client} takes commands in capitals; CONFIG REWRITE keeps them", "bright_black")
    return text


def _client(diagnosis: Diagnosis) -> str:
    where = diagnosis.primary or diagnosis.address.rpartition("/")[0]
    host, colon, port = where.rpartition(":")
    return plain(f"redis-cli -h {host} -p {port}" if colon else f"redis-cli -s {where}")
