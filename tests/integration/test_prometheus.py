"""The files under docker/prometheus and docker/grafana work with a real Prometheus."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from hourhand.scheduler.observe.metric_catalogue import CATALOGUE, SUPERVISOR, Kind
from tests.servers.prometheus import PrometheusMissing, prometheus_program

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docker" / "prometheus"
BOARD = ROOT / "docker" / "grafana" / "hourhand.json"
RUNBOOKS = ROOT / "docs" / "runbooks"


@pytest.fixture(scope="module")
def promtool() -> Path:
    """Find or fetch promtool; where there is none, say so and skip."""
    try:
        return prometheus_program("promtool")
    except PrometheusMissing as missing:
        pytest.skip(f"THE ALERT RULES WERE NOT CHECKED: {missing}")


@pytest.mark.parametrize(
    "arguments",
    [("check", "config", "prometheus.yml"), ("test", "rules", "rules_test.yml")],
    ids=["config", "rules"],
)
def test_promtool_accepts_it(promtool: Path, arguments: tuple[str, ...]) -> None:
    """The example loads the rules, and the critical ones fire on what they are for."""
    done = subprocess.run(
        [promtool, *arguments], cwd=FOLDER, capture_output=True, text=True, check=False, timeout=120
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def test_promtool_accepts_every_query_of_the_board(promtool: Path, tmp_path: Path) -> None:
    """As rules, with the variables filled in: a query that cannot be parsed shows nothing."""
    queries = [
        query.replace("$__rate_interval", "1m").replace("$job", "hourhand")
        for query in board_queries()
    ]
    rules = [{"record": f"board:query{n}", "expr": query} for n, query in enumerate(queries)]
    written = tmp_path / "board.yml"
    written.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))

    done = subprocess.run(
        [promtool, "check", "rules", str(written)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(queries) > 40


def board_queries() -> list[str]:
    """Return every expression of the board."""
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    return [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])] + [
        each["expr"] for each in board["annotations"]["list"]
    ]


def series() -> set[str]:
    """Return every name that a query may use."""
    names: set[str] = set()
    for metric in CATALOGUE.values():
        histogram = metric.kind is Kind.HISTOGRAM
        suffixes = ("_bucket", "_sum", "_count") if histogram else ("",)
        names |= {metric.full_name + suffix for suffix in suffixes}
    return names


@pytest.mark.parametrize("where", ["board", "rules", "rules_test", "metrics page", "runbooks"])
def test_every_metric_that_is_named_exists(where: str) -> None:
    """A board of a metric that nobody counts would be empty for ever, and an alert silent."""
    text = {
        "board": "\n".join(board_queries()),
        "rules": (FOLDER / "rules.yml").read_text(encoding="utf-8"),
        "rules_test": (FOLDER / "rules_test.yml").read_text(encoding="utf-8"),
        "metrics page": (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8"),
        "runbooks": "\n".join(
            page.read_text(encoding="utf-8") for page in sorted(RUNBOOKS.glob("*.md"))
        ),
    }[where]
    named = set(re.findall(r"\bhourhand_\w+", text))
    others = (*CATALOGUE.values(), *SUPERVISOR)
    known = series() | {metric.full_name for metric in others}

    assert named
    assert named <= known, sorted(named - known)


def test_the_board_leaves_no_metric_out() -> None:
    """What is worth counting is worth showing; the few others are shown by their parts."""
    shown = set(re.findall(r"\bhourhand_\w+", "\n".join(board_queries())))
    kept = {name for name in shown for name in (name, re.sub("_(bucket|sum|count)$", "", name))}
    left_out = {metric.name for metric in CATALOGUE.values() if metric.full_name not in kept}

    assert left_out == {
        "commands_read_total",
        "poison_records_total",
        "tasks_loaded_total",
        "window_dropped_tasks_total",
        "watermark_timestamp_seconds",
        "watermark_held_ids",
        "commands_total",
        "relay_records_refused_total",
        "drains_unfinished_total",
        "catch_up_seconds",
        "catch_ups_incomplete_total",
        "ready",
        "self_checked_tasks_total",
        "workers_exhausted",
        "limit_changes_total",
    }


def test_every_alert_has_its_runbook_and_every_runbook_its_alert() -> None:
    """Whoever is woken up finds a page with the alert's own name on it."""
    rules = (FOLDER / "rules.yml").read_text(encoding="utf-8")
    alerts = dict(
        re.findall(r"- alert: (\w+)\n(?:.*\n)*?\s+runbook: docs/runbooks/([\w-]+\.md)", rules)
    )
    pages = {page.name for page in RUNBOOKS.glob("*.md")} - {"README.md"}
    overview = (RUNBOOKS / "README.md").read_text(encoding="utf-8")

    assert len(alerts) == rules.count("- alert:")
    assert set(alerts.values()) == pages
    for alert, page in alerts.items():
        assert (RUNBOOKS / page).read_text(encoding="utf-8").startswith(f"# {alert}\n")
        assert f"[{alert}]({page})" in overview


def test_the_example_scrapes_three_nodes() -> None:
    """By the job's name that the rules ask for."""
    example = (FOLDER / "prometheus.yml").read_text(encoding="utf-8")

    assert "job_name: hourhand\n" in example
    assert len(re.findall(r"- node-\d:9464", example)) == 3
