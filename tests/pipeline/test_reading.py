"""``spark.read.format("hourhand")``: what rows become, and which buckets are opened for a query."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from hourhand import Task
from hourhand.actors.model.operations.ownership import Straggler, initial_watermark
from hourhand.actors.model.task.codec import encode_task
from hourhand.actors.model.task.links import Links, Then, encode_links
from hourhand.actors.model.task.row_text import row_text
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    Completion,
    CompletionResult,
)
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.pipeline.reading import read_metrics
from hourhand.scheduler.tasks.grouping import group_of
from tests.builders import NOW_MS, a_completion
from tests.pipeline.installation import HOUR, Installation, key_at, settings_of

pytestmark = pytest.mark.integration


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    """An embedded installation of four partitions with nothing in it."""
    opened = Installation(settings_of(tmp_path / "data"))
    yield opened
    opened.close()


class Reading:
    """Reads a table and tells how many buckets that took."""

    def __init__(self, spark: SparkSession, options: dict[str, str], folder: Path) -> None:
        self._spark = spark
        self._options = options
        self._folder = folder
        self._reads = 0

    def table(self, name: str, **options: str) -> DataFrame:
        """Return a table of the installation; each call counts again."""
        self._reads += 1
        return (
            self._spark.read.format("hourhand")
            .options(table=name, metrics=str(self._metrics()), **self._options, **options)
            .load()
        )

    def buckets(self) -> int:
        """Return how many buckets the last table took."""
        return sum(each["buckets"] for each in read_metrics(self._metrics()))

    def _metrics(self) -> Path:
        return self._folder / f"metrics-{self._reads}"


@pytest.fixture
def reading(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> Reading:
    """Reads the installation of the test's folder."""
    return Reading(spark, options, tmp_path)


def test_every_column_of_a_task_arrives(installation: Installation, reading: Reading) -> None:
    """Times to the millisecond, data as it was written, in years Spark's own readers refuse."""
    ancient = key_at(0)._replace(scheduled_ms=-62_000_000_000_001)
    installation.add_tasks([key_at(0.5), ancient], data='{"ß":"\\u0000"}'.encode())

    rows = {row.scheduled_time: row for row in reading.table("tasks").collect()}

    row = max(rows.values(), key=lambda each: each.scheduled_time)
    assert len(rows) == 2
    assert row.partition == installation.partition(key_at(0.5))
    assert row.data == '{"ß":"\\u0000"}'
    assert (row.ordering_id, row.uniqueness_key) == ("customer-7", "invoice-42")
    millis = reading.table("tasks").select(f.unix_millis("scheduled_time"), f.unix_millis("hour"))
    assert sorted(map(tuple, millis.collect())) == [
        (ancient.scheduled_ms, ancient.scheduled_ms - ancient.scheduled_ms % 3_600_000),
        (key_at(0.5).scheduled_ms, HOUR),
    ]


def test_statuses_and_attempts_arrive(installation: Installation, reading: Reading) -> None:
    """With what is missing as null."""
    key = key_at(0)
    installation.add_completions(
        [a_completion(key=key, result=CompletionResult.MOVED, moved_to_ms=NOW_MS, for_good=True)]
    )
    installation.add_attempts(
        [AttemptRecord(key, 3, AttemptResult.FAILURE, NOW_MS, error_class="ValueError", fence=9)]
    )

    (status,) = reading.table("statuses").collect()
    (attempt,) = reading.table("attempts").collect()

    assert (status.result, status.for_good, status.reason) == ("moved", True, None)
    assert status.moved_to is not None
    assert (attempt.attempt, attempt.result, attempt.finished) == (3, "failure", None)
    assert (attempt.error_class, attempt.fence, attempt.suspect) == ("ValueError", 9, False)


@pytest.mark.parametrize("further", [{}, {"bucketsPerTask": "1"}], ids=["whole", "buckets"])
def test_columns_are_those_named(
    installation: Installation, reading: Reading, further: dict[str, str]
) -> None:
    """In the table's order; buckets are counted whatever is read of them."""
    installation.add_tasks([key_at(0.5), key_at(1.5)], data=b'{"a":1}')

    table = reading.table("tasks", columns="data, hour", **further)
    rows = table.select(f.unix_millis("hour"), "data").collect()

    assert table.columns == ["hour", "data"]
    assert sorted(map(tuple, rows)) == [(HOUR, '{"a":1}'), (HOUR + 3_600_000, '{"a":1}')]
    assert reading.buckets() == 2
    assert reading.table("tasks", columns="ordering_id", **further).distinct().count() == 1


