"""``df.write.format("hourhand")`` beside running nodes."""

import json
import threading
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from hourhand import Scheduler, Settings, Task
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.codec import encode_task
from hourhand.actors.model.task.links import Links, Then, encode_links
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.reading import read_metrics
from tests.pipeline.installation import settings_of
from tests.servers.cassandra import CassandraServer

pytestmark = pytest.mark.integration

WAIT_S = 60.0


def a_recorder(expected: int) -> tuple[type[TaskExecutor], list[str], threading.Event]:
    """Return an executor class, the uniqueness keys it ran, and when there are enough."""
    ran: list[str] = []
    enough = threading.Event()

    class Recorder(TaskExecutor):
        """Notes what it ran."""

        def execute(self, task: Task) -> None:
            """Note the task."""
            ran.append(task.uniqueness_key)
            if len(ran) >= expected:
                enough.set()

    return Recorder, ran, enough


def a_frame(
    spark: SparkSession, count: int, due_in: timedelta = timedelta(seconds=-1)
) -> DataFrame:
    """Return tasks that are due by now, of a few ordering ids."""
    at = datetime.now(UTC) + due_in
    return spark.createDataFrame(
        [(at, f"customer-{n % 7}", n, f'{{"n":{n}}}') for n in range(count)],
        "scheduled_time timestamp, ordering_id string, uniqueness_key int, data string",
    )


def test_tasks_written_beside_a_running_node_run_once(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    """Embedded: through the log, twice the same without a second run."""
    recorder, ran, enough = a_recorder(200)
    frame = a_frame(spark, 200)

    with Scheduler(settings_of(tmp_path / "data"), executor=recorder):
        write = frame.write.format("hourhand").mode("append").options(**options)
        write.option("metrics", str(tmp_path / "metrics")).save()
        assert enough.wait(WAIT_S)
        write.save()
        marker = spark.read.format("hourhand").options(table="statuses", **options).load()
        assert marker.where("result = 'success'").count() == 200

    assert sorted(map(int, ran)) == list(range(200))
    written = read_metrics(tmp_path / "metrics")
    assert sum(each["logged"] for each in written) == 400


def test_what_was_read_can_be_written_with_what_stands_beside_its_data(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    """Columns name them; a row that was read carries them in its data too."""
    ran: list[tuple[str, str, int | None, str]] = []
    enough = threading.Event()

    class Named(TaskExecutor):
        """Notes the kind it was called for."""

        def execute(self, task: Task) -> None:
            """Note the task."""
            ran.append((task.uniqueness_key, task.kind or "", task.priority, json.dumps(task.data)))
            if len(ran) == 4:
                enough.set()

    due = datetime.now(UTC) + timedelta(seconds=1)
    schema = (
        "scheduled_time timestamp, ordering_id string, uniqueness_key string, data string,"
        " kind string, priority int, links string"
    )
    follower = Task(ordering_id="b", scheduled_time=due, uniqueness_key="4", kind="mail")
    then = Then(msgspec.Raw(encode_task(follower)))
    pretended = '{"n":1,"hourhand.priority":9,"hourhand.kind":"refund"}'
    rows = [
        (due, "a", "1", "{}", "mail", 0, encode_links(Links(then)).decode()),
        (due, "a", "2", pretended, "mail", 3, None),
        (due, "a", "3", "{}", None, None, None),
    ]
    frame = spark.createDataFrame(rows, schema)

    with Scheduler(settings_of(tmp_path / "data"), executors={"mail": Named}, executor=Named):
        frame.write.format("hourhand").mode("append").options(**options).save()
        assert enough.wait(WAIT_S)

    assert sorted(ran) == [
        ("1", "mail", 0, "{}"),
        ("2", "mail", 3, json.dumps(json.loads(pretended))),
        ("3", "", None, "{}"),
        ("4", "mail", None, "{}"),
    ]


@pytest.mark.slow
def test_tasks_written_into_cassandra_run_on_the_node_beside(
    spark: SparkSession, cassandra_server: CassandraServer, tmp_path: Path
) -> None:
    """Rows due now are told to the node, rows of next month only lie in the store."""
    name = f"pipeline_{uuid.uuid4().hex[:8]}"
    settings = Settings(
        store="cassandra",
        cassandra={
            "contact_points": tuple(cassandra_server.addresses),
            "port": cassandra_server.port,
            "keyspace": name,
        },
        embedded={"folder": tmp_path / "data"},
        topic={"partitions": 4},
    )
    wiring.migrate(settings)
    options = {
        "store": "cassandra",
        "cassandra.contact_points": ",".join(cassandra_server.addresses),
        "cassandra.port": str(cassandra_server.port),
        "cassandra.keyspace": name,
        "embedded.folder": str(tmp_path / "data"),
        "topic.partitions": "4",
        "metrics": str(tmp_path / "metrics"),
    }
    recorder, ran, enough = a_recorder(50)
    due, later = a_frame(spark, 50), a_frame(spark, 500, timedelta(days=30))

    with Scheduler(settings, executor=recorder):
        for frame in (later, due):
            frame.write.format("hourhand").mode("append").options(**options).save()
        assert enough.wait(WAIT_S)
    states = spark.read.format("hourhand").options(table="states", **options).load()

    assert sorted(map(int, ran)) == list(range(50))
    written = read_metrics(tmp_path / "metrics")
    assert sum(each.get("batched", 0) for each in written) == 550
    assert sum(each.get("logged", 0) for each in written) == 50
    found = {row.state: row["count"] for row in states.groupBy("state").count().collect()}
    assert found == {"success": 50, "pending": 500}


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ("ordering_id string, uniqueness_key string, data string", "columns missing: scheduled_"),
        (
            "scheduled_time timestamp_ntz, ordering_id string, uniqueness_key string, data string",
            "timestamp is needed: a time without a zone must be given one first",
        ),
    ],
)
def test_a_frame_that_holds_no_tasks_is_refused_as_a_whole(
    spark: SparkSession, options: dict[str, str], columns: str, complaint: str
) -> None:
    """Before a row is written, with the column at fault."""
    frame = spark.createDataFrame([], columns)

    with pytest.raises(Exception, match=complaint):
        frame.write.format("hourhand").mode("append").options(**options).save()


def test_a_row_that_is_no_task_is_named(spark: SparkSession, options: dict[str, str]) -> None:
    """With its key and the reason."""
    frame = spark.createDataFrame(
        [(datetime.now(UTC), "customer-7", "x", "[1]")],
        "scheduled_time timestamp, ordering_id string, uniqueness_key string, data string",
    )

    with pytest.raises(
        Exception, match=r"'customer-7', 'x', '\[1\]'.* is not a task: data is not a JSON object"
    ):
        frame.write.format("hourhand").mode("append").options(**options).save()
