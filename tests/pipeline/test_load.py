"""What a load counts and puts aside, where few or no rows are tasks."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hourhand.scheduler.pipeline.job import JobOptions, Summary
from hourhand.scheduler.pipeline.load import LoadPlan, run_load
from hourhand.scheduler.pipeline.options import parse_options
from hourhand.scheduler.pipeline.transform_load import DUPLICATE

pytestmark = pytest.mark.integration

DUE = (datetime.now(UTC) + timedelta(days=1)).isoformat()


def a_line(uniqueness_key: int, **changed: Any) -> dict[str, Any]:
    """Return a task of tomorrow as a line of JSON has it."""
    usual = {"scheduled_time": DUE, "ordering_id": "a", "uniqueness_key": uniqueness_key}
    return {**usual, "data": {}, **changed}


def load(options: dict[str, str], path: Path, *lines: dict[str, Any], dry: bool = False) -> Summary:
    """Load lines into an embedded folder of the test's own."""
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    job = JobOptions(parse_options(options), dry_run=dry, say=lambda _line: None)
    return run_load(job, LoadPlan(str(path)))


def rejects_in(path: Path) -> list[dict[str, Any]]:
    """Return the rows that were put aside, by uniqueness key."""
    parts = path.with_name(f"{path.name}.rejects").glob("*.json")
    found = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
    return sorted(found, key=key_of)


def key_of(reject: dict[str, Any]) -> int:
    """Return the uniqueness key of a row that was put aside."""
    return int(json.loads(reject["row"])["uniqueness_key"])


@pytest.mark.usefixtures("spark")
def test_an_input_without_rows_is_loaded(options: dict[str, str], tmp_path: Path) -> None:
    """And counted: whoever makes such files every night wants no failure."""
    path = tmp_path / "none.jsonl"

    summary = load(options, path)

    assert {name: summary[name] for name in ("rows", "tasks", "duplicates", "invalid")} == {
        "rows": 0,
        "tasks": 0,
        "duplicates": 0,
        "invalid": 0,
    }
    assert summary["rowsWritten"] == 0
    assert "rejects" not in summary
    assert rejects_in(path) == []


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("dry", [True, False])
def test_every_row_is_counted_once_and_what_is_no_task_is_put_aside(
    options: dict[str, str], tmp_path: Path, dry: bool
) -> None:
    """Of one key the row with the first data is the task; a trial run writes nothing."""
    path = tmp_path / "some.jsonl"
    second = a_line(1, data={"n": 2})
    broken = a_line(2, scheduled_time="soon")

    summary = load(options, path, second, a_line(1, data={"n": 1}), broken, dry=dry)

    counts = [summary[name] for name in ("rows", "tasks", "duplicates", "invalid")]
    assert counts == [3, 1, 1, 1]
    rejects = sorted(summary["rejects"], key=key_of)
    assert [json.loads(each["row"]) for each in rejects] == [second, broken]
    assert rejects[0]["reason"] == DUPLICATE
    assert rejects_in(path) == ([] if dry else rejects)
    assert summary.get("rowsWritten") == (None if dry else 1)


@pytest.mark.usefixtures("spark")
def test_rows_that_are_no_tasks_are_put_aside_without_one_that_is(
    options: dict[str, str], tmp_path: Path
) -> None:
    """Nothing is written, and nothing is lost."""
    path = tmp_path / "bad.jsonl"
    lines = [a_line(number, ordering_id="") for number in range(3)]

    summary = load(options, path, *lines)

    assert (summary["tasks"], summary["invalid"], summary["rowsWritten"]) == (0, 3, 0)
    assert [key_of(each) for each in rejects_in(path)] == [0, 1, 2]
