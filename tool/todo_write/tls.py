"""TLS to the store: files of certificates as part of its URL, which is what every connection is made of."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

OPTIONS = {"redis_ca_file": "ssl_ca_certs", "redis_cert_file": "ssl_certfile", "redis_key_file": "ssl_keyfile"}


class Unfit(ValueError):
    """The files don't fit; ``setting`` is the one to be mended. Nobody retries."""

    def __init__(self, setting: str, why: str) -> None:
        super().__init__(why)
        self.setting = setting


def secured(url: str, files: Mapping[str, Path]) -> str:
    """The URL with these files, by the setting that names each; raises Unfit.

    The name of the server is checked, and its certificate by the authority given, or those of the system.
    """
    for setting, path in files.items():
        if urlsplit(url).scheme.partition("+")[0] != "rediss":
            raise Unfit(setting, "it is for TLS, and TODO_REDIS_URL does not begin with rediss://")
        try:
            path.open("rb").close()
        except OSError as error:
            raise Unfit(setting, f"it can't be read: {error.strerror}") from None
    if "redis_key_file" in files and "redis_cert_file" not in files:
        raise Unfit("redis_key_file", "a key without its certificate: TODO_REDIS_CERT_FILE is missing")
    told = "&".join(f"{OPTIONS[setting]}={quote(str(path))}" for setting, path in files.items())
    return f"{url}{'&' if urlsplit(url).query else '?'}{told}" if told else url
