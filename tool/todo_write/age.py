"""How old this process is: what a start has cost counts for whoever waits for the command."""

import os
import time
from pathlib import Path


def age_ms() -> int:
    """How long this process has been running; where nothing tells, how long it has computed."""
    try:
        started_ticks = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19])
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError):
        age_s = time.process_time()
    return int(age_s * 1000)
