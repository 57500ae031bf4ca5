"""Addresses to listen on, as flags give them."""

from todo_write.settings import InvalidSetting

PORT_MAX = 65535
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def read_address(text: str, flag: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``:PORT`` or ``PORT``; raises InvalidSetting naming the flag."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise InvalidSetting(f"{flag} is {text!r}; allowed: HOST:PORT or PORT, a port from 0 (any) to {PORT_MAX}")
    return host.removeprefix("[").removesuffix("]") or LOOPBACK[0], int(port)
