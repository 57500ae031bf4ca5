"""The plans of many sessions as a screen shows them: listed by the index, moved by frames between two looks at it."""

from collections.abc import Iterable

import msgspec

from todo_projection.board import Board
from todo_projection.frames import Deleted, Frame
from todo_projection.sessions import Entry, Listing
from todo_projection.settings import Settings
from todo_projection.state import judge
from todo_projection.subscription import Snapshot
from todo_write.events import Todo

TODOS = "todos"

decode_todos = msgspec.json.Decoder(list[Todo] | None).decode

Update = Snapshot | Frame | Deleted


class Plans:
    """Entries by session. The index is looked at now and then and brings names and order; frames move the plans."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._entries: dict[str, Entry] = {}
        self._seq: dict[str, tuple[int, int]] = {}  # epoch and seq of the newest frame of a session

    def entries(self) -> list[Entry]:
        """All sessions in order of their id, so that a row keeps its place while others come and go."""
        return [self._entries[session] for session in sorted(self._entries)]

    def relist(self, listing: Listing) -> None:
        """Take what the index says; a row that is older than the last frame keeps what the frame said."""
        known = {entry.session_id: entry for entry in listing.sessions}
        self._entries = {session: self._newer(session, entry) for session, entry in known.items()}
        self._seq = {session: place for session, place in self._seq.items() if session in known}

    def take(self, update: Update, now: int) -> None:
        """Take what was published, seen at ``now`` (epoch ms, the server's clock)."""
        if isinstance(update, Snapshot):
            self._seq.pop(update.session, None)  # whatever frames said: the next look brings what is stored
        elif isinstance(update, Deleted):
            self._entries.pop(update.session_id, None)
            self._seq.pop(update.session_id, None)
        elif update.key == TODOS:
            before = self._entries.get(update.session_id)
            board = moved((before and before.board) or Board(), decode_todos(update.value), update.time)
            self._seq[update.session_id] = update.epoch, update.seq
            self._entries[update.session_id] = self._judged(update, board, now)

    def _judged(self, frame: Frame, board: Board, now: int) -> Entry:
        bounds = {"stuck_ms": self._settings.stuck_ms, "quiet_ms": self._settings.quiet_ms}
        judged = judge(board, now_ms=now, last_ms=now, **bounds)
        marks = {} if frame.stale is msgspec.UNSET else {frame.key: frame.stale}
        return Entry(frame.session_id, judged.state, judged.why, board, frame.seq, frame.epoch, now, marks)

    def _newer(self, session: str, entry: Entry) -> Entry:
        shown, place = self._entries.get(session), self._seq.get(session)
        if shown is None or place is None or entry.epoch is None or (entry.epoch, entry.as_of_seq) >= place:
            return entry
        return shown


def moved(board: Board, todos: Iterable[Todo] | None, time: int) -> Board:
    """The board with another plan, written at ``time`` (epoch ms)."""
    if todos is None:
        return msgspec.structs.replace(board, done=0, total=None, current=None, since=None)
    listed = list(todos)
    working = [todo.content for todo in listed if todo.status == "in_progress"]
    current = board.current if board.current in working else next(iter(working), None)
    since = board.since if current == board.current else time
    done = sum(todo.status == "completed" for todo in listed)
    return msgspec.structs.replace(
        board, done=done, total=len(listed), current=current, since=None if current is None else since
    )
