"""Settings of the agent's side: environment variables and flags, read once at the entry, checked before the start."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, TypeVar
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from redis.asyncio.connection import Connection, parse_url
from redis.exceptions import RedisError

from todo_write.events import EVENT_BYTES_MAX, PARTITIONS_MAX, TODO_WRITE_BYTES_MAX, check_session
from todo_write.location import locate
from todo_write.tls import OPTIONS, Unfit, secured

EVENT_BYTES_LIMIT = 8 * 1024 * 1024  # what a reader of a log may have to hold at once

_OPTION = re.compile(
    r"db|username|password|client_name|ssl_\w+"
)  # what else could be said would break our reading of replies
_Some = TypeVar("_Some", bound="StoreSettings")
_PASSWORD = re.compile(r"(//[^:@/]*:).*(?=@)|((?:^|[?&])\w*password=)[^&]*")


class InvalidSetting(ValueError):
    """A setting can't be used: the message names the variable, its value and what is allowed. Nobody retries."""


def mask(url: str) -> str:
    """The URL without its password, to be shown."""
    return _PASSWORD.sub(lambda found: f"{found[1] or found[2]}***", url)


def _check_url(url: str) -> str:
    location = locate(url)
    for address in location.addresses:
        for server in (location.at(address), location.sentinel(address)):
            _check_server(server)
    return url if location.addresses else _check_server(url)


def _check_server(url: str) -> str:
    scheme, _, rest = url.partition("://")
    given: dict[str, Any] = {**parse_url(url)}
    unknown = [name for name in parse_qs(urlsplit(url).query) if not _OPTION.fullmatch(name)]
    if unknown:
        raise ValueError(f"option {unknown[0]!r} is not one of db, username, password, client_name, ssl_…")
    database = rest.partition("?")[0].partition("/")[2]
    if scheme == "unix" and not given.get("path"):
        raise ValueError("the path of the socket is missing")
    if scheme != "unix" and not re.fullmatch(r"[0-9]*", database):
        raise ValueError(f"database {database!r} is not a number")
    try:
        given.pop("connection_class", Connection)(**given)
    except (TypeError, RedisError) as error:
        raise ValueError(f"an option does not fit: {error}") from None
    return url


