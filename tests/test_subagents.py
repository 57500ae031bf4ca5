"""Subagents: each has a session of its own, and only its row knows whose child it is."""

from typing import Any

from todo_projection.sessions import Query, read_sessions
from todo_projection.testing.kit import Kit
from todo_projection.wire import Wire
from todo_write.events import Position
from todo_write.log import SessionLog
from todo_write.tool import TodoWrite

PARENT, CHILD = "release", "release/review"


def plan(*contents: str) -> list[dict[str, str]]:
    return [{"content": content, "status": "in_progress"} for content in contents]


async def write(kit: Kit, session: str, *contents: str) -> Position:
    outcome = await TodoWrite(kit.client, allow_parallel_in_progress=True).run({"todos": plan(*contents)}, session)
    assert outcome.position is not None
    return outcome.position


async def start_child(kit: Kit, session: str = CHILD, parent: str = PARENT) -> SessionLog:
    log = kit.log(session)
    await log.append("session/start", {"parentSession": parent, "label": "review"})
    return log


async def boards(kit: Kit) -> dict[str, Any]:
    """What a list of sessions shows of each."""
    wire = Wire(kit.settings.redis_url)
    try:
        found = await read_sessions(wire, await kit.client.keys(), Query(stuck_ms=60_000, quiet_ms=60_000))
    finally:
        await wire.aclose()
    return {entry.session_id: entry.board for entry in found.sessions}


async def test_a_childs_list_and_its_turns_never_touch_its_parents(todo_kit: Kit) -> None:
    parent = todo_kit.log(PARENT)
    await parent.start_turn()
    await write(todo_kit, PARENT, "ship it")
    child = await start_child(todo_kit)
    async with child.turn():
        await write(todo_kit, CHILD, "read the diff", "run the tests")
    last = await child.append("session/title", {"title": "Review"})

    shown = await todo_kit.wait_for(CHILD, last)
    assert shown["values"]["todos"] == plan("read the diff", "run the tests")
    before = await todo_kit.show(PARENT)
    assert before["values"]["todos"] == plan("ship it")
    assert (before["values"]["board"]["open"], before["values"]["board"]["parent"]) == (True, None)

    await todo_kit.wait_for(CHILD, await child.append("turn/start", {"turn": 2}))  # clears the child's list
    assert (await todo_kit.show(CHILD))["values"]["todos"] is None
    assert await todo_kit.show(PARENT) == before


async def test_the_parents_list_and_its_end_never_touch_its_childs(todo_kit: Kit) -> None:
    child = await start_child(todo_kit)
    await todo_kit.wait_for(CHILD, await write(todo_kit, CHILD, "read the diff"))
    before = await todo_kit.show(CHILD)
    parent = todo_kit.log(PARENT)
    async with parent.turn():
        await write(todo_kit, PARENT, "read the diff")
    await todo_kit.wait_for(PARENT, await parent.append("x", {}))
    await parent.delete()
    assert await todo_kit.show(CHILD) == before
    assert await child.tail() == Position(before["epoch"], before["asOfSeq"])


async def test_the_parent_reaches_the_childs_row_and_every_list_of_sessions(todo_kit: Kit) -> None:
    await write(todo_kit, PARENT, "ship it")
    await start_child(todo_kit)
    await start_child(todo_kit, f"{CHILD}/deeper", CHILD)
    last = {name: await write(todo_kit, name, "read the diff") for name in (PARENT, CHILD, f"{CHILD}/deeper")}
    for session, position in last.items():
        await todo_kit.wait_for(session, position)

    assert (await todo_kit.show(CHILD))["values"]["board"]["parent"] == PARENT
    found = await boards(todo_kit)
    assert {name: (board.parent, board.label) for name, board in found.items()} == {
        PARENT: (None, None),
        CHILD: (PARENT, "review"),
        f"{CHILD}/deeper": (CHILD, "review"),
    }


async def test_a_child_keeps_its_parent_through_turns_and_titles(todo_kit: Kit) -> None:
    child = await start_child(todo_kit)
    async with child.turn():
        await write(todo_kit, CHILD, "read the diff")
    await child.append("session/start", {"cwd": "/src"})  # a host that resumed it, and names no parent
    last = await child.append("session/title", {"title": "Review"})
    board = (await todo_kit.wait_for(CHILD, last))["values"]["board"]
    assert (board["parent"], board["label"], board["title"]) == (PARENT, "review", "Review")
