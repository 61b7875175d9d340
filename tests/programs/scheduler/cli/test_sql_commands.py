"""``hourhand sql``, over a real embedded installation and over the files of an export."""

import csv
import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import msgspec
import pytest

from hourhand import Done, RetryPolicy, Scheduler, Task, TaskExecutor
from hourhand.actors.model.task.codec import encode_task
from hourhand.actors.model.task.expiry import read_expiry
from hourhand.actors.model.task.links import Links, Then, encode_links
from hourhand.actors.model.task.row_text import row_text
from tests.unit.scheduler.cli.commands import invoke, settings_of
from tests.waiting import until


class _Refuse(TaskExecutor):
    retry = RetryPolicy(attempts_max=1)

    def execute(self, task: Task) -> Done:
        amount = task.data["amount"]
        assert isinstance(amount, int)
        if amount == 0:
            raise ValueError("nothing to pay")
        return Done({"fee": amount / 10})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an installation with two tasks that ended and one that waits."""
    folder = tmp_path_factory.mktemp("sql") / "data"
    now = datetime.now(UTC)
    with Scheduler(settings_of(folder), executor=_Refuse) as scheduler:
        ended = [_task("paid", now, 7), _task("refused", now, 0)]
        for task in (*ended, _task("later", now + timedelta(hours=1), 9)):
            scheduler.schedule_task(task).result(timeout=60)
        for task in ended:
            scheduler.wait_task(task.key, timeout=30)
        _schedule_followed(scheduler, now)
    return folder


def _schedule_followed(scheduler: Scheduler, now: datetime) -> None:
    """Have one task follow one that ended, and another a group; all beyond the usual window."""
    in_days = now + timedelta(days=3)
    mail, page = _task("mail", in_days, 1), _task("page", in_days, 1)
    first = _task("first", in_days - timedelta(days=1), 1)
    scheduler.schedule_task(first, then=mail, on="any").result(timeout=60)
    expiring = Task(**{**dict(page), "expires": timedelta(hours=1)})
    scheduler.group([expiring], then=_task("report", in_days, 1)).result(timeout=60)
    scheduler.cancel_task(first.key).result(timeout=60)
    until(lambda: all(scheduler.find_task(each.key).is_open for each in (mail, page)))


def _task(name: str, at: datetime, amount: int) -> Task:
    return Task(
        ordering_id=name, scheduled_time=at, uniqueness_key="ü,\n1", data={"amount": amount}
    )


def _rows(folder: Path, question: str, *more: str) -> list[dict[str, object]]:
    result = invoke(folder, "sql", question, "-o", "json", *more)
    assert result.exit_code == 0, result.output
    found: list[dict[str, object]] = json.loads(result.stdout)
    return found


def test_states_and_data_of_live_tasks_are_counted(folder: Path) -> None:
    """Open and closed ones; data is JSON that a query looks into."""
    assert _rows(folder, "SELECT state, count(*) AS n FROM tasks GROUP BY ALL ORDER BY state") == [
        {"state": "failure", "n": 1},
        {"state": "pending", "n": 1},
        {"state": "success", "n": 1},
    ]
    total = "SELECT sum((data->>'amount')::int)::int AS total FROM tasks"
    assert _rows(folder, total) == [{"total": 16}]


def test_completions_and_attempts_say_what_happened(folder: Path) -> None:
    """With the error of an attempt, and the value that a task ended with."""
    ended = _rows(folder, "SELECT ordering_id FROM completions ORDER BY 1")
    assert ended == [{"ordering_id": "paid"}, {"ordering_id": "refused"}]
    failed = "SELECT ordering_id, error_class FROM attempts WHERE error_class IS NOT NULL"
    assert _rows(folder, failed) == [{"ordering_id": "refused", "error_class": "ValueError"}]
    fees = "SELECT ordering_id, result->>'fee' AS fee FROM tasks WHERE result IS NOT NULL"
    assert _rows(folder, fees) == [{"ordering_id": "paid", "fee": "0.7"}]


def test_what_follows_is_told_with_its_group(folder: Path) -> None:
    """Of a task that has a follower, of a member of a group, and of one that follows."""
    question = (
        "SELECT ordering_id, follower, group_id, after->0->>'state' AS after, snoozed,"
        " epoch(expires - scheduled_time)::int AS expires_s FROM tasks"
        " WHERE ordering_id IN ('first', 'mail', 'page') ORDER BY 1"
    )
    first, mail, page = _rows(folder, question, "--from", "+1d", "--to", "+4d")

    assert str(first["follower"]).endswith(",mail,%C3%BC%2C%0A1")
    assert (first["group_id"], first["snoozed"], first["expires_s"]) == (None, 0, None)
    assert (mail["follower"], mail["after"]) == (None, "cancelled")
    assert f"hourhand%3Agroup%3A{page['group_id']},member-000" in str(page["follower"])
    assert page["expires_s"] == 3_600


def test_an_export_has_what_stands_beside_the_data(folder: Path, tmp_path: Path) -> None:
    """Made of the text of each row; nothing in the data chooses any of it."""
    report = Task.model_construct(
        ordering_id="hourhand:group:00ff",
        scheduled_time=datetime(2026, 1, 1, tzinfo=UTC),
        uniqueness_key="member-000",
        data={},
    )
    links = encode_links(Links(Then(msgspec.Raw(encode_task(report)), "any")))
    forged = b'{"hourhand.kind":"refund","hourhand.priority":9}'
    rows = {
        "member": row_text(b'{"n":1}', "mail", 5, links=links, expiry=read_expiry("PT1H")),
        "plain": row_text(forged),
    }
    (tmp_path / "manifest").mkdir()
    tables = {
        "tasks": "TIMESTAMPTZ '2026-01-01 00:00:00Z' AS scheduled_time, unnest(?) AS name,"
        " unnest(?) AS data",
        "statuses": "unnest(['dropped', 'dropped']) AS result, unnest([true, false]) AS for_good",
        "attempts": "unnest(['hourhand.snoozed', 'hourhand.snoozed', 'E']) AS error_class,"
        " unnest(['3', 'own', '4']) AS error_message",
    }
    for name, columns in tables.items():
        (tmp_path / name).mkdir()
        values = [[*rows], [each.decode() for each in rows.values()]] if name == "tasks" else []
        _write(tmp_path / name / "part-0.parquet", f"SELECT {columns}", values)

    question = "SELECT name, kind, priority, expires, follower, group_id FROM tasks ORDER BY name"
    member, plain = _rows(folder, question, "--export", str(tmp_path))
    assert [*plain.values()] == ["plain", None, None, None, None, None]
    assert (member["kind"], member["priority"]) == ("mail", 5)
    assert member["expires"] == "2026-01-01T01:00:00Z"
    assert (member["follower"], member["group_id"]) == (str(report.key), "00ff")
    states = _rows(folder, "SELECT state FROM statuses", "--export", str(tmp_path))
    assert [each["state"] for each in states] == ["expired", "dropped"]
    snoozed = _rows(folder, "SELECT snoozed FROM attempts", "--export", str(tmp_path))
    assert [each["snoozed"] for each in snoozed] == [3, 0, 0]


def test_a_window_leaves_out_what_is_due_elsewhere_and_is_bounded(folder: Path) -> None:
    """A window that holds too much is refused, as part of it would answer wrongly."""
    assert _rows(folder, "SELECT count(*) AS n FROM tasks", "--to", "+1m") == [{"n": 2}]

    refused = invoke(folder, "sql", "SELECT 1", "--rows-max", "2")
    assert refused.exit_code == 2
    assert "more than 2 tasks" in refused.stderr
    backwards = invoke(folder, "sql", "SELECT 1", "--from", "+2d")
    assert "must be before --to" in backwards.stderr


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("DELETE FROM tasks", "one statement that reads"),
        ("SELECT 1; SELECT 2", "one statement that reads"),
        ("COPY tasks TO 'here.csv'", "one statement that reads"),
        ("ATTACH 'other.db'", "one statement that reads"),
        ("SET threads = 1", "one statement that reads"),
        ("", "one statement that reads"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled by configuration"),
        ("SELECT * FROM 'hourhand.toml'", "tables: attempts, completions, tasks"),
        ("SELECT nothing FROM tasks", "nothing"),
        ("SELEKT", "syntax error"),
    ],
)
def test_what_is_not_a_question_is_refused_in_one_line(
    folder: Path, question: str, said: str
) -> None:
    """It is the caller's mistake, and has a code."""
    result = invoke(folder, "sql", question)

    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert "invalid-query" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_rows_are_printed_for_people_for_spreadsheets_and_not_without_end(folder: Path) -> None:
    """A cell is one line in a table, and what it is in CSV."""
    question = "SELECT ordering_id, uniqueness_key, kind FROM tasks ORDER BY 1"
    table = invoke(folder, "sql", question, "--limit", "1")
    assert table.stdout.splitlines()[0].split() == ["ordering_id", "uniqueness_key", "kind"]
    assert len(table.stdout.splitlines()) == 2
    assert "more than 1 rows" in table.stderr

    printed = invoke(folder, "sql", question, "-o", "csv").stdout
    assert list(csv.reader(io.StringIO(printed)))[1] == ["later", "ü,\n1", ""]


