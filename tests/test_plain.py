"""Text of sessions on a terminal: harmless, and no wider than its place."""

import json
import unicodedata

import pytest
from rich.cells import cell_len

from todo_projection.plain import cut, escaped, plain

HARMFUL = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))] + list(
    "\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
)


@pytest.mark.parametrize("sign", HARMFUL, ids=lambda sign: f"U+{ord(sign):04X}")
def test_a_control_or_bidi_character_is_shown_not_obeyed(sign: str) -> None:
    shown = plain(f"a{sign}b")
    assert sign not in shown
    assert len(shown) == 3
    assert unicodedata.category(shown[1]) in {"So", "Zs"}


def test_white_space_becomes_spaces() -> None:
    assert plain("a\n\tb\r") == "a  b "


def test_an_escape_sequence_stays_readable() -> None:
    assert plain("\x1b[31mred") == "␛[31mred"


@pytest.mark.parametrize("text", ["naïve", "計画を立てる", "مرحبا", "👨‍👩‍👧", "½ ✓"])
def test_any_other_text_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(
    "text", ["abcdefghij", "計画を立てるための計画", "👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀", "e" + "\u0301" * 20_000]
)
@pytest.mark.parametrize("cells", [1, 2, 5, 8])
def test_a_cut_text_is_never_wider_than_its_place(text: str, cells: int) -> None:
    shown = cut(text, cells)
    assert cell_len(shown) <= cells
    assert shown.endswith("…")
    assert len(shown) <= cells * 8 + 1


def test_a_text_that_fits_is_not_cut() -> None:
    assert cut("計画", 4) == "計画"
    assert cut("計画", 3) == "計…"
    assert cut("anything", 0) == ""


def test_json_stays_the_same_json() -> None:
    value = {"a\u202e": "x\u009b31m\u2028\x7f\x1b\n計"}
    raw = json.dumps(value, ensure_ascii=False)
    shown = escaped(raw)
    assert json.loads(shown) == value
    assert not set("\u202e\u009b\u2028\x7f\x1b") & set(shown)
    assert "計" in shown
