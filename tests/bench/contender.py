"""The process of one contender: drains once, prints its measurement as JSON."""

import cProfile
import logging
import sys
import time

import msgspec

from bench.contenders import drain_of
from bench.measure import Job, Measurement, measured, run
from todo_projection.process import collect_seldom


def main(raw: str) -> None:
    """Take the job from the command line."""
    logging.basicConfig(level=logging.WARNING)
    job = msgspec.json.decode(raw, type=Job)
    drain = drain_of(job.name)
    collect_seldom()  # the worker's command does so too; here everyone has the good of it

    async def work() -> Measurement:
        return await measured(job, lambda: drain(job))

    if job.profile:
        profiler = cProfile.Profile(time.process_time)  # the machine may be busy with other things
        measurement = profiler.runcall(run, work())
        profiler.dump_stats(job.profile)
    else:
        measurement = run(work())
    sys.stdout.buffer.write(msgspec.json.encode(measurement))


if __name__ == "__main__":
    main(sys.argv[1])
