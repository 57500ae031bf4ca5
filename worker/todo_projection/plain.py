"""Text of sessions made fit for a terminal: it moves no cursor, turns no reading direction, and is not too wide."""

import re

from rich.cells import cell_len, set_cell_size

CODE_POINTS_PER_CELL_MAX = 8  # an emoji of a family has that many; a heap of accents on one letter has more

_SPACE = "\t\n\v\f\r\u0085\u2028\u2029"
_INVISIBLE = (
    *range(0x80, 0xA0),  # C1 controls
    0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A),  # marks that turn the reading direction
    0x200B, 0x2060, 0xFEFF, *range(0xFFF9, 0xFFFC),  # spaces without width, annotations
    *range(0xD800, 0xE000),  # halves of pairs: not to be written as UTF-8
)  # fmt: skip
_SHOWN = (
    dict.fromkeys(_INVISIBLE, "\N{REPLACEMENT CHARACTER}")
    | {code: chr(0x2400 + code) for code in range(0x20)}
    | {0x7F: "\N{SYMBOL FOR DELETE}"}
    | dict.fromkeys(map(ord, _SPACE), " ")
)
_ESCAPED = re.compile(f"[\x7f\u2028\u2029{''.join(map(chr, _INVISIBLE))}]")


def plain(text: str) -> str:
    """The text with white space as spaces and with a visible sign in the place of each control or bidi character."""
    return text.translate(_SHOWN)


def cut(text: str, cells: int) -> str:
    """The text made plain, at most ``cells`` columns wide, an ellipsis in the place of what is cut off."""
    shown = plain(text[: cells * CODE_POINTS_PER_CELL_MAX])
    if cell_len(shown) <= cells and len(text) <= cells * CODE_POINTS_PER_CELL_MAX:
        return shown
    return set_cell_size(shown, max(cells - 1, 0)).rstrip() + "…" if cells > 0 else ""


def escaped(json: str) -> str:
    r"""JSON text with the same characters as ``\uXXXX``: the same JSON, harmless on a terminal."""
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", json)
