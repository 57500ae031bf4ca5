"""Hooks as commands: ``todo-write hook``."""

import typer

from todo_write.options import Namespace, Partitions, RedisUrl

hook = typer.Typer(no_args_is_help=True)


@hook.callback()
def hosts() -> None:
    """Keep the plan of a host that has a tool of its own for it: what it starts at its events."""


@hook.command(
    "claude-code",
    epilog="Exit codes: 0 always, 1 for arguments it does not know; what went wrong stands on standard error.\n\n"
    """Example, in ~/.claude/settings.json: {"hooks": {"Stop": [{"hooks": [{"type": "command", """
    """"command": "todo-write hook claude-code"}]}]}}""",
)
def hook_claude_code(
    redis_url: RedisUrl = None,
    namespace: Namespace = None,
    partitions: Partitions = None,
) -> None:
    """Keep the plan of a Claude Code session: the hook's JSON on standard input, nothing on standard output.

    For SessionStart, UserPromptSubmit, Stop, StopFailure, SessionEnd, SubagentStop, and for PostToolUse of TodoWrite,
    TaskCreate and TaskUpdate.
    """
    from todo_write.hooks import main as run_hook

    run_hook(redis_url=redis_url, namespace=namespace, partitions=partitions)
