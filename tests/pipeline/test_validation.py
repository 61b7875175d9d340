"""Which rows of somebody's file are tasks, and what the others are told."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.kind import split_kind
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.priority import split_members
from hourhand.actors.model.task.sealed import sealing_of
from hourhand.actors.model.task.task import ID_BYTES_MAX
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, INSTANT_MIN_MS
from hourhand.scheduler.pipeline.columns import (
    data_of_texts,
    expiries_of,
    followers_of,
    group_ids_of,
    kinds_of,
    links_of,
    priorities_of,
)
from hourhand.scheduler.pipeline.transform_load import times_of
from hourhand.scheduler.pipeline.validation import (
    LoadRules,
    checked_timezone,
    millis_of,
    partitions_of,
    plain_tasks,
    validate,
    validate_line,
)

AT_MS = 1_770_601_272_959
AT = "2026-02-09T01:41:12.959Z"
RULES = LoadRules(partition_count=4, oldest_ms=INSTANT_MIN_MS, record_bytes_max=1_000)
VIENNA = LoadRules(4, INSTANT_MIN_MS, 1_000, "Europe/Vienna")
NOON_MS = 1_770_638_400_000
NOON_RULES = LoadRules(partition_count=4, oldest_ms=NOON_MS, record_bytes_max=1_000)
LAX = LoadRules(4, INSTANT_MIN_MS, 1_000_000)
MICROS = pa.timestamp("us", tz="UTC")
Row = tuple[Any, ...]
SOUND: Row = (NOON_MS, "customer-7", "x", '{"n":1}')


@pytest.mark.parametrize(
    ("rules", "time", "expected_ms"),
    [
        (RULES, AT, AT_MS),
        (RULES, "2026-02-09T02:41:12.959999+01:00", AT_MS),
        (RULES, AT_MS, AT_MS),
        (RULES, datetime(2026, 2, 9, 1, 41, 12, 959_999, tzinfo=UTC), AT_MS),
        (VIENNA, "2026-02-09T02:41:12.959", AT_MS),
        (VIENNA, "2026-02-09 02:41:12.959", AT_MS),
        (VIENNA, AT, AT_MS),
    ],
)
def test_times_are_instants(rules: LoadRules, time: object, expected_ms: int) -> None:
    """With a zone, or with the one that was named for all."""
    task, reason = validate(rules, time, "customer-7", "x", "{}")

    assert reason is None
    assert task is not None
    assert task.key == TaskKey(expected_ms, "customer-7", "x")


@pytest.mark.parametrize(
    ("time", "ordering_id", "uniqueness_key", "data", "complaint"),
    [
        ("2026-02-09T01:41:12", "a", "x", "{}", "has no time zone: say which with --timezone"),
        ("tomorrow", "a", "x", "{}", "is not an RFC 3339 instant"),
        (None, "a", "x", "{}", "a time is needed"),
        (1.5, "a", "x", "{}", "a time is needed"),
        (10**18, "a", "x", "{}", "is not within the years 1 to 9999"),
        (AT, None, "x", "{}", "ordering_id is missing"),
        (AT, "", "x", "{}", "ordering_id is empty"),
        (AT, "a", None, "{}", "uniqueness_key is missing"),
        (AT, "a", "x", "[1]", "data is not a JSON object"),
        (AT, "a", "x", '{"n":NaN}', "data is not a JSON object"),
        (AT, "a", "x", '{"n":"' + 1_000 * "x" + '"}', "at most 1000 are allowed"),
        (AT, "ä" * 20_000, "x", "{}", "ordering_id is longer than"),
    ],
)
def test_what_is_no_task_is_told_why(
    time: object, ordering_id: object, uniqueness_key: object, data: Any, complaint: str
) -> None:
    """The value and what to do; never an exception that ends the load."""
    task, reason = validate(RULES, time, ordering_id, uniqueness_key, data)

    assert task is None
    assert complaint in str(reason)


def test_a_time_that_clocks_skipped_is_refused() -> None:
    """Guessing would be early or late by an hour."""
    task, reason = validate(VIENNA, "2026-03-29T02:30:00", "a", "x", None)

    assert task is None
    assert "does not exist in Europe/Vienna" in str(reason)


def test_the_past_is_refused_from_the_moment_named() -> None:
    """Exactly that moment is accepted."""
    rules = LoadRules(4, AT_MS, 1_000)

    assert validate(rules, AT_MS, "a", "x", None).task is not None
    assert "--past run accepts it" in str(validate(rules, AT_MS - 1, "a", "x", None).reason)


def test_an_empty_uniqueness_key_is_one() -> None:
    """As in the log."""
    assert validate(RULES, AT, "a", "", "").task is not None


def test_a_line_keeps_its_data_as_it_was_written() -> None:
    """Numbers, order and spaces; in the log's own names or in others."""
    data = '{"b": 1.0,  "a": 1e3}'
    line = f'{{"scheduledTime":"{AT}","orderingId":"a","uniquenessKey":7,"taskData":{data}}}'
    renamed = f'{{"when":"{AT}","ordering_id":"a","uniqueness_key":"7","data":{data}}}'

    first, _ = validate_line(RULES, line, {})
    second, _ = validate_line(RULES, renamed, {"scheduled_time": "when"})

    assert first is not None
    assert first.data == data.encode()
    assert first == second


