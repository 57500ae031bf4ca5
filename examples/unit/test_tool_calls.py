"""Its tests: the laws every unit must keep, and the value readers get."""

import pytest
from hypothesis import strategies as st
from tool_calls import tool_calls

from todo_projection.testing.kit import Kit
from todo_projection.testing.laws import check_unit_laws

CALLS = st.tuples(st.just("tool/call"), st.fixed_dictionaries({"name": st.text()}))


def test_it_keeps_the_laws() -> None:
    check_unit_laws(tool_calls, CALLS)


@pytest.mark.asyncio
async def test_it_counts(todo_kit: Kit) -> None:
    calls = [("tool/call", {"name": name}) for name in ("grep", "edit", "grep")]
    *_, last = await todo_kit.log("s1").append_all(calls)
    shown = await todo_kit.wait_for("s1", last)
    assert shown["values"]["tool_calls"] == {"grep": 2, "edit": 1}
