"""A session that floods, a process: events of the real mix at a fixed rate, appended by the product's own script."""

import sys
import time
from itertools import islice

import redis

from bench.backlog import Logs
from bench.mix import MIXES
from todo_write.events import Keys

EVERY_S = 0.01
REPORT_S = 1.0
BEHIND_S_MAX = 0.1  # what was missed while it was stopped is not sent


def flood(url: str, rate: int) -> None:
    """Until killed; writes each second how many events went out in it."""
    events = MIXES["import"].events(sys.maxsize, 1)
    with redis.Redis.from_url(url) as client:
        logs = Logs(client, Keys())
        last = told_at = time.perf_counter()
        told = 0
        while True:
            time.sleep(EVERY_S)
            now = time.perf_counter()
            count = int(min(now - last, BEHIND_S_MAX) * rate)
            logs.load(list(islice(events, count)))
            last, told = now, told + count
            if now - told_at >= REPORT_S:
                sys.stdout.write(f"{told / (now - told_at):.0f}\n")
                sys.stdout.flush()
                told_at, told = now, 0


if __name__ == "__main__":
    flood(sys.argv[1], int(sys.argv[2]))
