"""The operator's doctor: reads what a server and a namespace say of themselves, and says what ails them."""

from collections.abc import Callable, Sequence

from redis.exceptions import ResponseError
from rich.console import Group
from rich.text import Text

from todo_projection import condition, configuration
from todo_projection.diagnosis import Ailment, Diagnosis, Severity, ordered
from todo_projection.facts import Facts, Role
from todo_projection.plain import plain
from todo_projection.probe import Probe
from todo_projection.settings import Settings
from todo_projection.store import reach
from todo_projection.wire import Wire
from todo_write.events import PARTITIONS_DEFAULT, Keys
from todo_write.log import Client, LayoutMismatch

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
)
SIGNS: dict[Severity, tuple[str, str]] = {"error": ("✗", "red"), "warning": ("!", "yellow"), "note": ("·", "cyan")}


async def examine(settings: Settings, *, user: str | None, role: Role | None) -> Diagnosis:
    """What ails the store of these settings; nothing is written. Raises NoAnswer."""

    async def read(client: Client, wire: Wire) -> Facts:
        layout = ""
        try:
            keys = await client.keys(create=False)
        except LayoutMismatch as mismatch:
            keys, layout = Keys(settings.namespace), str(mismatch)
        except ResponseError:  # refused: rights or topology will say why
            keys = Keys(settings.namespace, settings.partitions or PARTITIONS_DEFAULT)
        number = client.address.rpartition("/")[2]
        database = int(number) if number.isdigit() else 0
        probe = Probe(wire, keys, database=database, beat_ms=settings.beat_ms)
        scheme, asked = settings.redis_url.partition("://")[0], settings.partitions
        given = {"address": client.address, "scheme": scheme, "partitions_asked": asked}
        return await probe.read(layout=layout, user=user, role=role, **given)

    return diagnose(await reach(settings, read))


def diagnose(facts: Facts) -> Diagnosis:
    """The judgement on facts, without a server."""
    found = [ailment for check in CHECKS if (ailment := check(facts)) is not None]
    server = f"{facts.kind} {facts.version}, {facts.mode}".strip()
    return Diagnosis(facts.address, server, len(CHECKS), ordered(found))


def diagnosis_view(diagnosis: Diagnosis) -> Group:
    """A finding below the other, what mends it indented; then a line that counts."""
    parts = [Text(f"{plain(diagnosis.address)}  ", "bold").append(plain(diagnosis.server), "not bold bright_black")]
    for one in diagnosis.findings:
        sign, colour = SIGNS[one.severity]
        parts += [Text(), Text(f"{sign} ", colour).append(plain(one.what), "bold"), _indented(plain(one.why))]
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
        text.append(
            f"\n{_client(diagnosis.address)} takes commands in capitals; CONFIG REWRITE keeps them", "bright_black"
        )
    return text


def _client(address: str) -> str:
    where = address.rpartition("/")[0]
    host, colon, port = where.rpartition(":")
    return plain(f"redis-cli -h {host} -p {port}" if colon else f"redis-cli -s {where}")