def test_a_line_of_the_log_keeps_its_kind() -> None:
    """In the row's data, where a node looks for it."""
    line = f'{{"scheduledTime":"{AT}","orderingId":"a","uniquenessKey":"7","taskData":{{"n":1}},'

    task, _ = validate_line(RULES, line + '"kind":"send-mail"}', {})
    refused, reason = validate_line(RULES, line + '"kind":"send mail"}', {})

    assert task is not None
    assert split_kind(task.body) == ("send-mail", b'{"n":1}')
    assert refused is None
    assert "'send mail' is not a kind: write at most 64 letters" in str(reason)


@pytest.mark.parametrize("expires", ["PT3600S", "2026-02-09T01:41:12.959Z"])
def test_a_line_of_the_log_keeps_its_expiry(expires: str) -> None:
    """The columns of its row have it, and the kind that is the task's."""
    line = f'{{"scheduledTime":"{AT}","orderingId":"a","uniquenessKey":"7","taskData":{{"n":1}},'

    task, _ = validate_line(RULES, f'{line}"kind":"mail","priority":5,"expires":"{expires}"}}', {})
    refused, reason = validate_line(RULES, line + '"expires":"soon"}', {})

    assert task is not None and refused is None and "soon" in str(reason)
    texts = [task.body.decode(), "{}"]
    assert (expiries_of(texts), kinds_of(texts)) == ([expires, None], ["mail", None])
    assert (priorities_of(texts), data_of_texts(texts)) == ([5, None], ['{"n":1}', "{}"])


@pytest.mark.parametrize("written", ["5", '"5"'])
def test_a_line_of_the_log_keeps_its_priority(written: str) -> None:
    """Before its kind; a text of digits is one too, as a CSV has no numbers."""
    line = f'{{"scheduledTime":"{AT}","orderingId":"a","uniquenessKey":"7","taskData":{{"n":1}},'

    task, _ = validate_line(RULES, f'{line}"kind":"mail","priority":{written}}}', {})
    renamed, _ = validate_line(RULES, f'{line}"urgency":{written}}}', {"priority": "urgency"})

    assert task is not None and renamed is not None
    assert split_members(task.body) == ("mail", 5, b'{"n":1}')
    assert split_members(renamed.body) == (None, 5, b'{"n":1}')


@pytest.mark.parametrize("priority", [None, "", 0, "0", "-0"])
def test_a_priority_that_is_missing_is_none_and_0_is_one(priority: object) -> None:
    """Nothing in the data is one."""
    pretended = '{"hourhand.priority":7}'

    for data in ('{"n":1}', pretended):
        task, _ = validate(RULES, AT, "a", "x", data, None, priority)

        assert task is not None
        assert task.priority == (None if priority in {None, ""} else 0)
        assert task.to_task().data == json.loads(data)


@pytest.mark.parametrize("wrong", [101, "-101", "high", "5.0", 5.0, True, "99999999999", " 5"])
def test_what_is_not_a_priority_is_no_task(wrong: object) -> None:
    """In a batch and alone, with the bounds."""
    task, reason = validate(RULES, AT, "a", "x", "{}", None, wrong)

    assert task is None
    assert "is not a priority: write a whole number from -100 to 100" in str(reason)
    columns = batch_of((NOON_MS, "a", "x", "{}", None, str(wrong)))
    assert plain_tasks(NOON_RULES, *columns) is None


@pytest.mark.parametrize("kind", [None, "", "mail"])
def test_data_chooses_neither_kind_nor_priority_nor_seal(kind: str | None) -> None:
    """Whoever wrote it: the columns of the file say them, and it arrives as it is."""
    data = (
        '{"hourhand.sealed":{"steps":[{"codec":"x"}],"data":""},"hourhand.priority":9,'
        f'"hourhand.kind":"refund","hourhand.traceparent":"00-{32 * "a"}-{16 * "b"}-01"}}'
    )

    task, _ = validate(RULES, AT, "a", "x", data, kind)

    assert task is not None
    assert (task.kind, task.priority) == (kind or None, None)
    assert type(task.to_task().data) is dict and task.to_task().data == json.loads(data)


