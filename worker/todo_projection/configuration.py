"""What a server should be set to for this product: one check, one function. Pure."""

import re

from todo_projection.diagnosis import Ailment, Severity
from todo_projection.facts import PARAMETERS, Facts

OLDEST = {"redis": (7, 0), "valkey": (7, 2)}
TRIED_BELOW = {"redis": (9, 0), "valkey": (10, 0)}
STREAM_NODE_BYTES = 512
ROW_VALUE_BYTES = 4096  # of a plan of some 50 items
PUBSUB_HARD_BYTES_MIN = 4 * 2**20  # a frame may have 256 kB, and a batch brings several
PUBSUB_LIMIT = "pubsub 33554432 8388608 60"
IDLE_S_MIN = 60


def server_version(facts: Facts) -> Ailment | None:
    """Scripts are flagged, ACL DRYRUN and XAUTOCLAIM are there since 7.0."""
    numbers = re.match(r"(\d+)\.(\d+)", facts.version)
    if numbers is None or facts.kind not in OLDEST:
        what = f"this is {facts.kind} {facts.version}".rstrip()
        return Ailment("note", "server_version", what, "only Redis and Valkey are tested")
    version, oldest, newest = (int(numbers[1]), int(numbers[2])), OLDEST[facts.kind], TRIED_BELOW[facts.kind]
    what = f"the server is {facts.kind} {facts.version}"
    if version < oldest:
        why = f"its scripts need {facts.kind} {oldest[0]}.{oldest[1]} or newer: upgrade it"
        return Ailment("error", "server_version", what, why)
    if version >= newest:
        return Ailment("note", "server_version", what, f"newer than any this was tested with (below {newest[0]})")
    return None


def configuration_told(facts: Facts) -> Ailment | None:
    """A managed server often keeps its parameters to itself, or to its console."""
    if (why := facts.refused.get("CONFIG GET")) is None:
        return None
    unknown = ", ".join(name for name in PARAMETERS if not facts.says(name))
    what = f"can't tell how these are set: {unknown}"
    mend = [f"ACL SETUSER {facts.user} +config|get"] if "permission" in why else []
    told = f"CONFIG GET is refused: {why}"
    return Ailment(
        "note", "configuration_told", what, told if mend else f"{told}; look in its provider's console", mend
    )


def eviction(facts: Facts) -> Ailment | None:
    """An evicted log is lost with its group and all."""
    policy = facts.says("maxmemory-policy")
    if policy in ("", "noeviction"):
        return None
    severity: Severity = "error" if facts.number("maxmemory") else "warning"
    why = "a full server would delete whole logs, instead of refusing appends"
    mend = "CONFIG SET maxmemory-policy noeviction"
    return Ailment(severity, "eviction", f"maxmemory-policy is {policy}", why, [mend])


def persistence(facts: Facts) -> Ailment | None:
    """The log is the truth, and it is in this server's memory."""
    if facts.says("appendonly") == "yes" or facts.info.get("aof_enabled") == "1":
        return None
    if "appendonly" not in facts.config and "aof_enabled" not in facts.info:
        return None  # nobody tells: said once, by configuration_told
    mend = ["CONFIG SET appendonly yes"]
    if facts.config.get("save", "-") == "":
        why = "when the server ends, every log is gone"
        return Ailment("error", "persistence", "nothing is written to disk: no AOF, no snapshots", why, mend)
    why = "when the server dies, every event since its last snapshot is gone"
    return Ailment("warning", "persistence", "appendonly is no", why, mend)


def fsync(facts: Facts) -> Ailment | None:
    """``everysec`` loses a second at a power cut, ``no`` up to half a minute."""
    if facts.says("appendonly") != "yes" or facts.says("appendfsync") != "no":
        return None
    why = "a power cut loses what the kernel had not written yet, about 30 s"
    return Ailment("warning", "fsync", "appendfsync is no", why, ["CONFIG SET appendfsync everysec"])


def stream_nodes(facts: Facts) -> Ailment | None:
    """Every session has a stream, most with little in it."""
    node = facts.number("stream-node-max-bytes")
    if "stream-node-max-bytes" not in facts.config or 0 < node <= STREAM_NODE_BYTES:
        return None
    why = "an idle session's log takes 4.3 kB; with 512, 0.75 kB (those that are there stay as they are)"
    mend = f"CONFIG SET stream-node-max-bytes {STREAM_NODE_BYTES}"
    return Ailment("note", "stream_nodes", f"stream-node-max-bytes is {node}", why, [mend])


def row_hashes(facts: Facts) -> Ailment | None:
    """A hash is packed while no value is longer than this, and a plan is longer than the default."""
    longest = facts.number("hash-max-listpack-value")
    if "hash-max-listpack-value" not in facts.config or longest >= ROW_VALUE_BYTES:
        return None
    why = "a row takes 320 to 750 bytes more than it need (rows that are there stay so until they are written again)"
    mend = f"CONFIG SET hash-max-listpack-value {ROW_VALUE_BYTES}"
    return Ailment("note", "row_hashes", f"hash-max-listpack-value is {longest}", why, [mend])


def replicas(facts: Facts) -> Ailment | None:
    """A primary nobody follows any more goes on saying yes."""
    count = facts.info.get("connected_slaves", "0")
    if count == "0" or facts.says("min-replicas-to-write") != "0":
        return None
    why = "a primary cut off from its replicas accepts appends that a fail-over drops"
    what = f"{count} {'replica follows' if count == '1' else 'replicas follow'}, and min-replicas-to-write is 0"
    return Ailment("warning", "replicas", what, why, ["CONFIG SET min-replicas-to-write 1"])


def pubsub_buffer(facts: Facts) -> Ailment | None:
    """What the server keeps for a carrier that does not read."""
    limits = re.search(r"pubsub (\d+) (\d+) (\d+)", facts.says("client-output-buffer-limit"))
    if limits is None:
        return None
    hard = int(limits[1])
    if hard >= PUBSUB_HARD_BYTES_MIN:
        return None
    why = "one carrier that hangs fills the server's memory"
    if hard:
        why = f"a carrier is cut off as soon as {hard} bytes wait for it; a frame may have 256 kB"
    mend = f'CONFIG SET client-output-buffer-limit "{PUBSUB_LIMIT}"'
    return Ailment("warning", "pubsub_buffer", f"client-output-buffer-limit is {limits[0]}", why, [mend])


def idle_timeout(facts: Facts) -> Ailment | None:
    """The server's time-out against ours: a read blocks for a second at most, a pool's connections idle for long."""
    seconds = facts.number("timeout")
    if seconds == 0 or seconds >= IDLE_S_MIN:
        return None
    why = "connections are closed between two uses, and each use after a pause begins with one that is broken"
    return Ailment("warning", "idle_timeout", f"timeout is {seconds} s", why, ["CONFIG SET timeout 0"])
