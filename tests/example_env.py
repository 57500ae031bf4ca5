"""The file .env.example, made from the settings: ``make env``."""

import sys

from todo_projection.settings import Settings as OperatorSettings
from todo_write.log import StoreSettings
from todo_write.settings import Settings as AgentSettings
from todo_write.settings import Variable

HEAD = """\
# Every setting of todo-projection, with its default. Copy this file to .env, take the # from a line, change it.
# Commands have flags for those they use, which overrule them; an empty one counts as not given. A value that can't be
# used ends the command with exit code 2 and says what is allowed.
# Made by `make env`: change the settings, not this file.
"""
PLATFORM = """\
# where platforms tell the port in PORT, that counts unless TODO_GATEWAY_PORT is set; allowed: a port, 0 to 65535
#PORT=
"""


def example() -> str:
    """The whole file."""
    shared = StoreSettings.variables()
    parts = {
        "both sides": _text(shared),
        "agents: todo-write, and programs with the tool": _text(AgentSettings.variables()[len(shared) :]),
        "operators: todo-projection": f"{_text(OperatorSettings.variables()[len(shared) :])}\n{PLATFORM}",
    }
    return "\n".join([HEAD, *(f"# --- {name}\n\n{text}" for name, text in parts.items())])


def _text(variables: list[Variable]) -> str:
    return "\n".join(variable.lines() for variable in variables)


if __name__ == "__main__":
    sys.stdout.write(example())
