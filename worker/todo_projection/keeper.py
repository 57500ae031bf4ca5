"""A program that keeps a child only as long as its own input stays open: ``keeper.py FOLDER COMMAND…``.

Whoever starts it holds the other end of that pipe. When that process ends, even by SIGKILL, the kernel closes the pipe;
the keeper then ends the command and removes the folder. It prints the command's process id, and when it has ended its
code, below zero for a signal. Started by path, so it imports the standard library only.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

TERM_S = 2.0
SAID_CHARS_MAX = 2000


def main(folder: str, *command: str) -> int:
    """Run the command until it ends or standard input does; its exit code, and what it printed if that is not 0."""
    log = Path(folder, "log")
    try:
        with log.open("wb") as out:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)  # noqa: S603  our caller's
        print(child.pid, flush=True)  # noqa: T201  whoever starts a program to keep may have to tell a person
        signal.signal(signal.SIGTERM, lambda _signal, _frame: child.terminate())
        threading.Thread(target=_end_with_input, args=(child,), daemon=True).start()
        code = child.wait()
        print(code, flush=True)  # noqa: T201  the exit code of this program can't tell a signal from a failure
        if code:
            sys.stderr.write(log.read_text(errors="replace")[-SAID_CHARS_MAX:])
    except OSError as error:
        sys.exit(str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return abs(code)


def _end_with_input(child: subprocess.Popen[bytes]) -> None:
    while os.read(0, 1024):  # unbuffered: a lock held in sys.stdin would stop the interpreter from ending
        pass
    child.terminate()
    try:
        child.wait(TERM_S)
    except subprocess.TimeoutExpired:
        child.kill()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
