"""The jobs from the command line, on one embedded installation, from load to audit."""

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from hourhand import Scheduler, Task
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import AttemptRecord, AttemptResult
from hourhand.actors.model.values.instant import to_millis
from hourhand.scheduler.cli.cli import app
from tests.pipeline.installation import Installation, settings_of

pytestmark = pytest.mark.integration

WAIT_S = 60.0


class Story:
    """An installation and the command line over it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = settings_of(folder / "data")

    def run(self, job: str, *arguments: str, code: int = 0) -> dict[str, Any]:
        """Run a job and return its summary."""
        result = self.invoke(job, *arguments, "-o", "json", code=code)
        summary: dict[str, Any] = json.loads(result)
        return summary

    def invoke(self, job: str, *arguments: str, code: int = 0) -> str:
        """Run a job and return what it printed, errors included."""
        where = ("--set", f"embedded.folder={self.settings.embedded.folder}")
        number = ("--set", f"topic.partitions={self.settings.topic.partitions}")
        result = CliRunner().invoke(app, ["pipeline", job, *arguments, *where, *number])
        assert result.exit_code == code, result.output
        return result.stdout if code in {0, 1} or result.stdout else result.stderr


@pytest.fixture
def story(spark: SparkSession, tmp_path: Path) -> Story:
    """A story in a folder of the test's own, told by the tests' Spark session."""
    assert SparkSession.getActiveSession() is spark, "jobs use the session that is there"
    return Story(tmp_path)


class Careful(TaskExecutor):
    """Fails for whoever is told to, once."""

    retry = RetryPolicy(attempts_max=1)

    def execute(self, task: Task) -> None:
        """Fail where the data say so."""
        if task.data.get("fail"):
            raise ValueError("as the data say")


def reminders(story: Story) -> tuple[Path, list[TaskKey]]:
    """Write 60 tasks due by now, one of tonight, a duplicate, and a line that is not a task."""
    past = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=30)
    lines: list[dict[str, object]] = [
        {
            "scheduled_time": past.isoformat(),
            "ordering_id": f"customer-{number % 5}",
            "uniqueness_key": str(number),
            "data": {"fail": number == 7},
        }
        for number in range(60)
    ]
    keys = [TaskKey(to_millis(past), f"customer-{n % 5}", str(n)) for n in range(60)]
    later = (past + timedelta(hours=3)).isoformat()
    lines += [
        lines[3],
        {**lines[0], "scheduled_time": "soon"},
        {**lines[0], "scheduled_time": later},
    ]
    file = story.folder / "reminders.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return file, keys


def test_from_a_file_to_a_report_and_an_audit_that_finds_what_is_planted(story: Story) -> None:
    """Load, run, report, audit; then a fault, and the audit ends with 1."""
    file, keys = reminders(story)
    load = ("load", str(file), "--past", "run")

    dry = story.run(*load, "--dry-run", code=2)
    assert (dry["rows"], dry["tasks"], dry["duplicates"], dry["invalid"]) == (63, 61, 1, 1)
    assert not Path(f"{file}.rejects").exists()
    with Scheduler(story.settings, executor=Careful):
        loaded = story.run(*load, code=2)
        _wait_until_closed(story, keys)

    assert (loaded["rowsWritten"], loaded["logged"]) == (61, 61)
    assert len(_rejects(loaded)) == 2
    assert any("is not an RFC 3339 instant" in each["reason"] for each in _rejects(loaded))

    report = story.run("report", str(story.folder / "report"), "--from", "-2h", "--to", "+1h")
    assert (report["executions"], report["failure"], report["ahead"]) == (60, 1, 1)
    page = Path(report["page"]).read_text()
    assert "ValueError" in page
    assert 'src="http' not in page
    assert (story.folder / "report" / "by_hour").is_dir()

    assert story.run("audit")["found"] == {}
    _plant_an_attempt_after_the_end(story, keys[0])
    found = story.run("audit", "--findings", str(story.folder / "findings"), code=1)
    assert found["found"] == {"ran_after_completion": 1}
    assert found["examples"][0]["uniqueness_key"] == "0"
    assert (story.folder / "findings").is_dir()


def _rejects(summary: dict[str, Any]) -> list[dict[str, str]]:
    return [
        json.loads(line)
        for part in Path(summary["rejectsFolder"]).glob("*.json")
        for line in part.read_text().splitlines()
    ]


def _wait_until_closed(story: Story, keys: list[TaskKey]) -> None:
    """Ask the store until every key is closed: the node is at work on them."""
    opened = Installation(story.settings)
    pause = threading.Event()
    for _ in range(600):
        open_keys = [
            key
            for key in keys
            if not opened.stores.status.find_completions(opened.partition(key), [key]).result(30)
        ]
        if not open_keys:
            opened.close()
            return
        pause.wait(WAIT_S / 600)
    raise AssertionError(f"still open: {open_keys[:3]}")


def _plant_an_attempt_after_the_end(story: Story, key: TaskKey) -> None:
    opened = Installation(story.settings)
    late_ms = key.scheduled_ms + 3_600_000
    opened.add_attempts([AttemptRecord(key, 2, AttemptResult.FAILURE, late_ms, late_ms + 1)])
    opened.close()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("load", "missing.parquet"), "the input cannot be read: Path does not exist"),
        (("load", "tasks.xml"), "give it with --format parquet, csv or json"),
        (("load", "a.csv", "--timezone", "Mars/Base"), "'Mars/Base' is unknown"),
        (("load", "a.csv", "--past", "maybe"), "--past 'maybe' is neither run nor reject"),
        (("load", "a.csv", "--column", "when"), "--column takes NAME=VALUE"),
        (("report", "r", "--from", "now", "--to", "now"), "begins before it ends"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    story: Story, arguments: tuple[str, ...], complaint: str
) -> None:
    """With the option or the file, and exit code 2."""
    said = story.invoke(*arguments, code=2)

    assert complaint in said
    assert "Traceback" not in said


def test_a_csv_with_naive_times_needs_a_zone(story: Story) -> None:
    """Each row says so, a torn line too; with the zone all are tasks."""
    file = story.folder / "old.csv"
    file.write_text(
        'due,customer,uniqueness_key,note\n2036-07-01 12:00:00,a,1,"x ""y"", z"\n'
        "2036-07-01 12:00:01,a,2,,,,\n"
    )
    columns = ("--column", "scheduled_time=due", "--column", "ordering_id=customer")

    without = story.run("load", str(file), *columns, "--dry-run", code=2)
    named = story.run("load", str(file), *columns, "--timezone", "Europe/Vienna", code=2)

    assert (without["tasks"], without["invalid"]) == (0, 2)
    reasons = sorted(each["reason"] for each in without["rejects"])
    assert "say which with --timezone" in reasons[0]
    assert reasons[1] == "the line does not have the columns of the file's first line"
    assert (named["tasks"], named["invalid"], named["logged"]) == (1, 1, 1)
