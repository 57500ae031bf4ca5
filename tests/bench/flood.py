"""A session that floods, a process: events of the real mix at a fixed rate, appended by the library, many a call."""

import asyncio
import sys
import time
from itertools import islice

import msgspec

from bench.mix import MIXES
from todo_write.log import SessionLog, connect

SESSION = "flood"
EVERY_S = 0.005
REPORT_S = 1.0
BEHIND_S_MAX = 0.1  # what was missed while it was stopped is not sent


async def flood(url: str, rate: int) -> None:
    """Until killed; writes each second how many events went out in it."""
    some = islice(MIXES["import"].events(sys.maxsize, 1), 10 * rate)
    events = [(event.type, msgspec.json.decode(event.data)) for event in some]
    async with connect(url, session_rate_max=0, process_rate_max=0) as client:
        log = SessionLog(client, SESSION)
        last = told_at = time.perf_counter()
        told = sent = 0
        while True:
            await asyncio.sleep(EVERY_S)
            now = time.perf_counter()
            count = max(1, int(min(now - last, BEHIND_S_MAX) * rate))
            begins = sent % (len(events) - count)
            await log.append_all(events[begins : begins + count])
            last, told, sent = now, told + count, sent + count
            if now - told_at >= REPORT_S:
                sys.stdout.write(f"{told / (now - told_at):.0f}\n")
                sys.stdout.flush()
                told_at, told = now, 0


if __name__ == "__main__":
    asyncio.run(flood(sys.argv[1], int(sys.argv[2])))
