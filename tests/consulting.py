"""What tests of the doctor share: asking it, and doing what it says, word by word."""

import shlex
from collections.abc import Mapping
from typing import Any

from redis.asyncio import Redis

from todo_projection.diagnosis import Ailment
from todo_projection.examination import examine
from todo_projection.facts import Role
from todo_projection.settings import Settings

# What hardly any server of a test is: each is a finding of its own.
SOUND = (
    *("--appendonly", "yes", "--maxmemory", "256mb", "--stream-node-max-bytes", "512"),
    *("--client-output-buffer-limit", "pubsub 33554432 8388608 60", "--hash-max-listpack-value", "4096"),
)


class Patient:
    """A server and a namespace in it, as the doctor is asked about them."""

    def __init__(self, redis_url: str, namespace: str, redis: Redis) -> None:
        self.redis: Any = redis
        self.namespace = namespace
        self.environment = {"TODO_REDIS_URL": redis_url, "TODO_NAMESPACE": namespace}

    async def findings(self, *, user: str | None = None, role: Role | None = None) -> dict[str, Ailment]:
        """What is found, by name."""
        diagnosis = await examine(Settings.from_env(self.environment), user=user, role=role)
        return {one.name: one for one in diagnosis.findings}

    async def severities(self) -> Mapping[str, str]:
        """How bad each is."""
        return {name: one.severity for name, one in (await self.findings()).items()}

    async def mend(self, finding: Ailment) -> None:
        """Do the first thing it says."""
        words = shlex.split(finding.mend[0])
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            self.environment[name] = value
        elif words[0] == "unset":
            del self.environment[words[1]]
        else:
            await self.redis.execute_command(*words)