@pytest.mark.parametrize("further", [{}, {"bucketsPerTask": "1"}], ids=["whole", "buckets"])
@pytest.mark.parametrize("table", ["tasks", "states"])
def test_a_kind_is_a_column(
    installation: Installation, reading: Reading, table: str, further: dict[str, str]
) -> None:
    """Null where the task has none; a query can filter by it."""
    trace = f'"hourhand.traceparent":"00-{32 * "a"}-{16 * "b"}-01"'
    stored = {
        "plain": '{"kind":"no"}',
        "mail": '{"n":1,"hourhand.kind":"send-mail"}',
        "traced": f'{{"hourhand.kind":"send-mail",{trace}}}',
        "quoted": '{"hourhand.kind":"a","text":"\\"hourhand.kind\\":\\"b"}',
    }
    for name, data in stored.items():
        installation.add_tasks([key_at(0, uniqueness_key=name)], data=data.encode())

    found = reading.table(table, **further)
    kinds = {row.uniqueness_key: row.kind for row in found.collect()}
    texts = {row.uniqueness_key: row.data for row in found.collect()}
    mails = reading.table(table, **further).where("kind = 'send-mail'")
    others = reading.table(table, columns="uniqueness_key, kind").where("kind IS NULL")

    assert kinds == {"plain": None, "mail": "send-mail", "traced": "send-mail", "quoted": None}
    assert texts == {**stored, "mail": '{"n":1}', "traced": "{}"}
    assert {row.uniqueness_key for row in mails.collect()} == {"mail", "traced"}
    assert sorted(map(tuple, others.collect())) == [("plain", None), ("quoted", None)]
    assert "kind" not in reading.table("statuses").columns


@pytest.mark.parametrize("table", ["tasks", "states"])
def test_a_priority_is_a_column(installation: Installation, reading: Reading, table: str) -> None:
    """Null where the task has that of its kind."""
    stored = {
        "plain": '{"priority":3}',
        "urgent": '{"n":1,"hourhand.priority":9}',
        "alone": '{"hourhand.priority":0}',
        "low": '{"hourhand.priority":-5,"hourhand.kind":"send-mail"}',
        "quoted": '{"hourhand.priority":4,"n":1}',
    }
    for name, data in stored.items():
        installation.add_tasks([key_at(0, uniqueness_key=name)], data=data.encode())

    found = {row.uniqueness_key: row.priority for row in reading.table(table).collect()}
    urgent = reading.table(table, columns="uniqueness_key, priority").where("priority > 0")

    assert found == {"plain": None, "urgent": 9, "alone": 0, "low": -5, "quoted": None}
    assert list(map(tuple, urgent.collect())) == [("urgent", 9)]


@pytest.mark.parametrize("table", ["tasks", "states"])
def test_what_follows_a_task_is_in_columns(
    installation: Installation, reading: Reading, table: str
) -> None:
    """Its key, the group that counts its end, and all of it as JSON; null where nothing follows."""
    mail = Task(ordering_id="mails", scheduled_time=from_millis(HOUR), uniqueness_key="1")
    plain = Task(ordering_id="a", scheduled_time=from_millis(HOUR), uniqueness_key="1")
    admitted = plain.key, encode_task(plain)
    grouped = group_of([admitted], (mail.key, encode_task(mail)), "any", HOUR)
    (_, member), report = grouped.members[0], grouped.request[0]
    links = {
        "alone": encode_links(Links(Then(msgspec.Raw(encode_task(mail))))),
        "member": json.dumps(json.loads(member)["links"]).encode(),
        "none": None,
    }
    for name, each in links.items():
        text = row_text(b'{"n":1}', "send-mail", links=each)
        installation.add_tasks([key_at(0, uniqueness_key=name)], data=text)

    found = {row.uniqueness_key: row for row in reading.table(table).collect()}
    group = report.ordering_id.rpartition(":")[2]
    followers = {name: (row.follower, row.group_id) for name, row in found.items()}
    assert followers == {
        "alone": (str(mail.key), None),
        "member": (str(report._replace(uniqueness_key="member-000")), group),
        "none": (None, None),
    }
    for name, row in found.items():
        assert (row.kind, row.data) == ("send-mail", '{"n":1}')
        assert row.links == (None if (of := links[name]) is None else of.decode())
    members = reading.table(table, columns="uniqueness_key, group_id").where(
        f"group_id = '{group}'"
    )
    assert list(map(tuple, members.collect())) == [("member", group)]


def test_a_snoozed_task_says_how_often(installation: Installation, reading: Reading) -> None:
    """In its state, of the attempt that is not over."""
    installation.add_tasks([key_at(0)])
    snoozed = AttemptRecord(key_at(0), 2, AttemptResult.SNOOZED, NOW_MS, NOW_MS, HOUR, snoozed=3)
    installation.add_attempts([snoozed])

    (row,) = reading.table("states").collect()

    assert (row.state, row.attempts, row.snoozed) == ("snoozed", 2, 3)


def test_the_state_of_a_swept_task_has_no_kind(
    installation: Installation, reading: Reading
) -> None:
    """Its data is gone, and the kind with it."""
    installation.add_completions([a_completion(key=key_at(0))])

    (row,) = reading.table("states").collect()

    assert (row.state, row.data, row.kind) == ("success", None, None)


