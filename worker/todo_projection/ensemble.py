"""How servers that belong together stand: a cluster, or a primary behind sentinels; one check, one function. Pure."""

from todo_projection.diagnosis import Ailment
from todo_projection.facts import Facts

SLOTS = 16384
SENTINELS_MIN, QUORUM_MIN = 3, 2


def answers(facts: Facts) -> Ailment | None:
    """One of several primaries may be away while the others work."""
    if not facts.silent:
        return None
    if facts.sentinels:
        return _of_service(facts)
    what = f"a primary gives no answer: {facts.silent}"
    why = "its sessions stand still, and nothing else is known of it: start it again"
    if not facts.replica:
        return Ailment("error", "answers", what, why)
    host, _, port = facts.replica.rpartition(":")
    promote = f"redis-cli -h {host.strip('[]')} -p {port} CLUSTER FAILOVER FORCE"
    return Ailment("error", "answers", what, f"{why}, or have its replica take its place", [promote])


def _of_service(facts: Facts) -> Ailment:
    """Sentinels are there, and nobody works: they have yet to promote a replica, or can't."""
    named = sorted({one.primary for one in facts.sentinels if not one.refused})
    what = f"the primary that sentinels name gives no answer: {facts.silent}"
    why = "all sessions stand still until a replica takes its place or it is started again; nothing else is known of it"
    return Ailment("error", "answers", what, why, at=named)


def cluster_state(facts: Facts) -> Ailment | None:
    """A slot that nobody serves is sessions that nobody serves."""
    found = facts.cluster
    if found is None or (found.state == "ok" and found.slots_served == SLOTS):
        return None
    what = f"cluster_state is {found.state}, {found.slots_served} of {SLOTS} slots are served"
    why = "sessions of the others are refused, and with cluster-require-full-coverage all are"
    mend = [f"redis-cli --cluster fix {one.address}" for one in found.primaries[:1]]
    return Ailment("error", "cluster_state", what, why, mend)


def cluster_replicas(facts: Facts) -> Ailment | None:
    """A primary that nobody follows takes its slots along when it dies."""
    if facts.cluster is None:
        return None
    single = [one.address for one in facts.cluster.primaries if one.replicas == 0]
    if not single:
        return None
    why = "when one of these dies, its sessions stand still: have a node follow it (CLUSTER REPLICATE)"
    return Ailment("warning", "cluster_replicas", "primaries without a replica in touch", why, at=single)


def cluster_slots(facts: Facts) -> Ailment | None:
    """While a slot is on its way its appends may have to wait; for good, if whoever moved it gave up."""
    if facts.cluster is None:
        return None
    open_at = [one.address for one in facts.cluster.primaries if one.slots_on_their_way]
    if not open_at:
        return None
    count = sum(one.slots_on_their_way for one in facts.cluster.primaries)
    why = "appends to sessions whose keys are in two places wait: see that whatever moves them comes to its end"
    mend = [f"redis-cli --cluster fix {open_at[0]}"]
    return Ailment("warning", "cluster_slots", f"slots on their way: {count}", why, mend, open_at)


def sentinels_reached(facts: Facts) -> Ailment | None:
    """A fail-over needs a majority of all sentinels, and as many that agree as the quorum says."""
    silent = [one for one in facts.sentinels if one.refused]
    if not silent:
        return None
    reached = [one for one in facts.sentinels if not one.refused]
    known = max((one.others + 1 for one in reached), default=len(facts.sentinels))
    needed = max(known // 2 + 1, *(one.quorum for one in reached), 1)
    what = f"{len(silent)} of {len(facts.sentinels)} sentinels do not answer: {silent[0].refused}"
    at = [one.address for one in silent]
    if len(reached) < needed:
        why = f"a fail-over needs {needed} of them: when the primary dies, nobody takes its place"
        return Ailment("error", "sentinels_reached", what, why, at=at)
    why = "a client that knows only these finds no primary"
    return Ailment("warning", "sentinels_reached", what, why, at=at)


def sentinels_agree(facts: Facts) -> Ailment | None:
    """Clients ask any of them."""
    named = {one.primary: one.address for one in facts.sentinels if not one.refused}
    if len(named) <= 1:
        return None
    what = "sentinels name different primaries: " + ", ".join(f"{at} names {primary}" for primary, at in named.items())
    why = "writers may append to either, and one of these logs will be dropped"
    return Ailment("error", "sentinels_agree", what, why, ["SENTINEL RESET *"], sorted(named.values()))


def sentinels_quorum(facts: Facts) -> Ailment | None:
    """One that is cut off alone should not be enough to call a primary dead, nor all be needed."""
    reached = [one for one in facts.sentinels if not one.refused]
    lone = [one.address for one in reached if one.others + 1 < SENTINELS_MIN]
    if lone:
        what = f"a sentinel knows of {min(one.others for one in reached)} others"
        why = "it takes three to agree when one of them is gone"
        return Ailment("warning", "sentinels_quorum", what, why, at=lone)
    wrong = [one for one in reached if not QUORUM_MIN <= one.quorum <= (one.others + 1) // 2 + 1]
    if not wrong:
        return None
    majority = (wrong[0].others + 1) // 2 + 1
    what = f"the quorum is {wrong[0].quorum} of {wrong[0].others + 1}"
    few = wrong[0].quorum < QUORUM_MIN
    why = "one that is cut off alone calls the primary dead" if few else "it asks for more than a majority"
    mend = [f"SENTINEL SET {facts.service} quorum {majority}"]
    return Ailment("warning", "sentinels_quorum", what, why, mend, [one.address for one in wrong])


def service_replicas(facts: Facts) -> Ailment | None:
    """Sentinels promote a replica, when there is one."""
    reached = [one for one in facts.sentinels if not one.refused]
    if not reached:
        return None
    known = max(one.replicas for one in reached)
    # Of a primary that is away all are apart.
    away = sorted({address for one in reached for address in (*one.away, *(() if facts.silent else one.apart))})
    alone = "when the primary dies, nobody takes its place"
    if known == 0:
        why = f"{alone}: have a server follow it (REPLICAOF)"
        return Ailment("warning", "service_replicas", "the primary has no replica that sentinels know of", why)
    if not away:
        return None
    what = f"{len(away)} of {known} replicas are away"
    why = (
        f"{alone if len(away) >= known else 'fewer are left to take its place'}: start them again; the command forgets"
    )
    mend = [f"SENTINEL RESET {facts.service}"]
    return Ailment("error" if len(away) >= known else "warning", "service_replicas", what, why, mend, away)