class StoreSettings(BaseModel):
    """Where everything is kept: the settings that writers and readers share.

    ``description`` of a field says what is allowed, ``title`` what it is where the description leaves that open.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    redis_url: Annotated[
        str,
        AfterValidator(_check_url),
        Field(
            title="where everything is kept",
            description="redis://[user:password@]host:port/database, unix:///path, "
            "redis+sentinel://…@host:port,host:port/service/database or redis+cluster://…@host:port,host:port; "
            "rediss… over TLS",
            repr=False,
        ),
    ] = "redis://127.0.0.1:6379/0"
    namespace: Annotated[
        str,
        Field(
            title="the first part of every key",
            pattern=r"^[a-z0-9_-]{1,32}$",
            description="1-32 characters of a-z, 0-9, '_' and '-'",
        ),
    ] = "todo"
    partitions: Annotated[
        int | None,
        Field(
            title="how many parts a new namespace has, for life; 64 where nobody says",
            ge=1,
            le=PARTITIONS_MAX,
            description=f"a whole number from 1 to {PARTITIONS_MAX}",
        ),
    ] = None

    redis_ca_file: Annotated[
        Path | None,
        Field(title="who signs the server's certificate", description="a file of certificates (PEM), with rediss://"),
    ] = None
    redis_cert_file: Annotated[
        Path | None,
        Field(title="this client's certificate", description="a file with a certificate (PEM), with rediss://"),
    ] = None
    redis_key_file: Annotated[
        Path | None,
        Field(title="this client's key", description="a file with a key (PEM), if it is not with the certificate"),
    ] = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str], **flags: object) -> Self:
        """Settings of these variables, overruled by these flags; empty variables and None flags count as not given.

        Raises InvalidSetting with one line for each value that can't be used.
        """
        given: dict[str, object] = {}
        for name in cls.model_fields:
            if text := environ.get(variable(name)):
                given[name] = text
        given.update((name, value) for name, value in flags.items() if value is not None)
        try:
            return _secured(cls.model_validate(given))
        except ValidationError as error:
            raise InvalidSetting("\n".join(_explain(cls, found) for found in error.errors())) from None

    @classmethod
    def variables(cls) -> list["Variable"]:
        """Every setting, in the order in which they are declared."""
        return [
            Variable(variable(name), field.default, field.title or "", field.description or "")
            for name, field in cls.model_fields.items()
        ]


class Variable(NamedTuple):
    """A setting as an environment variable: its default, what it is, and what is allowed."""

    name: str
    default: str | int | bool | Path | None
    title: str
    allowed: str

    def lines(self) -> str:
        """Lines of an ``.env`` file that say all of this and set nothing."""
        text = f"{self.title}; allowed: {self.allowed}" if self.title else self.allowed
        default = "" if self.default is None else self.default
        return f"# {text}\n#{self.name}={str(default).lower() if isinstance(default, bool) else default}\n"


class Settings(StoreSettings):
    """Everything that can be set on the agent's side, with its default."""

    allow_parallel_in_progress: Annotated[
        bool | None,
        Field(title="whether several todos may be in progress at once; no default", description="true or false"),
    ] = None
    session: Annotated[
        str | None,
        AfterValidator(lambda session: session if session is None else check_session(session)),
        Field(
            title="the session of a command that is given none",
            description="1-256 bytes of UTF-8 without control characters and braces",
        ),
    ] = None
    append_budget_ms: Annotated[
        int,
        Field(
            title="how long an append may take in all, tries included; a model waits for it",
            ge=1,
            le=600_000,
            description="a whole number of milliseconds from 1 to 600000",
        ),
    ] = 5000
    append_attempt_ms: Annotated[
        int,
        Field(
            title="how long one try of an append may take",
            ge=1,
            le=60_000,
            description="a whole number of milliseconds from 1 to 60000",
        ),
    ] = 1000
    todo_write_bytes_max: Annotated[
        int,
        Field(title="the longest list", ge=1024, le=EVENT_BYTES_LIMIT, description="1024 to 8388608 bytes of JSON"),
    ] = TODO_WRITE_BYTES_MAX
    event_bytes_max: Annotated[
        int,
        Field(
            title="the longest data of another event",
            ge=1024,
            le=EVENT_BYTES_LIMIT,
            description="1024 to 8388608 bytes of JSON",
        ),
    ] = EVENT_BYTES_MAX
    append_bytes_max: Annotated[
        int,
        Field(
            title="the most that one append of several events may hold",
            ge=1024,
            le=256 * 1024 * 1024,
            description="1024 to 268435456 bytes",
        ),
    ] = 64 * 1024 * 1024
    session_rate_max: Annotated[
        int,
        Field(
            title="events a second of one session, ten times as many at once",
            ge=0,
            le=1_000_000,
            description="0 to 1000000; 0 is no limit",
        ),
    ] = 1000
    process_rate_max: Annotated[
        int,
        Field(
            title="events a second of one process, ten times as many at once",
            ge=0,
            le=1_000_000,
            description="0 to 1000000; 0 is no limit",
        ),
    ] = 10_000


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"TODO_{name.upper()}"


def _secured(settings: _Some) -> _Some:
    """The same settings, their URL with the files for TLS; raises InvalidSetting."""
    given = {name: path for name in OPTIONS if (path := getattr(settings, name)) is not None}
    try:
        url = secured(settings.redis_url, given)
    except Unfit as error:
        allowed = type(settings).model_fields[error.setting].description
        shown = str(given[error.setting])
        raise InvalidSetting(f"{variable(error.setting)} is {shown!r} ({error}); allowed: {allowed}") from None
    if url == settings.redis_url:
        return settings  # as it was given, or not given: `up` starts a server of its own where it was not
    return settings.model_copy(update={"redis_url": url})


def _explain(cls: type[StoreSettings], found: ErrorDetails) -> str:
    name = str(found["loc"][0])
    if name not in cls.model_fields:
        raise TypeError(f"there is no setting {name!r}")
    value = found["input"]
    shown = mask(value) if isinstance(value, str) else value
    reason = f" ({found['msg'].removeprefix('Value error, ')})" if found["type"] == "value_error" else ""
    return f"{variable(name)} is {shown!r}{reason}; allowed: {cls.model_fields[name].description}"
