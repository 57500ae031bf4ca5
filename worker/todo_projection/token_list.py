"""The list of tokens: a file with a line of JSON for each, which holds the token's hash and never the token."""

import secrets
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from todo_projection.grant import Claims, Grant, Name
from todo_projection.settings import InvalidSetting

TOKEN_BYTES = 32  # random: nothing to be guessed, so one round of a hash keeps it


class Line(Claims, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One token: whose it is, the SHA-256 of it in hex, and until when it counts (epoch s, or never)."""

    name: Name
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    expires: float | None = None


class InvalidTokens(InvalidSetting):
    """The tokens can't be read; the message says where and why. An operator mends the file; nobody retries."""


def new_token() -> str:
    """A token nobody can guess."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def digest(token: str) -> str:
    """What is kept of a token."""
    return sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_list(path: Path) -> dict[str, Grant]:
    """The grants of a file, by the hash of their token; raises InvalidTokens."""
    grants: dict[str, Grant] = {}
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidTokens(f"tokens in {path}: {error.strerror}") from error
    for number, raw in enumerate(text.splitlines(), 1):
        if not raw.strip() or raw.lstrip().startswith(b"#"):
            continue
        try:
            line = msgspec.json.decode(raw, type=Line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidTokens(f"tokens in {path}, line {number}: {error}; see todo-projection token --help") from None
        if line.sha256 in grants:
            raise InvalidTokens(f"tokens in {path}, line {number}: an earlier line has the same token")
        grants[line.sha256] = line.grant(line.name, line.expires)
    return grants


def append_line(path: Path, line: Line) -> None:
    """Add a token to a file, which is made, readable by its owner only, when it is not there; raises OSError."""
    path.touch(mode=0o600)
    text = path.read_bytes()
    with path.open("ab") as file:
        file.write((b"" if not text or text.endswith(b"\n") else b"\n") + msgspec.json.encode(line) + b"\n")
