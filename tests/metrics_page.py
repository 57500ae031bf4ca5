"""The page docs/METRICS.md, made from the figures: ``PYTHONPATH=tests python -m metrics_page > docs/METRICS.md``."""

import sys
from collections.abc import Iterable
from typing import NamedTuple

from todo_projection.metrics import WHOLE, WORKER
from todo_projection.scraping import GATEWAY
from todo_write.metrics import APPENDS, HELP

HEAD = """\
# Metrics

In the text format of Prometheus, with the extra `metrics` (`pip install 'todo-projection[metrics]'`). No label names a
session or a worker. Alert rules and a Grafana dashboard over these are in [deploy/](../deploy/).

| Process | Where it tells |
|---|---|
| `todo-projection worker` | `TODO_METRICS_PORT` of `TODO_METRICS_HOST`, if set: `/metrics`, `/livez`, `/readyz` |
| `todo-projection gateway` | its own port: `/metrics`, with a token wherever plans need one; `/livez`, `/readyz` |
| `todo-write serve`, `todo-write mcp` | `--metrics HOST:PORT`: `/metrics` |
| A Python program that writes | `registry.register(todo_write.metrics.Appends(client.tally))` in its own registry |

`/livez` says that a process gets round, `/readyz` that redis answers it; what waits to be projected is part of neither.
`todo-projection alive worker` and `alive gateway` ask the same for containers that can't ask HTTP.

`todo-write canary --every 10`, once a namespace, lets gateways tell whether delivery lives: it appends to the session
`.canary`, which is in no list and on no board, and each gateway watches for its frames. After two minutes without it
`todo_gateway_delivery_alive` is left out, and no alert on that figure can fire; so there is a second one, on
`todo_gateway_canary_age_seconds`. Every gateway reads it from the canary's log: it grows where the gateway was started
later, too, and is left out where no canary was ever run. To do without one for good: end it, then
`todo-write delete .canary`.
"""


class Table(NamedTuple):
    """Metrics that are told together."""

    title: str
    rows: Iterable[tuple[str, str, str, str]]


TABLES = (
    Table("The whole", [(f.name, f.kind, f.label, f.help) for f in WHOLE]),
    Table("A worker", [(f.name, f.kind, f.label, f.help) for f in WORKER]),
    Table("A gateway", [(f.name, f.kind, f.label, f.help) for f in GATEWAY]),
    Table("A writer", [(APPENDS, "counter", "outcome", HELP)]),
)
WHERE = {
    "The whole": "Asked of redis at the scrape, within two seconds; every worker and every gateway tells the same.",
    "A worker": "Since its start.",
    "A gateway": "Since its start.",
    "A writer": "Since its start.",
}


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(_section(table) for table in TABLES)])


def _section(table: Table) -> str:
    lines = [f"## {table.title}", "", f"{WHERE[table.title]}", "", "| Metric | Type | Label | What it says |"]
    lines.append("|---|---|---|---|")
    for name, kind, label, said in table.rows:
        lines.append(f"| `{name}` | {kind} | {f'`{label}`' if label else ''} | {said} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
