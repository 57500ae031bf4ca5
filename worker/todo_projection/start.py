"""The start of the program ``todo-projection``."""

import os
import sys


def main() -> None:
    """The entry point. Containers ask ``alive`` again and again, so its usual form starts without all the others."""
    if sys.argv[1:2] == ["alive"]:
        from todo_projection.alive import problems

        if (found := problems(sys.argv[2:], os.environ)) is not None:
            if found:
                from todo_projection.ending import NO, end

                end(NO, "\n".join(found))
            return
    from todo_projection.cli import main as command

    command()
