"""What a row must hold: a log folded in plain Python, by the words of the contract and none of the product's code."""

import json
from collections.abc import Iterable
from typing import Any, cast

Entries = list[tuple[str, dict[str, str]]]
STATUSES = ("pending", "in_progress", "completed")


def expected_row(entries: Entries) -> dict[str, Any]:
    """The fields of the row but ``etag``, ``rev`` and ``by``, JSON decoded, marks without their words."""
    todos, board = _Todos(), _Board()
    for position, fields in entries:
        event = {**fields, "at": position, "seq": int(position.partition("-")[2]), "time": int(fields["time"])}
        todos.take(event)
        board.take(event)
    row = {"pos": entries[-1][0], "units": "board:1,todos:2", "todos.ver": 2, "board.ver": 1}
    return {**row, **todos.fields("todos"), **board.fields("board")}


def shown(row: dict[str, str]) -> dict[str, Any]:
    """A stored row in the same form."""
    fields: dict[str, Any] = {}
    for name, raw in row.items():
        if name not in ("etag", "rev", "by", "begun"):  # `begun` is between the writers
            fields[name] = raw if name in ("pos", "units") or name.endswith(".at") else json.loads(raw)
        if name.endswith(".stale"):
            del fields[name]["reason"]
    return fields


class _Unit:
    def __init__(self) -> None:
        self.value: Any = None
        self.state: Any = None
        self.at: str | None = None
        self.mark: dict[str, int] | None = None

    def fields(self, key: str) -> dict[str, Any]:
        found = {key: self.value, f"{key}.at": self.at, f"{key}.state": self.state, f"{key}.stale": self.mark}
        return {name: value for name, value in found.items() if name == key or value is not None}

    def poison(self, event: dict[str, Any]) -> None:
        since = self.mark["since"] if self.mark else event["time"]
        self.mark, self.at = {"seq": event["seq"], "since": since}, event["at"]


class _Todos(_Unit):
    def take(self, event: dict[str, Any]) -> None:
        if event["type"] == "turn/start":
            if self.value is not None or self.mark:
                self.value, self.mark, self.at = None, None, event["at"]
        elif event["type"] == "todo/write":
            found = sound(event["data"])
            if found is None:
                self.poison(event)
            else:
                self.value, self.mark, self.at = found, None, event["at"]


class _Board(_Unit):
    def __init__(self) -> None:
        super().__init__()
        names = ("title", "label", "parent", "turn", "reason", "total", "current", "since")
        self.value = {**dict.fromkeys(names), "open": False, "done": 0}
        self.started: dict[str, int] = {}

    def take(self, event: dict[str, Any]) -> None:
        named = _object(json.loads(event["data"]))
        match event["type"]:
            case "todo/write":
                self._write(event)
            case "turn/start":
                self.started, self.mark = {}, None
                turn = named.get("turn") if isinstance(named.get("turn"), int) else None
                self._set(event, turn=turn, open=True, reason=None, done=0, total=None, current=None, since=None)
            case "turn/end":
                reason = named.get("reason")
                reason = _object(reason).get("kind", reason)
                self._set(event, open=False, reason=reason if isinstance(reason, str) else None)
            case "session/title":
                self._name(event, title=named.get("title"))
            case "session/start":
                self._name(event, label=named.get("label"), parent=named.get("parentSession"))
            case _:
                pass

    def _write(self, event: dict[str, Any]) -> None:
        found = sound(event["data"])
        if found is None:
            self.poison(event)
            return
        begun: list[str] = [item["content"] for item in found if item["status"] == "in_progress"]
        time: int = event["time"]
        self.started = {content: self.started.get(content, time) for content in begun}
        since = min(self.started.values()) if begun else None
        current = next((content for content, time in self.started.items() if time == since), None)
        done = sum(item["status"] == "completed" for item in found)
        self.mark = None
        self._set(event, done=done, total=len(found), current=current, since=since)

    def _name(self, event: dict[str, Any], **names: Any) -> None:
        news = {key: name for key, name in names.items() if isinstance(name, str) and name}
        if any(self.value[key] != name for key, name in news.items()):
            self._set(event, **news)

    def _set(self, event: dict[str, Any], **fields: Any) -> None:
        self.value, self.at = {**self.value, **fields}, event["at"]
        self.state = {**self.value, "started": self.started} if len(self.started) > 1 else None


def sound(data: str) -> list[dict[str, str]] | None:
    """The list of a ``todo/write``, None when it breaks a rule."""
    items: list[dict[str, str]] = []
    todos: Any = _object(json.loads(data)).get("todos")
    if not isinstance(todos, list):
        return None
    for found in cast("Iterable[Any]", todos):
        item = _object(found)
        content, status = item.get("content"), item.get("status")
        if not isinstance(content, str) or not content or content != content.strip() or status not in STATUSES:
            return None
        if content in [one["content"] for one in items]:
            return None
        items.append({"content": content, "status": status})
    return items


def _object(found: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