def test_times_are_in_utc(folder: Path) -> None:
    """Whatever zone the machine is in."""
    (row,) = _rows(folder, "SELECT scheduled_time FROM tasks WHERE state = 'pending'")
    at = datetime.fromisoformat(str(row["scheduled_time"]))
    assert str(row["scheduled_time"]).endswith("Z")
    assert at > datetime.now(UTC)


def test_an_export_is_asked_and_nothing_beside_it(folder: Path, tmp_path: Path) -> None:
    """Its files are read; those of a folder beside it are not."""
    export = tmp_path / "it's today"
    (export / "tasks").mkdir(parents=True)
    (export / "manifest").mkdir()
    _write(export / "tasks/part-0.parquet", "SELECT 'a' AS kind, 1 AS n")
    _write(export / "tasks/part-1.parquet", "SELECT 'b' AS kind, 2 AS n")
    _write(tmp_path / "other.parquet", "SELECT 3 AS n")

    found = _rows(folder, "SELECT kind, n FROM tasks ORDER BY n", "--export", str(export))
    assert found == [{"kind": "a", "n": 1}, {"kind": "b", "n": 2}]
    beside = f"FROM read_parquet('{tmp_path}/other.parquet')"
    assert "disabled" in invoke(folder, "sql", beside, "--export", str(export)).stderr


def _write(file: Path, query: str, values: Sequence[object] = ()) -> None:
    with duckdb.connect() as connection:
        path = str(file).replace("'", "''")
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)", values)


def test_a_folder_without_an_export_is_refused(folder: Path, tmp_path: Path) -> None:
    """As one that was stopped before its manifest was written."""
    result = invoke(folder, "sql", "SELECT 1", "--export", str(tmp_path))

    assert result.exit_code == 2
    assert "no complete export" in result.stderr
