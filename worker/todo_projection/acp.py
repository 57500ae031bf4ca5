"""The bridge to ACP, the Agent Client Protocol: plans as ``session/update`` notifications. Needs the extra ``acp``."""

import logging
from collections.abc import AsyncIterator, Sequence

import msgspec
from acp import CLIENT_METHODS, plan_entry, session_notification, update_plan
from acp.schema import SessionNotification

from todo_projection.frames import Deleted, Frame
from todo_projection.subscription import Snapshot, Subscription, Update
from todo_write.events import Todo

TODOS = "todos"

_todos = msgspec.json.Decoder(list[Todo] | None).decode

logger = logging.getLogger(__name__)


async def notifications(plans: Subscription) -> AsyncIterator[SessionNotification]:
    """What an ACP client is to be sent: each session's plan once, when it is attached, then again when it is another.

    Always the whole list, in its order, with priority ``medium``; no plan, or a session that is deleted, is an empty
    list. ACP has no word for a state or a mark. An SDK connection sends it: ``session_update(n.session_id, n.update)``.
    """
    sent: dict[str, Sequence[Todo]] = {}
    async for update in plans:
        session, todos = _plan(update)
        if session is None or todos is None or sent.get(session) == todos:
            continue
        sent[session] = todos
        yield notification(session, todos)


def notification(session: str, todos: Sequence[Todo]) -> SessionNotification:
    """One plan as ACP says it."""
    entries = [plan_entry(todo.content, priority="medium", status=todo.status) for todo in todos]
    return session_notification(session, update_plan(entries))


def encode(sent: SessionNotification) -> bytes:
    """A notification as the JSON-RPC message on the wire, without a line's end."""
    params = sent.model_dump(mode="json", by_alias=True, exclude_none=True)
    return msgspec.json.encode({"jsonrpc": "2.0", "method": CLIENT_METHODS["session_update"], "params": params})


def _plan(update: Update) -> tuple[str | None, list[Todo] | None]:
    """The session and its list; None where the update says nothing of it."""
    match update:
        case Snapshot(session, baseline):
            return session, _decoded(session, baseline.values.get(TODOS))
        case Frame(session, key, value) if key == TODOS:
            return session, _decoded(session, value)
        case Deleted(session):
            return session, []
        case _:
            return None, None


def _decoded(session: str, raw: msgspec.Raw | None) -> list[Todo] | None:
    try:
        return [] if raw is None else _todos(raw) or []
    except msgspec.MsgspecError as error:
        logger.warning("session %r: its plan is of a form this version does not know: %s; left out", session, error)
        return None
