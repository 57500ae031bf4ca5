"""The tokens a gateway knows: a list, signed ones, or both; read anew when their files change."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from todo_projection.grant import ANYBODY, Grant
from todo_projection.settings import Settings
from todo_projection.signed import Signed
from todo_projection.token_list import InvalidTokens, digest, read_list

TOKEN_BYTES_MAX = 4096

Stamp = tuple[tuple[int, int, int] | None, ...]

logger = logging.getLogger(__name__)


class Tokens:
    """Says what a token allows. Raises InvalidTokens when made of files that can't be used."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._list: dict[str, Grant] = {}
        self._signed: Signed | None = None
        self._stamp = self._look()
        self._read()

    @property
    def required(self) -> bool:
        """Whether a request needs a token; without any configured everybody may see everything."""
        return self._settings.has_login

    def grant(self, token: str | None) -> Grant | None:
        """What a token allows at this moment; None for one that is unknown, expired or none at all."""
        if not self.required:
            return ANYBODY
        if token is None or len(token) > TOKEN_BYTES_MAX:
            return None
        found = self._list.get(digest(token))
        if found is None and self._signed is not None:
            found = self._signed.grant(token)
        if found is None or (found.expires_at is not None and found.expires_at <= self._clock()):
            return None
        return found

    def reload(self, *, asked: bool = False) -> bool:
        """Read the files anew if they have changed, or when ``asked``; whether anything was read.

        Files that can't be used leave what is known as it is, and that is told: half a file must lock nobody out.
        """
        stamp = self._look()
        if stamp == self._stamp and not asked:
            return False
        self._stamp = stamp
        try:
            self._read()
        except InvalidTokens as error:
            logger.error("%s; the tokens read before go on", error)  # noqa: TRY400  the message says it all
            return False
        logger.info("tokens read anew: %d in the list", len(self._list))
        return True

    def _read(self) -> None:
        settings = self._settings
        listed = read_list(settings.gateway_tokens_file) if settings.gateway_tokens_file else {}
        signed = None
        if settings.gateway_jwt_key_file:
            audience, issuer = settings.gateway_jwt_audience, settings.gateway_jwt_issuer
            signed = Signed(settings.gateway_jwt_key_file, audience=audience, issuer=issuer)
        self._list, self._signed = listed, signed

    def _look(self) -> Stamp:
        return tuple(
            _stamp_of(path) if path else None
            for path in (self._settings.gateway_tokens_file, self._settings.gateway_jwt_key_file)
        )


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