def test_stored_rows_keep_what_stands_beside_their_data() -> None:
    """As archives of versions before have them, with trace and envelope; nothing is added."""
    text = '{"n":1,"hourhand.kind":"send-mail","hourhand.traceparent":"00-%s-%s-01"}'
    stored = text % (32 * "a", 16 * "b")

    task, _ = validate(replace(RULES, stored=True), AT, "a", "x", stored, "send-mail")

    assert task is not None
    assert task.body == stored.encode()


@pytest.mark.parametrize("sealed", [False, True])
def test_links_stand_beside_the_data(*, sealed: bool) -> None:
    """In a column, and in a line of the log: the row has them, and its columns say them again."""
    report = TaskKey(0, "hourhand:group:00ff", "member-001")
    follower = {"orderingId": report.ordering_id, "uniquenessKey": report.uniqueness_key}
    task = {**follower, "scheduledTime": "1970-01-01T00:00:00.000Z", "taskData": {}, "version": 1}
    links = json.dumps({"then": {"task": task, "on": "any"}}, separators=(",", ":"))
    seal = '{"steps":[{"codec":"x"}],"data":"AA=="}' if sealed else None
    line = f'{{"orderingId":"a","scheduledTime":"{AT}","uniquenessKey":"x","taskData":{{"n":1}}'

    column, _ = validate(RULES, AT, "a", "x", '{"n":1}', "mail", seal=seal, links=links)
    beside = f',"kind":"mail","links":{links},"seal":{seal or "null"}}}'
    read, _ = validate_line(RULES, line + beside, {})
    assert column is not None and read is not None and column.body == read.body
    assert column.links is not None and column.links.follower == report
    texts = [column.body.decode(), '{"hourhand.links":[2,{}],"n":1}', None]
    assert links_of(texts) == [links, None, None]
    assert followers_of(texts) == [str(report), None, None]
    assert group_ids_of(texts) == ["00ff", None, None]
    assert (kinds_of(texts[:1]), data_of_texts(texts[:1])) == (["mail"], ['{"n":1}'])

    for wrong in ('{"then":{"task":{}}}', "[]", '{"then":{"task":{"command":"cancel"}}}'):
        refused, reason = validate(RULES, AT, "a", "x", "{}", links=wrong)
        assert refused is None and "links is" in str(reason)


def test_a_seal_stands_beside_the_data() -> None:
    """In a column, and in a line of the log; what is none is told."""
    seal = '{"steps":[{"codec":"x"}],"data":"AA=="}'
    line = f'{{"orderingId":"a","scheduledTime":"{AT}","uniquenessKey":"x","taskData":{{"n":1}}'

    column, _ = validate(RULES, AT, "a", "x", '{"n":1}', seal=seal)
    read, _ = validate_line(RULES, f'{line},"seal":{seal}}}', {})
    wrong = validate(RULES, AT, "a", "x", '{"n":1}', seal="{}").reason

    assert column is not None and read is not None
    assert column.body == read.body and sealing_of(column.body) == "sealed with x"
    assert column.data == b'{"n":1}'
    assert "seal is '{}': the envelope of sealed data is needed" in str(wrong)


@pytest.mark.parametrize("line", ["[1]", "{", '"text"', '{"orderingId":"a"}', "NaN"])
def test_a_line_that_is_none_is_told_why(line: str) -> None:
    """And the next one is read."""
    assert validate_line(RULES, line, {}).reason is not None


def test_an_unknown_zone_is_refused_before_anything_is_read() -> None:
    """With the names that are known."""
    assert checked_timezone("Europe/Vienna") == "Europe/Vienna"
    with pytest.raises(InvalidTask, match="'Mars/Base' is unknown: write a name as"):
        checked_timezone("Mars/Base")
    with pytest.raises(InvalidTask, match="'localtime' is another zone on another machine"):
        checked_timezone("localtime")


def batch_of(*rows: Row) -> list[pa.Array]:
    """Return the columns of rows; a time is milliseconds."""
    times, *texts = zip(*((*row, None, None)[:6] for row in rows), strict=True)
    return [pa.array(times, pa.int64()), *(pa.array(each, pa.string()) for each in texts)]


def one_by_one(rules: LoadRules, *rows: Row) -> list[tuple[Any, ...]]:
    """Return key and data of the tasks that rows are, judged alone; all of them must be."""
    tasks = [validate(rules, *row).task for row in rows]
    return [(*task.key, task.body) for task in tasks if task is not None]


