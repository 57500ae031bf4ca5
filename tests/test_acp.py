"""The bridge to ACP: what its notifications say, and a client of the protocol's own SDK that takes them."""

import json
import sys
from typing import Any

import pytest
from acp import connect_to_agent
from acp.schema import AgentPlanUpdate, SessionNotification

import todo_projection
from eventually import eventually
from projecting import working
from running import call, operator
from todo_projection.acp import encode, notification, notifications
from todo_projection.cli import main
from todo_projection.subscriber import subscribe
from todo_write.events import Todo
from todo_write.log import Client, SessionLog

ITEMS = [Todo("計画\n\u2028🎯", "completed"), Todo("b", "in_progress"), Todo("c", "pending")]


def plan(*items: Todo) -> dict[str, Any]:
    return {"todos": [{"content": item.content, "status": item.status} for item in items]}


def checked(line: bytes) -> tuple[str, list[tuple[str, str, str]]]:
    """Session and entries of a message, as the SDK's own models read it."""
    message = json.loads(line)
    assert (message["jsonrpc"], message["method"]) == ("2.0", "session/update")
    assert set(message) == {"jsonrpc", "method", "params"}
    read = SessionNotification.model_validate(message["params"], strict=True)
    assert isinstance(read.update, AgentPlanUpdate)
    return read.session_id, [(entry.content, entry.status, entry.priority) for entry in read.update.entries]


class Editor:
    """An ACP client as far as a plan needs one."""

    def __init__(self) -> None:
        self.plans: list[tuple[str, list[str]]] = []

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        assert isinstance(update, AgentPlanUpdate)
        self.plans.append((session_id, [entry.content for entry in update.entries]))


def test_a_plan_is_sent_whole_in_its_order_with_one_priority() -> None:
    line = encode(notification("s1", ITEMS))
    assert b"\n" not in line
    assert checked(line) == ("s1", [(item.content, item.status, "medium") for item in ITEMS])
    assert checked(encode(notification("s1", []))) == ("s1", [])


async def test_it_is_sent_once_when_attached_and_again_only_when_it_is_another(
    redis_url: str, namespace: str, client: Client
) -> None:
    log, got = SessionLog(client, "s1"), list[list[str]]()
    async with working(redis_url, namespace), subscribe(client, "s1") as plans:
        sent = notifications(plans)

        async def entries() -> list[str]:
            _, found = checked(encode(await anext(sent)))
            return [content for content, _, _ in found]

        assert await entries() == []
        await log.append("todo/write", plan(*ITEMS))
        got.append(await entries())
        await log.append("todo/write", plan(*ITEMS))  # the same again is a frame, and no news
        await log.append("turn/start", {"turn": 1})
        got.append(await entries())
        await log.append("todo/write", plan())  # from no plan to an empty one
        await log.append("todo/write", plan(*ITEMS[:1]))
        got.append(await entries())
        await log.delete()
        got.append(await entries())
        plans.close()
        assert [rest async for rest in sent] == []
    first = ITEMS[0].content
    assert got == [[first, "b", "c"], [], [first], []]


async def test_a_client_of_the_sdk_takes_what_the_command_prints(
    redis_url: str, namespace: str, client: Client
) -> None:
    log, editor = SessionLog(client, "s1"), Editor()
    await log.append("todo/write", plan(*ITEMS))
    async with working(redis_url, namespace):
        command = operator(redis_url, namespace)
        async with command.started("acp", "s1", "--acp-session", "sess_1") as process:
            assert process.stdin
            assert process.stdout
            connection = connect_to_agent(editor, process.stdin, process.stdout)  # type: ignore[arg-type]  # the rest of a client is for agents that ask
            try:
                contents = [item.content for item in ITEMS]
                await eventually(lambda: editor.plans[-1:] == [("sess_1", contents)], 20)
                await log.append("turn/start", {"turn": 1})
                await eventually(lambda: editor.plans[-1:] == [("sess_1", [])], 20)
                assert editor.plans[-2:] == [("sess_1", contents), ("sess_1", [])]
                process.terminate()
                await eventually(lambda: process.returncode == 0)
            finally:
                await connection.close()


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "acp", None)
    monkeypatch.delitem(sys.modules, "todo_projection.acp")
    monkeypatch.delattr(todo_projection, "acp")
    assert call(main, "acp", "s1", settings={}, patch=monkeypatch) == 2
    assert "pip install 'todo-projection[acp]'" in capsys.readouterr().err
