"""Signatures of commits: what a worker writes is read again, and what older ones wrote."""

import pytest

from todo_projection.beats import worker_name
from todo_projection.signature import read_signature, sign


@pytest.mark.parametrize("now_ms", [1000, 1_764_517_003_120, 2_176_782_336_000])
def test_what_is_signed_is_read_to_the_second(now_ms: int) -> None:
    name = worker_name()
    assert read_signature(sign(now_ms, name)) == (now_ms // 1000 * 1000, name[-4:])


def test_it_takes_ten_bytes() -> None:
    assert sign(1_764_517_003_120, "todo-worker-7d9f8c6b5-x2x4z-1-VIEKnoM4") == "t6jq17noM4"


def test_what_older_workers_wrote_is_read() -> None:
    assert read_signature("1796099775441 vm-3203-VIEKnoM4") == (1796099775441, "vm-3203-VIEKnoM4")


@pytest.mark.parametrize("by", ["", "noM4", "-1noM4", "\uff11noM4", "x vm-1-VIEKnoM4", "1 ", "t6 k3p7noM4"])
def test_what_is_no_signature_is_none(by: str) -> None:
    assert read_signature(by) is None
