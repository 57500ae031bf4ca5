"""What stands in the dashboard, the alert rules and the page of metrics is what processes tell."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from redis.asyncio import Redis

from eventually import eventually
from metrics_page import TABLES, page
from projecting import working
from promtool import RULES, run
from scraped import Scraped
from serving import serving
from todo_projection.metrics import WORKER, families, text
from todo_projection.tally import Tally
from todo_write.canary import sing
from todo_write.log import Client
from todo_write.metrics import Appends

TOP = Path(__file__).parents[1]
DASHBOARD = json.loads((TOP / "deploy" / "grafana" / "dashboard.json").read_text())
PANELS: list[Any] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
NAME = re.compile(r"\b(?:todo|process)_[a-z_]+\b")


async def told(redis_url: str, namespace: str, client: Client) -> Scraped:
    """Everything that a worker, a gateway that hears a canary, and a writer tell."""

    async def heard() -> str | None:
        await sing(client)
        found = (await http.get("/metrics")).body.decode()
        return found if "todo_gateway_delivery_alive" in found else None

    async with working(redis_url, namespace), serving(redis_url, namespace) as http:
        gateway = await eventually(heard)
    registry = CollectorRegistry()
    registry.register(Appends(client.tally))
    assert gateway is not None
    worker = text(families(WORKER, Tally())).decode()
    own = "\n".join(line for line in worker.splitlines() if "process_" not in line)
    return Scraped(f"{gateway}{own}\n{generate_latest(registry).decode()}")


async def test_every_query_of_dashboard_and_rules_names_what_is_told_and_every_metric_is_in_the_page(
    redis_url: str, namespace: str, client: Client, redis: Redis
) -> None:
    found = await told(redis_url, namespace, client)
    asked = {
        name for query in [*QUERIES, *re.findall(r"expr: (.+)", RULES.read_text())] for name in NAME.findall(query)
    }
    assert asked - found.names == set()
    ours = {(name, kind) for name, kind in found.families.items() if name.startswith("todo_")}
    rows = [row for table in TABLES for row in table.rows]
    assert ours == {(name, kind) for name, kind, _, _ in rows}
    for name, _, label, said in rows:
        assert found.helps[name] == said
        assert found.labels[name] - {"le"} == ({label} if label else set()), "no label by session or worker"


def test_the_page_of_metrics_is_the_one_that_is_made() -> None:
    assert (TOP / "docs" / "METRICS.md").read_text() == page(), (
        "PYTHONPATH=tests python -m metrics_page > docs/METRICS.md"
    )


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_of_the_dashboard_can_be_parsed(query: str, tmp_path: Path) -> None:
    rules = {"groups": [{"name": "g", "rules": [{"record": "r", "expr": query.replace("$__rate_interval", "5m")}]}]}
    page = tmp_path / "rules.yml"
    page.write_text(json.dumps(rules))
    ran = run("check", "rules", page)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_panels_have_titles_descriptions_and_places_of_their_own() -> None:
    cells: list[tuple[int, int]] = []
    for panel in DASHBOARD["panels"]:
        assert panel["title"]
        assert panel["type"] == "row" or panel["description"]
        place = panel["gridPos"]
        cells += [(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
