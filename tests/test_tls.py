"""TLS to the store: with certificates made here, to a real server that asks for the client's as well."""

import datetime as dt
import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import redis
import trustme
from testcontainers.core.container import DockerContainer

from command import Command, Done
from fleet import Fleet
from servers import OWNER_LABEL
from todo_projection.embedded import free_port
from todo_projection.settings import Settings
from todo_write.log import InvalidSetting, StoreSettings

CALL = ("call", "s1", "--parallel")
PLAN = '{"todos": []}'


class Secure(NamedTuple):
    """A server over TLS, the folder of its certificates, and who signs them."""

    port: int
    folder: Path
    authority: trustme.CA

    async def call(self, files: dict[str, Path], host: str = "localhost") -> Done:
        named = {f"TODO_REDIS_{name.upper()}_FILE": str(path) for name, path in files.items()}
        url = f"rediss://{host}:{self.port}/0"
        command = Command("todo-write", TODO_REDIS_URL=url, TODO_APPEND_BUDGET_MS="3000", **named)
        return await command(*CALL, input=PLAN)


@pytest.fixture(scope="module")
def secure(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    if not fleet.images:
        pytest.skip("the embedded server has no TLS, and no Docker engine answers")
    folder, authority = tmp_path_factory.mktemp("tls"), trustme.CA()
    folder.chmod(0o755)
    _write(folder, "server", authority.issue_cert("localhost"))
    _write(folder, "client", authority.issue_cert("agent@example.org"))
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    with _started(fleet.images[0], folder) as port:
        with redis.Redis(
            port=port,
            ssl=True,
            ssl_ca_certs=str(folder / "ca.pem"),
            ssl_certfile=str(folder / "client.pem"),
        ) as client:
            _wait(client)
        yield Secure(port, folder, authority)


async def test_a_server_of_the_named_authority_is_reached_with_the_client_s_certificate(secure: Secure) -> None:
    files = {"ca": secure.folder / "ca.pem", "cert": secure.folder / "client.pem"}
    done = await secure.call(files)
    assert (done.code, done.err) == (0, "")
    status = Command(
        "todo-projection",
        TODO_REDIS_URL=f"rediss://localhost:{secure.port}/0?ssl_ca_certs={files['ca']}&ssl_certfile={files['cert']}",
    )
    assert (await status("status", "--json")).code == 0


async def test_another_authority_another_name_and_no_certificate_are_refused_and_named(secure: Secure) -> None:
    folder = secure.folder
    trustme.CA().cert_pem.write_to_path(str(folder / "other.pem"))
    good = {"ca": folder / "ca.pem", "cert": folder / "client.pem"}
    for done, why in (
        (await secure.call({**good, "ca": folder / "other.pem"}), "CERTIFICATE_VERIFY_FAILED"),
        (await secure.call({"cert": good["cert"]}), "CERTIFICATE_VERIFY_FAILED"),
        (await secure.call(good, "127.0.0.1"), "IP address mismatch"),
        (
            await secure.call({"ca": good["ca"]}),
            "ertificate",
        ),  # "certificate required", or the connection is just closed
    ):
        assert (done.code, done.out.startswith("Error: todo list")) == (2, True), done
        assert why in done.out or (why == "ertificate" and "localhost" in done.out), done.out


async def test_an_expired_certificate_is_refused_and_named(fleet: Fleet, secure: Secure, tmp_path: Path) -> None:
    past = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    folder = tmp_path / "tls"
    shutil.copytree(secure.folder, folder)
    folder.chmod(0o755)
    _write(folder, "server", secure.authority.issue_cert("localhost", not_after=past))
    with _started(fleet.images[0], folder) as port:
        expired = secure._replace(port=port)
        done = await expired.call({"ca": folder / "ca.pem", "cert": folder / "client.pem"})
    assert (done.code, "certificate has expired" in done.out) == (2, True), done.out


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"TODO_REDIS_URL": "redis://h/0", "TODO_REDIS_CA_FILE": __file__}, "does not begin with rediss"),
        ({"TODO_REDIS_URL": "rediss://h/0", "TODO_REDIS_CA_FILE": "/nowhere.pem"}, "No such file"),
        ({"TODO_REDIS_URL": "rediss://h/0", "TODO_REDIS_KEY_FILE": __file__}, "TODO_REDIS_CERT_FILE is missing"),
    ],
)
@pytest.mark.parametrize("side", [StoreSettings, Settings])
def test_files_that_don_t_fit_are_named(side: type[StoreSettings], variables: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidSetting, match=why) as raised:
        side.from_env(variables)
    assert next(name for name in variables if name != "TODO_REDIS_URL") in str(raised.value)


def _write(folder: Path, name: str, made: trustme.LeafCert) -> None:
    path = folder / f"{name}.pem"
    path.write_bytes(made.private_key_and_cert_chain_pem.bytes())
    path.chmod(0o644)  # read in the container by another user


class _started:  # noqa: N801  reads as what it does
    """A server in a container that speaks TLS only; its port while the block runs."""

    def __init__(self, image: str, folder: Path) -> None:
        self._port = free_port()
        program = "valkey-server" if image.startswith("valkey") else "redis-server"
        files = [
            "--tls-ca-cert-file",
            "/tls/ca.pem",
            "--tls-cert-file",
            "/tls/server.pem",
            "--tls-key-file",
            "/tls/server.pem",
        ]
        self._container = (
            DockerContainer(image)
            .with_command(
                [program, "--port", "0", "--tls-port", "6379", "--protected-mode", "no", *files, "--save", ""]
            )
            .with_bind_ports(6379, self._port)
            .with_volume_mapping(str(folder), "/tls", "ro")
            .with_kwargs(labels={OWNER_LABEL: f"{socket.gethostname()}/{os.getpid()}"})
        )

    def __enter__(self) -> int:
        self._container.start()
        return self._port

    def __exit__(self, *_: object) -> None:
        self._container.stop()


def _wait(client: redis.Redis) -> None:
    until = time.monotonic() + 20
    while True:
        try:
            client.ping()
        except redis.ConnectionError:
            assert time.monotonic() < until, "no answer over TLS"
            time.sleep(0.05)
        else:
            return
