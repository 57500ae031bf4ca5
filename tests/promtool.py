"""Alert rules judged by Prometheus's own tool: those of deploy/prometheus, on figures that were really scraped."""

import json
import math
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scraped import Scraped

RULES = Path(__file__).parents[1] / "deploy" / "prometheus" / "alerts.yml"
EVERY_S = 15
SAMPLES = 240


def promtool() -> str:
    """The program; without it the test is skipped, unless TODO_REQUIRE_PROMTOOL=1."""
    found = shutil.which("promtool")
    if found is None:
        if os.environ.get("TODO_REQUIRE_PROMTOOL") == "1":
            pytest.fail("TODO_REQUIRE_PROMTOOL=1, but promtool is not on PATH")
        pytest.skip("promtool is not on PATH: it comes with Prometheus")
    return found


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What promtool says."""
    return subprocess.run([promtool(), *arguments], capture_output=True, text=True, check=False)


def firing(folder: Path, alert: str, after: Scraped, before: Scraped | None = None, at: str = "10m") -> bool:
    """Whether the alert fires ``at`` where this was scraped for an hour, and ``before`` for a minute."""
    values = {name: (None if before is None else before.told.get(name), value) for name, value in after.told.items()}
    series = [
        {"series": _series(*name), "values": f"{value if first is None else first}x4 {value}x{SAMPLES}"}
        for name, (first, value) in values.items()
        if math.isfinite(value)
    ]
    told: dict[str, Any] = {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{EVERY_S}s",
        "tests": [
            {
                "interval": f"{EVERY_S}s",
                "input_series": series,
                "alert_rule_test": [{"eval_time": at, "alertname": alert, "exp_alerts": []}],
            }
        ],
    }
    page = folder / "scraped.test.yml"
    page.write_text(json.dumps(told))  # JSON is YAML
    ran = run("test", "rules", page)
    assert ran.returncode == 0 or f"alertname: {alert}," in ran.stdout + ran.stderr, ran.stdout + ran.stderr
    return ran.returncode != 0


def _series(name: str, labels: frozenset[tuple[str, str]]) -> str:
    named = [("instance", "here:1"), ("job", "todo"), *sorted(labels)]
    return f"{name}{{{','.join(f'{key}={json.dumps(value)}' for key, value in named)}}}"
