"""The turns of a log: which one was started or ended last."""

import logging
from typing import NamedTuple

import msgspec

from todo_write.events import TURN_END, TURN_START, Entry, Position, Unsound
from todo_write.reader import LogReader

SEARCH_MAX = 10_000
_PAGE = 64

_logger = logging.getLogger(__name__)


class Turn(NamedTuple):
    """A turn by its number, 1 for the first; 0 for none yet."""

    number: int
    is_open: bool


NO_TURN = Turn(0, is_open=False)


class _Numbered(msgspec.Struct):
    turn: int


async def last_turn(log: LogReader) -> Turn:
    """The last turn of a log, looked for from its end through ``SEARCH_MAX`` events; raises what reading raises."""
    before: Position | None = None
    for _ in range(0, SEARCH_MAX, _PAGE):
        page = await log.read_back(before, count_max=_PAGE)
        for entry in page:
            if turn := turn_of(entry):
                return turn
        if len(page) < _PAGE:
            return NO_TURN
        before = page[-1].position
    _logger.warning("session %r: no turn in the last %d events; numbering starts anew", log.session, SEARCH_MAX)
    return NO_TURN


def turn_of(entry: Entry) -> Turn | None:
    """The turn that an entry starts or ends; None for any other entry."""
    if entry.event.type not in (TURN_START, TURN_END):
        return None
    try:
        number = entry.event.read(_Numbered).turn
    except Unsound:
        return None  # no rule makes a host number its turns; there is nothing to go on from
    return Turn(number, is_open=entry.event.type == TURN_START)
