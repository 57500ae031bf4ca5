"""How a server and a namespace in it are doing: one check, one function. Pure."""

from collections.abc import Sequence

from todo_projection.diagnosis import Ailment, Severity
from todo_projection.facts import ROLES, Facts

FULL, NEARLY_FULL = 0.95, 0.8
CLOCK_MS_MAX = 1000
WAITS_MS_MAX = 60_000


def topology(facts: Facts) -> Ailment | None:
    """What the URL takes the server for, and what it is."""
    where, taken_for = facts.address.rpartition("/")[0], facts.scheme.partition("+")[2]
    if facts.mode == "sentinel" and taken_for != "sentinel":
        why = "it knows where the primary is, and stores nothing; NAME is what it calls the service (SENTINEL MASTERS)"
        mend = f"export TODO_REDIS_URL=redis+sentinel://{where}/NAME"
        return Ailment("error", "topology", "this is a Sentinel, and the URL takes it for a server", why, [mend])
    if facts.mode == "cluster" and taken_for != "cluster":
        why = "most sessions belong to its other nodes, and are refused here"
        mend = f"export TODO_REDIS_URL=redis+cluster://{where}"
        return Ailment(
            "error", "topology", "this is a node of a cluster, and the URL takes it for the whole", why, [mend]
        )
    return None


def layout(facts: Facts) -> Ailment | None:
    """Layout and number of partitions are for life."""
    if not facts.layout:
        return None
    mend = ["unset TODO_PARTITIONS"] if facts.partitions_asked else []
    return Ailment(
        "error", "layout", facts.layout.partition(": ")[2] or facts.layout, "no program starts with these", mend
    )


def rights(facts: Facts) -> Ailment | None:
    """What the user may not that its role sends."""
    role, user = facts.role, facts.user
    if facts.lacking is None:
        why = facts.refused.get("ACL DRYRUN", "")
        told = f"ACL DRYRUN is refused: {why}"
        mend = [f"ACL SETUSER {user} +acl|dryrun +acl|whoami"] if "permission" in why else []
        return Ailment("note", "rights", f"can't tell what user {user!r} may", told, mend)
    if role and (lacks := facts.lacking[role]):
        shown = " ".join(lacks)
        what = f"user {user!r} can't be {_a(role)}: it lacks {shown}"
        return Ailment("error", "rights", what, "the first of these ends its work", [f"ACL SETUSER {user} {shown}"])
    if role:
        return None
    can = [one for one in ROLES if not facts.lacking[one]]
    cannot = [one for one in ROLES if facts.lacking[one]]
    if not cannot:
        return None
    mend = [f"todo-projection doctor --user {user} --role {one}" for one in cannot]
    what = f"user {user!r} can be {_list(can) or 'none of ' + _list(ROLES)}"
    why = f"it lacks rights of {_list(cannot)}: these commands say which"
    return Ailment("note" if can else "error", "rights", what, why, mend)


def is_primary(facts: Facts) -> Ailment | None:
    """Writers, workers and baselines need the primary."""
    if facts.info.get("role") != "slave":
        return None
    where = f"{facts.info.get('master_host')}:{facts.info.get('master_port')}"
    why = "it refuses appends, and what it shows may be old"
    mend = f"export TODO_REDIS_URL=redis://{where}/{facts.database}"
    return Ailment("error", "is_primary", f"this is a replica of {where}", why, [mend])


