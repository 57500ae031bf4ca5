"""Who committed a row, and when, in ten bytes: there is one in every row. Pure."""

from functools import lru_cache

NAME_END = 4  # characters of a worker's name: of its random end, so 16 million different ones
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def sign(now_ms: int, worker: str) -> str:
    """``<epoch s in base 36><end of the worker's name>``, of epoch ms and the name."""
    return _signed(now_ms // 1000, worker)


@lru_cache(maxsize=8)  # there is one a second, for thousands of commits
def _signed(seconds: int, worker: str) -> str:
    digits = ""
    while seconds:
        seconds, digit = divmod(seconds, 36)
        digits = _DIGITS[digit] + digits
    return digits + worker[-NAME_END:]


def read_signature(signature: str) -> tuple[int, str] | None:
    """Time in epoch ms, of whole seconds, and the end of the worker's name; None for what is no signature.

    Older workers wrote ``<epoch ms> <name>``: of these both are whole.
    """
    time, space, worker = signature.partition(" ")
    if space:
        return (int(time), worker) if time.isdecimal() and worker else None
    time, end = signature[:-NAME_END], signature[-NAME_END:]
    return (int(time, 36) * 1000, end) if time.isascii() and time.isalnum() else None
