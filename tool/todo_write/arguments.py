"""Arguments of a call as text from outside: what a model sends is JSON most of the time."""

import json
from typing import Any, NoReturn


def read_arguments(text: str) -> Any:
    """The arguments a text holds, ``{}`` for an empty one; text that is not JSON is passed on as a string.

    The check of the call tells the model what was wrong with it. Lone surrogates pass here, and are refused there.
    """
    if not text.strip():
        return {}
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
