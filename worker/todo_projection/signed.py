"""Signed tokens (JWT) of somebody else's log-in: one key, one algorithm; the claim ``todo`` says what is allowed."""

from pathlib import Path
from typing import Any

import msgspec

from todo_projection.grant import Claims, Grant
from todo_projection.token_list import InvalidTokens

PEM = b"-----BEGIN"
SECRET_BYTES_MIN = 32
CLAIM = "todo"


class Signed:
    """Tokens signed by one key. The key says the algorithm, never the token: a public key (PEM) RS256, else HS256.

    Needs pyjwt (extra ``jwt``). Raises InvalidTokens for a key that can't be used.
    """

    def __init__(self, path: Path, *, audience: str, issuer: str | None) -> None:
        self._audience = audience
        self._issuer = issuer
        self._key, self._algorithm = _read_key(path)

    def grant(self, token: str) -> Grant | None:
        """What the token allows; None unless its signature, audience, issuer and times are right."""
        import jwt  # noqa: PLC0415  an extra: a list of tokens needs it not

        try:
            told: dict[str, Any] = jwt.decode(
                token,
                self._key,
                algorithms=[self._algorithm],
                audience=self._audience,
                issuer=self._issuer,
                options={"require": ["exp", "sub", "aud"]},
            )
            claims = msgspec.convert(told.get(CLAIM), Claims)
            expires_at = float(told["exp"])
        except (jwt.PyJWTError, msgspec.ValidationError, ValueError, TypeError, OverflowError, RecursionError):
            return None
        return claims.grant(f"jwt:{told['sub']}", expires_at)


def _read_key(path: Path) -> tuple[Any, str]:
    try:
        raw = path.read_bytes().strip()
    except OSError as error:
        raise InvalidTokens(f"the key in {path}: {error.strerror}") from error
    try:
        from jwt import PyJWTError  # noqa: PLC0415  an extra
        from jwt.algorithms import RSAAlgorithm  # noqa: PLC0415  the same

        if raw.startswith(PEM):
            try:
                key = RSAAlgorithm(RSAAlgorithm.SHA256).prepare_key(raw)
            except (PyJWTError, ValueError, TypeError) as error:
                raise InvalidTokens(f"the key in {path} is no RSA public key in PEM: {error}") from None
            if hasattr(key, "private_numbers"):
                raise InvalidTokens(f"the key in {path} is a private one; the gateway needs the public one only")
            return key, "RS256"
    except ModuleNotFoundError as missing:
        raise InvalidTokens(f"{missing.name} is not installed: pip install 'todo-projection[jwt]'") from None
    if len(raw) < SECRET_BYTES_MIN:
        raise InvalidTokens(f"the secret in {path} is {len(raw)} bytes long; at least {SECRET_BYTES_MIN} are needed")
    return raw, "HS256"
