"""Waiting for conditions."""

import asyncio
from collections.abc import Iterator

import pytest

from eventually import eventually


async def test_the_first_truthy_value_is_returned_sync_or_async() -> None:
    values = iter([0, "", "found", "later"])

    async def answer() -> str:
        return "found, later"

    assert await eventually(lambda: next(values)) == "found"
    assert await eventually(answer) == "found, later"


async def test_a_failed_assert_counts_as_not_yet() -> None:
    values: Iterator[int] = iter([1, 2, 3])

    def three() -> bool:
        assert next(values) == 3
        return True

    assert await eventually(three)


async def test_a_time_out_says_what_the_last_value_was() -> None:
    with pytest.raises(AssertionError, match=r"no rows; after 0\.05 s the last value was \[\]"):
        await eventually(list[int], within=0.05, message="no rows")


async def test_a_predicate_that_hangs_fails_in_time_too() -> None:
    with pytest.raises(AssertionError, match="the last value was None"):
        await asyncio.wait_for(eventually(asyncio.Event().wait, within=0.05), timeout=5)


async def test_any_other_error_fails_at_once() -> None:
    def broken() -> bool:
        raise TimeoutError("not ours")

    with pytest.raises(TimeoutError, match="not ours"):
        await eventually(broken)