def memory(facts: Facts) -> Ailment | None:
    """A full server refuses appends."""
    used, limit = facts.number("used_memory"), facts.number("maxmemory")
    if limit == 0:
        if not {"maxmemory"} & (facts.config.keys() | facts.info.keys()):
            return None
        why = "the kernel kills a server that outgrows its machine; one with a limit refuses appends, and goes on"
        half = max(int(facts.info.get("total_system_memory", "0")) * 3 // 4, 2**28)
        return Ailment("note", "memory", "maxmemory is 0: no limit", why, [f"CONFIG SET maxmemory {half}"])
    share = used / limit
    if share < NEARLY_FULL:
        return None
    what = f"{share:.0%} of maxmemory is used: {used / 2**20:.0f} of {limit / 2**20:.0f} MiB"
    severity: Severity = "error" if share >= FULL else "warning"
    mend = [f"CONFIG SET maxmemory {2 * used}", "todo-projection retention --idle 30d --dry-run"]
    return Ailment(severity, "memory", what, "at 100 % every append is refused", mend)


def disk(facts: Facts) -> Ailment | None:
    """A server that can't save refuses writes, or will lose them."""
    if facts.info.get("aof_last_write_status", "ok") != "ok":
        why = "the server refuses writes until there is room on its disk: make some"
        return Ailment("error", "disk", "the AOF can't be written", why)
    if facts.info.get("rdb_last_bgsave_status", "ok") != "ok":
        why = "the server may refuse writes until one succeeds: look in its log, make room on its disk, then"
        return Ailment("error", "disk", "the last snapshot failed", why, ["BGSAVE"])
    return None


def connections(facts: Facts) -> Ailment | None:
    """Who comes when all places are taken is refused."""
    count, limit = facts.number("connected_clients"), facts.number("maxclients")
    if limit == 0 or count < NEARLY_FULL * limit:
        return None
    what = f"{count} of {limit} connections are taken"
    return Ailment("warning", "connections", what, "who comes next is refused", [f"CONFIG SET maxclients {2 * limit}"])


def clock(facts: Facts) -> Ailment | None:
    """Ages are told by the server's clock; `time` in an event is its writer's."""
    off = facts.now - facts.host_now
    if abs(off) <= CLOCK_MS_MAX + facts.doubt_ms:
        return None
    what = f"this machine's clock and the server's are {abs(off) / 1000:.1f} s apart"
    why = "times in events are those of writers' machines, ages those of the server: let NTP set both"
    return Ailment("warning", "clock", what, why)


def feed_clock(facts: Facts) -> Ailment | None:
    """After a fail-over to a slower clock a feed's ids run ahead of it."""
    ahead = [feed for feed in facts.feeds if feed.last_ms > facts.now + CLOCK_MS_MAX]
    if not ahead:
        return None
    worst = max(ahead, key=lambda feed: feed.last_ms)
    what = (
        f"{len(ahead)} feeds are ahead of the server's clock, {worst.key} by {(worst.last_ms - facts.now) / 1000:.0f} s"
    )
    drained = [feed.key for feed in ahead if feed.length == 0]
    why = "until the clock is past them, a backlog there looks fresh; a drained feed can be deleted"
    return Ailment("warning", "feed_clock", what, why, [f"DEL {key}" for key in drained])


def namesakes(facts: Facts) -> Ailment | None:
    """Channels have no database number."""
    if not facts.databases:
        return None
    others = ", ".join(map(str, facts.databases))
    what = f"databases {facts.database} and {others} hold a namespace {facts.namespace!r} each"
    why = "pub/sub knows no databases: carriers of one hear the frames of the other; take another name in one of them"
    mend = f"export TODO_NAMESPACE={facts.namespace}{facts.database}"
    return Ailment("warning", "namesakes", what, why, [mend])


def unread(facts: Facts) -> Ailment | None:
    """Events wait, and nobody takes them."""
    if facts.workers is None:
        return None
    waiting = [feed for feed in facts.feeds if feed.length]
    oldest_ms = max((facts.now - feed.first_ms for feed in waiting), default=0)
    if facts.workers == 0:
        what = f"no worker works; events that wait: {sum(feed.length for feed in waiting)}"
        severity: Severity = "error" if waiting else "warning"
        return Ailment(severity, "unread", what, "plans stand still", ["todo-projection worker"])
    if oldest_ms > WAITS_MS_MAX:
        what = f"an event has waited for {oldest_ms / 1000:.0f} s, though {facts.workers} workers work"
        why = "they are too few, stuck, or refused: `todo-projection status` and their logs say which"
        return Ailment("error", "unread", what, why, ["todo-projection status"])
    return None


def strangers(facts: Facts) -> Ailment | None:
    """A feed is trimmed by what the workers' group has done, and by nobody else's."""
    found = [(feed.key, group) for feed in facts.feeds for group in feed.other_groups]
    if not found:
        return None
    what = f"{len(found)} groups read feeds beside the workers, such as {found[0][1]!r} on {found[0][0]}"
    why = "what the workers have done is trimmed away, read by others or not: read logs instead"
    return Ailment("note", "strangers", what, why, [f"XGROUP DESTROY {key} {group}" for key, group in found])


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)


def _a(role: str) -> str:
    return f"an {role}" if role[0] in "aeiou" else f"a {role}"