def test_a_column_that_is_none_is_refused(reading: Reading) -> None:
    """With those there are."""
    with pytest.raises(Exception, match="table states has no column 'write_time': choose of part"):
        reading.table("states", columns="state,write_time")


def test_a_time_range_opens_only_its_buckets(installation: Installation, reading: Reading) -> None:
    """Ten hours are stored; a query over two of them opens two."""
    installation.add_tasks([key_at(hour) for hour in range(10)])
    start = from_millis(HOUR + 3 * 3_600_000)

    table = reading.table("tasks")
    rows = table.where(
        (f.col("scheduled_time") >= start) & (f.col("scheduled_time") < start + timedelta(hours=2))
    ).count()

    assert rows == 2
    assert reading.buckets() == 2


@pytest.mark.parametrize(
    ("condition", "rows", "buckets"),
    [
        ("ordering_id IN ('customer-8') AND hour >= timestamp_millis({hour})", 1, 1),
        ("partition = 99", 0, 0),
        ("scheduled_time < timestamp_millis({hour}) OR ordering_id = 'customer-8'", 1, 4),
    ],
)
def test_filters_decide_which_buckets_are_opened(
    installation: Installation, reading: Reading, condition: str, rows: int, buckets: int
) -> None:
    """What cannot be pushed down opens everything, and is still right."""
    installation.add_tasks([key_at(hour) for hour in range(3)])
    installation.add_tasks([key_at(1.5, "customer-8")])
    assert installation.partition(key_at(0)) != installation.partition(key_at(0, "customer-8"))

    count = reading.table("tasks").where(condition.format(hour=HOUR)).count()

    assert count == rows
    assert reading.buckets() == buckets


def test_open_states_open_no_bucket_before_the_watermark(
    installation: Installation, reading: Reading
) -> None:
    """Everything before it is closed, except for what stragglers hold up."""
    keys = [key_at(hour) for hour in range(6)]
    installation.add_tasks(keys)
    installation.add_completions([a_completion(key=key, offset=9) for key in keys[:4]])
    owner = installation.partition(keys[0])
    ownership = installation.stores.ownership
    claim = ownership.claim(owner, HOUR).result(30)
    mark = initial_watermark(keys[4].scheduled_ms)
    ownership.save_watermark(owner, claim.epoch, mark).result(30)

    pending = reading.table("states").where("state = 'pending'")

    assert [row.scheduled_time.hour for row in pending.collect()] == [
        from_millis(key.scheduled_ms).hour for key in keys[4:]
    ]
    assert reading.buckets() == 2

    stragglers = (Straggler("customer-7", keys[2].scheduled_ms),)
    held = msgspec.structs.replace(mark, stragglers=stragglers)
    ownership.save_watermark(owner, claim.epoch, held).result(30)
    reading.table("states").where("state IN ('pending', 'blocked')").collect()
    assert reading.buckets() == 4


def test_states_tell_what_rows_say_together(installation: Installation, reading: Reading) -> None:
    """One row a key, also for a key whose schedule row was swept."""
    pending, done, retrying, swept = (key_at(0, uniqueness_key=name) for name in "abcd")
    installation.add_tasks([pending, done, retrying])
    installation.add_completions(
        [
            a_completion(key=done, offset=9),
            Completion(
                swept, CompletionResult.FAILURE, 9, attempts=5, finished_ms=NOW_MS, reason="gone"
            ),
        ]
    )
    installation.add_attempts(
        [AttemptRecord(retrying, 2, AttemptResult.FAILURE, NOW_MS, NOW_MS, NOW_MS + 5)]
    )

    rows = {row.uniqueness_key: row for row in reading.table("states").collect()}

    assert {name: row.state for name, row in rows.items()} == {
        "a": "pending",
        "b": "success",
        "c": "retrying",
        "d": "failure",
    }
    assert (rows["d"].attempts, rows["d"].reason, rows["d"].data) == (5, "gone", None)
    assert rows["c"].attempts == 2


def test_a_secret_is_no_option(spark: SparkSession, options: dict[str, str]) -> None:
    """It would stand in plans and logs."""
    read = spark.read.format("hourhand").options(**options).option("kafka.password", "hunter2")

    with pytest.raises(Exception, match="is a secret, which would stand in Spark's plans") as error:
        read.load()
    assert "hunter2" not in str(error.value)


def test_plans_hold_no_credentials(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    """A settings file is named, not copied."""
    config = tmp_path / "hourhand.toml"
    config.write_text('[kafka]\nusername = "reader"\npassword = "hunter2"\n')

    table = spark.read.format("hourhand").options(config=str(config), **options).load()

    query = table.where("partition = 1")
    assert query.count() == 0
    assert "hunter2" not in query._jdf.queryExecution().toString()