@pytest.mark.parametrize(
    "row",
    [
        SOUND,
        (NOON_MS + 1, "customer-ä", "", ' { "b" : 1.0, "a":1e3 } '),
        (NOON_MS, "a", "x", None),
        (NOON_MS, "a", "x", ""),
        (INSTANT_MAX_MS, "a", "\0", "{}"),
        (NOON_MS, "a", "x", "{}", "send-mail"),
        (NOON_MS, "a", "x", '{"n":1,"hourhand.kind":"charge"}', "send-mail"),
        (NOON_MS, "a", "x", '{"n":1,"hourhand.kind":"charge"}', ""),
        (NOON_MS, "a", "x", "{}", "send-mail", "-100"),
        (NOON_MS, "a", "x", '{"hourhand.priority":7}', None, "0"),
    ],
)
def test_a_batch_of_tasks_is_what_its_rows_are(row: Row) -> None:
    """The same keys and bytes as row by row, data that is missing included."""
    found = plain_tasks(NOON_RULES, *batch_of(SOUND, row))

    assert found is not None
    columns = [each.to_pylist() for each in found]
    assert list(zip(*columns, strict=True)) == one_by_one(NOON_RULES, SOUND, row)


@pytest.mark.parametrize(
    "row",
    [
        (NOON_MS - 1, "a", "x", "{}"),
        (INSTANT_MAX_MS + 1, "a", "x", "{}"),
        (None, "a", "x", "{}"),
        (NOON_MS, None, "x", "{}"),
        (NOON_MS, "", "x", "{}"),
        (NOON_MS, "a", None, "{}"),
        (NOON_MS, "a", "x", "[1]"),
        (NOON_MS, "a", "x", '{"n":1},{"n":2}'),
        (NOON_MS, "a", "x", '{"n":NaN}'),
        (NOON_MS, "a", "x", '{"a":' * 100_000),
        (NOON_MS, "a", "x", '{"n":"' + 1_000 * "x" + '"}'),
        (NOON_MS, "a", "x", "{}", "send mail"),
    ],
)
def test_a_batch_with_one_row_that_is_none_is_left_to_be_judged_by_row(row: Row) -> None:
    """Which alone knows the reason."""
    assert one_by_one(NOON_RULES, row) == []
    assert plain_tasks(NOON_RULES, *batch_of(SOUND, row, SOUND)) is None


def test_ids_are_measured_in_bytes() -> None:
    """One of half as many characters may be too long."""
    longest = "ä" * (ID_BYTES_MAX // 2)

    assert plain_tasks(LAX, *batch_of((NOON_MS, longest, longest, "{}"))) is not None
    assert plain_tasks(LAX, *batch_of((NOON_MS, longest + "ä", "x", "{}"))) is None
    assert plain_tasks(LAX, *batch_of((NOON_MS, "a", longest + "ä", "{}"))) is None


def test_text_that_is_no_text_is_left_to_be_judged_by_row() -> None:
    """Spark's strings are bytes, which need not be UTF-8."""
    times, ids, _, data, *_ = batch_of(SOUND)
    broken = pa.array([b"\xff"], pa.binary()).view(pa.string())

    assert plain_tasks(NOON_RULES, times, broken, ids, data) is None
    assert plain_tasks(NOON_RULES, times, ids, broken, data) is None
    assert plain_tasks(NOON_RULES, times, ids, ids, broken) is None


def test_text_for_times_and_an_empty_batch_are_left_to_be_judged_by_row() -> None:
    """A column cannot tell a zone."""
    _, *others = batch_of(SOUND)

    assert plain_tasks(NOON_RULES, pa.array(["2026-02-09T12:00:00Z"]), *others) is None
    assert plain_tasks(NOON_RULES, *(each.slice(0, 0) for each in batch_of(SOUND))) is None


def test_instants_are_cut_to_milliseconds_downwards() -> None:
    """Before 1970 as after it."""
    micros = [-1_001, -1_000, -999, -1, 0, 1, 999, 1_000, None]
    times = pa.array(micros, pa.int64()).cast(MICROS)

    expected = [None if each is None else each // 1_000 for each in micros]
    assert millis_of(times).to_pylist() == times_of(times) == expected
    nanos = pa.array([datetime(2026, 2, 9, 12, tzinfo=UTC)], pa.timestamp("ns", tz="UTC"))
    assert times_of(nanos) == [NOON_MS]


def test_partitions_are_those_of_each_id() -> None:
    """Whichever ids repeat."""
    ids = ["a", "b", "ä", "a", "customer-7", "b"]

    owners = partitions_of(pa.array(ids), 7).to_pylist()

    assert owners == [partition_of(each, 7) for each in ids]
