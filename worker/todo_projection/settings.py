"""Settings of the operator's side: those of the store, and how a worker works."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field

from todo_write.log import InvalidSetting, StoreSettings, mask, variable

__all__ = ["InvalidSetting", "Settings", "mask", "variable"]

LogLevel = Literal["debug", "info", "warning", "error"]


def _check_prefix(prefix: str) -> str:
    if prefix.split("/")[1:2] in (["api"], ["livez"], ["readyz"], ["metrics"], ["page"]):
        raise ValueError("a path of the gateway's own begins like this")
    return prefix


class Settings(StoreSettings):
    """Everything that can be set for the worker and the carriers, with its default."""

    batch_max: Annotated[int, Field(ge=1, le=10_000, description="pointers read from a feed at once, 1 to 10000")] = 128
    block_ms: Annotated[int, Field(ge=1, le=1000, description="longest wait of one read, 1 to 1000 ms")] = 1000
    beat_ms: Annotated[int, Field(ge=100, le=60_000, description="time between two beats, 100 to 60000 ms")] = 1000
    claim_idle_ms: Annotated[
        int, Field(ge=100, le=3_600_000, description="when another's pointers are taken over, 100 to 3600000 ms")
    ] = 10_000
    newer_gone_ms: Annotated[
        int, Field(ge=100, description="when a silent newer worker counts as gone, 100 ms or more")
    ] = 60_000
    audit_rate: Annotated[
        int, Field(ge=0, le=10_000, description="keys the audit looks at a second, 0 to 10000; 0 is off")
    ] = 100
    stuck_ms: Annotated[int, Field(ge=1, description="in progress for longer is stuck, 1 ms or more")] = 900_000
    quiet_ms: Annotated[int, Field(ge=1, description="no event for longer is quiet, 1 ms or more")] = 600_000
    log_level: Annotated[
        LogLevel, Field(title="the least that is said", description="debug, info, warning or error")
    ] = "info"
    grace_ms: Annotated[int, Field(ge=0, le=600_000, description="time to end after SIGTERM, 0 to 600000 ms")] = 10_000
    metrics_host: Annotated[
        str,
        Field(title="where a worker tells how it is", min_length=1, description="an address of this machine"),
    ] = "127.0.0.1"
    metrics_port: Annotated[
        int,
        Field(
            title="and on which port: /metrics, /livez and /readyz; not at all where this is 0",
            ge=0,
            le=65_535,
            description="a port, 0 to 65535",
        ),
    ] = 0
    gateway_host: Annotated[
        str, Field(title="where the gateway listens", min_length=1, description="an address of this machine")
    ] = "127.0.0.1"
    gateway_port: Annotated[
        int, Field(title="and on which port", ge=0, le=65_535, description="a port, 0 to 65535; 0 takes a free one")
    ] = 8421
    gateway_prefix: Annotated[
        str,
        AfterValidator(_check_prefix),
        Field(
            title="the path under which a proxy serves the gateway",
            pattern=r"^(/[A-Za-z0-9._~-]+)*$",
            description="a path such as /plans, no slash at its end; not /api, /livez, /readyz, /metrics or /page",
        ),
    ] = ""
    gateway_open: Annotated[
        bool, Field(description="true lets whoever reaches the address see everything, without a login; else false")
    ] = False
    gateway_tokens_file: Annotated[
        Path | None, Field(description="a file with a line for each token, as todo-projection token adds it")
    ] = None
    gateway_jwt_key_file: Annotated[
        Path | None,
        Field(
            description="a file with the key of signed tokens: an RSA public key (PEM), or a secret of 32 bytes or more"
        ),
    ] = None
    gateway_jwt_audience: Annotated[str, Field(min_length=1, description="the audience of signed tokens")] = (
        "todo-projection"
    )
    gateway_jwt_issuer: Annotated[str | None, Field(description="the issuer of signed tokens, if it matters")] = None
    gateway_origins: Annotated[
        str,
        Field(
            pattern=r"^(https?://[^/,\s]+(,https?://[^/,\s]+)*)?$",
            description="origins whose pages may ask too, as https://plans.example, separated by commas",
        ),
    ] = ""
    heartbeat_ms: Annotated[
        int, Field(ge=100, le=60_000, description="time between two heartbeats of a stream, 100 to 60000 ms")
    ] = 15_000
    stream_life_ms: Annotated[
        int, Field(ge=1000, description="how long a stream lives before its client connects anew, 1000 ms or more")
    ] = 3_600_000
    stream_sessions_max: Annotated[int, Field(ge=1, le=200, description="sessions in one stream, 1 to 200")] = 200
    streams_max: Annotated[int, Field(ge=1, description="streams of one gateway, 1 or more")] = 10_000
    token_streams_max: Annotated[int, Field(ge=1, description="streams of one token at once, 1 or more")] = 100
    token_sessions_max: Annotated[int, Field(ge=1, description="sessions in all streams of one token, 1 or more")] = (
        2000
    )
    request_rate_max: Annotated[
        int,
        Field(
            ge=0,
            le=1_000_000,
            description="requests a second of one token, or of one address without a token, ten times as many at once; "
            "0 to 1000000, 0 is no limit",
        ),
    ] = 200
    head_timeout_ms: Annotated[
        int, Field(ge=100, le=600_000, description="how long the head of a request may take, 100 to 600000 ms")
    ] = 10_000
    send_timeout_ms: Annotated[
        int, Field(ge=100, le=600_000, description="when a client that does not read is cut off, 100 to 600000 ms")
    ] = 10_000

    @property
    def has_login(self) -> bool:
        """Whether the gateway asks for a token."""
        return self.gateway_tokens_file is not None or self.gateway_jwt_key_file is not None

    @property
    def origins(self) -> tuple[str, ...]:
        """``gateway_origins``, one by one."""
        return tuple(origin for origin in self.gateway_origins.split(",") if origin)

    @classmethod
    def from_env(cls, environ: Mapping[str, str], **flags: object) -> Self:
        """As of the store; PORT, by which platforms say where to listen, counts where TODO_GATEWAY_PORT is missing."""
        port, given = environ.get("PORT"), variable("gateway_port")
        if not port or environ.get(given):
            return super().from_env(environ, **flags)
        try:
            return super().from_env({**environ, given: port}, **flags)
        except InvalidSetting as error:
            raise InvalidSetting(str(error).replace(given, "PORT")) from None
