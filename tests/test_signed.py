"""Signed tokens: which count, and which only look as if they did."""

import hmac
import json
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from granting import bearer
from serving import serving
from sse import of
from todo_projection.settings import Settings
from todo_projection.token_list import InvalidTokens
from todo_projection.tokens import Tokens

SECRET = b"0123456789abcdef" * 4
PRIVATE = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PUBLIC = PRIVATE.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
SHOWS = {"prefixes": ["team-a/"], "board": True}


def claims(**other: Any) -> dict[str, Any]:
    now = int(time.time())
    told = {"sub": "alice", "aud": "todo-projection", "iss": "sso", "exp": now + 600, "iat": now, "todo": SHOWS}
    return {name: value for name, value in {**told, **other}.items() if value is not None}


def tokens(folder: Path, key: bytes, **settings: Any) -> Tokens:
    path = folder / "key"
    path.write_bytes(key)
    return Tokens(Settings(gateway_jwt_key_file=path, gateway_jwt_issuer="sso", **settings))


@pytest.mark.parametrize(("key", "algorithm", "stored"), [(SECRET, "HS256", SECRET), (PRIVATE, "RS256", PUBLIC)])
def test_a_token_signed_by_the_key_allows_what_it_claims(
    tmp_path: Path, key: Any, algorithm: str, stored: bytes
) -> None:
    grant = tokens(tmp_path, stored).grant(jwt.encode(claims(), key, algorithm=algorithm))
    assert grant is not None
    assert (grant.name, grant.board, grant.events, grant.scope.all) == ("jwt:alice", True, False, False)
    assert (grant.scope.holds("team-a/1"), grant.scope.holds("team-b/1")) == (True, False)


def raw(header: object, payload: object, signature: bytes = b"") -> str:
    parts = (json.dumps(header).encode(), json.dumps(payload).encode(), signature)
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def hs256_by_public_key() -> str:
    """Signed with the public key, which everybody has, as a secret: what the library itself refuses to do."""
    signed = raw({"alg": "HS256", "typ": "JWT"}, claims()).rstrip(".")
    return f"{signed}.{urlsafe_b64encode(hmac.digest(PUBLIC.strip(), signed.encode(), 'sha256')).rstrip(b'=').decode()}"


PAST, FUTURE = int(time.time()) - 60, int(time.time()) + 3600
BAD = {
    "no algorithm": raw({"alg": "none", "typ": "JWT"}, claims()),
    "no algorithm, other spelling": raw({"alg": "nOnE"}, claims()),
    "no algorithm, a signature": raw({"alg": "none"}, claims(), b"x"),
    "the public key as a secret": hs256_by_public_key(),
    "another secret": jwt.encode(claims(), b"x" * 32, algorithm="HS256"),
    "another key": jwt.encode(claims(), rsa.generate_private_key(65537, 2048), algorithm="RS256"),
    "another algorithm of the same key": jwt.encode(claims(), PRIVATE, algorithm="RS512"),
    "another audience": jwt.encode(claims(aud="mail"), PRIVATE, algorithm="RS256"),
    "no audience": jwt.encode(claims(aud=None), PRIVATE, algorithm="RS256"),
    "another issuer": jwt.encode(claims(iss="me"), PRIVATE, algorithm="RS256"),
    "not yet": jwt.encode(claims(nbf=FUTURE), PRIVATE, algorithm="RS256"),
    "issued later": jwt.encode(claims(iat=FUTURE), PRIVATE, algorithm="RS256"),
    "no more": jwt.encode(claims(exp=PAST), PRIVATE, algorithm="RS256"),
    "for ever": jwt.encode(claims(exp=None), PRIVATE, algorithm="RS256"),
    "nobody's": jwt.encode(claims(sub=None), PRIVATE, algorithm="RS256"),
    "without the claim": jwt.encode(claims(todo=None), PRIVATE, algorithm="RS256"),
    "an unknown claim": jwt.encode(claims(todo={"al": True}), PRIVATE, algorithm="RS256"),
    "a claim of another type": jwt.encode(claims(todo={"all": "yes"}), PRIVATE, algorithm="RS256"),
    "an empty prefix": jwt.encode(claims(todo={"prefixes": [""]}), PRIVATE, algorithm="RS256"),
    "a time beyond all": jwt.encode(claims(exp=10**400), PRIVATE, algorithm="RS256"),
    "a name too long": jwt.encode(claims(sub="x" * 5000), PRIVATE, algorithm="RS256"),
    "the key in its header": jwt.encode(
        claims(), SECRET, algorithm="HS256", headers={"jwk": {"kty": "oct", "k": "eA"}}
    ),
    "cut off": jwt.encode(claims(), PRIVATE, algorithm="RS256")[:-8],
    "no token": "a.b.c",
    "nothing": "",
    "deep": raw({"alg": "RS256"}, None).replace(".", "." + "W1tb" * 900, 1),
}


@pytest.mark.parametrize("name", BAD)
def test_a_token_that_only_looks_right_allows_nothing(tmp_path: Path, name: str) -> None:
    assert tokens(tmp_path, PUBLIC).grant(BAD[name]) is None


def test_a_secret_is_no_key_for_tokens_of_another_algorithm(tmp_path: Path) -> None:
    known = tokens(tmp_path, SECRET)
    for algorithm in ("HS384", "HS512"):
        assert known.grant(jwt.encode(claims(), SECRET, algorithm=algorithm)) is None
    assert known.grant(jwt.encode(claims(), PRIVATE, algorithm="RS256")) is None


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (b"short", "5 bytes long"),
        (b"-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----\n", "no RSA public key"),
        (
            PRIVATE.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
            "a private one",
        ),
    ],
)
def test_a_key_that_can_t_be_one_is_refused_at_the_start(tmp_path: Path, key: bytes, why: str) -> None:
    with pytest.raises(InvalidTokens, match=why):
        tokens(tmp_path, key)


async def test_a_signed_token_that_expires_ends_its_open_stream(redis_url: str, namespace: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(SECRET)
    async with serving(redis_url, namespace, gateway_jwt_key_file=str(tmp_path / "key")) as http:
        token = jwt.encode(claims(exp=int(time.time()) + 3), SECRET, algorithm="HS256")
        async with http.stream(of("team-a/1"), bearer(token)) as stream:
            await stream.got("snapshot")
            assert (await stream.got("bye")).data["reason"] == "expired"
        assert (await http.get("/api/sessions", bearer(token))).status == 401
