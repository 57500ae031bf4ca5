"""The Redis roles of ``deploy/users.acl`` on a real server, and the table of what each may do.

``python -m roles`` starts a server and prints the table of SECURITY.md.
"""

import re
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from todo_write.events import Keys

FILE = Path(__file__).parents[1] / "deploy" / "users.acl"
ROLES = ("agent", "worker", "carrier", "operator")
PASSWORD = "p"

SESSION = "s1"


class Act(NamedTuple):
    """Something one may try: in words, and as a command."""

    words: str
    command: tuple[str, ...]


def acts(namespace: str = "todo") -> list[Act]:
    """What is tried, of one namespace and of another whose name begins with it."""
    keys, others = Keys(namespace), Keys(f"{namespace}2")
    partition = keys.partition(SESSION)
    log, row, feed, channel = keys.log(SESSION), keys.row(SESSION), keys.feed(partition), keys.channel(SESSION)
    script = ("EVALSHA", "0" * 40)
    return [
        Act("append, by the script", (*script, "3", log, feed, row)),
        Act(
            "commit, by the script",
            (*script, "5", feed, keys.recent(partition), keys.working(partition), keys.stale(partition), row),
        ),
        Act("read a log", ("XRANGE", log, "-", "+")),
        Act("read a feed", ("XRANGE", feed, "-", "+")),
        Act("read a row", ("HGETALL", row)),
        Act("read the indexes", ("ZRANGE", keys.recent(partition), "0", "-1")),
        Act("read the layout", ("HMGET", keys.meta, "layout", "partitions")),
        Act("read the beats of workers", ("HGETALL", keys.workers)),
        Act("write a log or a feed past the script", ("XADD", log, "*", "a", "b")),
        Act("write a row", ("HSET", row, "pos", "1-1")),
        Act("write the layout", ("HSET", keys.meta, "partitions", "2")),
        Act("write a beat", ("HSET", keys.workers, "w", "{}")),
        Act("take pointers", ("XREADGROUP", "GROUP", "projection", "c", "STREAMS", feed, ">")),
        Act("acknowledge pointers", ("XACK", feed, "projection", "1-1")),
        Act("trim a feed", ("XTRIM", feed, "MAXLEN", "0")),
        Act("delete events of a log", ("XDEL", log, "1-1")),
        Act("delete a log", ("UNLINK", log)),
        Act("delete a log (DEL)", ("DEL", log)),
        Act("rename a log", ("RENAME", log, keys.log("s2"))),
        Act("set another type", ("SET", row, "x")),
        Act("publish a frame", ("PUBLISH", channel, "{}")),
        Act("hear frames", ("SUBSCRIBE", channel)),
        Act("hear everything", ("PSUBSCRIBE", "*")),
        Act("read another namespace", ("XRANGE", others.log(SESSION), "-", "+")),
        Act(
            "append in another namespace",
            (*script, "3", others.log(SESSION), others.feed(partition), others.row(SESSION)),
        ),
        Act("publish in another namespace", ("PUBLISH", others.channel(SESSION), "{}")),
        Act("hear another namespace", ("SUBSCRIBE", others.channel(SESSION))),
        Act("list the names of all keys (SCAN)", ("SCAN", "0")),
        Act("list the names of all keys (KEYS)", ("KEYS", "*")),
        Act("watch all commands", ("MONITOR",)),
        Act("read the configuration", ("CONFIG", "GET", "*")),
        Act("change the configuration", ("CONFIG", "SET", "maxmemory", "1")),
        Act("see and change users", ("ACL", "LIST")),
        Act("end connections of others", ("CLIENT", "KILL", "TYPE", "normal")),
        Act("forget all scripts", ("SCRIPT", "FLUSH")),
        Act("load functions", ("FUNCTION", "FLUSH")),
        Act("save, copy, replicate", ("REPLICAOF", "NO", "ONE")),
        Act("dump a key", ("DUMP", log)),
        Act("empty the database", ("FLUSHALL",)),
        Act("shut the server down", ("SHUTDOWN",)),
        Act("debug", ("DEBUG", "SLEEP", "0")),
    ]


def with_password(text: str) -> str:
    """The file with the hash of ``PASSWORD`` in the place of every other."""
    return re.sub(r"#[A-Z]+_SHA256", f"#{sha256(PASSWORD.encode()).hexdigest()}", text)


def users(namespace: str = "todo", prefix: str = "") -> dict[str, list[str]]:
    """The rules of each user of the file, for another namespace; every password is ``PASSWORD``."""
    text = with_password(FILE.read_text().replace("todo:", f"{namespace}:"))
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        _, name, rules = line.split(" ", 2)
        found[prefix + name.removeprefix("todo-")] = re.findall(r"\(.*?\)|\S+", rules)
    return found


def allowed(redis: Any, user: str, act: Act) -> bool:
    """Whether the server would let the user do it."""
    answer = redis.execute_command("ACL", "DRYRUN", user, *act.command)
    return answer in (b"OK", "OK", True)


def table(redis: Any, namespace: str = "todo", prefix: str = "") -> str:
    """The table as Markdown: a line for each act, a column for each role."""
    rows = [f"| | {' | '.join(ROLES)} |", f"|---|{'---|' * len(ROLES)}"]
    for act in acts(namespace):
        cells = ["yes" if allowed(redis, prefix + role, act) else "no" for role in ROLES]
        rows.append(f"| {act.words} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def create(redis: Any, namespace: str, prefix: str) -> None:
    """Make the users of the roles."""
    made = users(namespace, prefix)
    for role in ROLES:
        redis.execute_command("ACL", "SETUSER", prefix + role, *made[prefix + role])


def main() -> None:
    from fleet import Fleet  # noqa: PLC0415  Docker's libraries are for who runs this only

    fleet = Fleet.discover()
    with fleet.get(fleet.embedded).connect() as redis:
        create(redis, "todo", "")
        sys.stdout.write(table(redis))
    fleet.stop()


if __name__ == "__main__":
    main()
