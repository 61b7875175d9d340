"""Values as a person reads them; colours for terminals alone."""

import pytest

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import AttemptRecord, AttemptResult, CompletionResult
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.instant import parse_instant
from hourhand.scheduler.admin.answers import ShownExecution
from hourhand.scheduler.cli.task_text import last_error, listing_lines, view_lines
from hourhand.scheduler.cli.text_output import cell_of, due_text, fact_lines, heading_of, row_lines
from hourhand.scheduler.tasks.inspector import TaskListing, TaskView
from hourhand.scheduler.tasks.task_state import view_of
from tests.builders import a_completion

NOW_MS = parse_instant("2026-02-09T01:43:12Z")


KEY = TaskKey.parse("2026-02-09T01:41:12.959Z,customer-7,invoice-42")


def view(*attempts: AttemptRecord, data: bytes = b'{"invoice":42}') -> TaskView:
    """Return a task that waits, with its attempts."""
    return view_of(KEY, 3, StoredTask(KEY, data, 17), None, attempts)


def failed(message: str = "no such invoice", stack: str | None = None) -> AttemptRecord:
    """Return an attempt that failed and will be followed by another."""
    return AttemptRecord(
        KEY,
        1,
        AttemptResult.FAILURE,
        KEY.scheduled_ms,
        finished_ms=KEY.scheduled_ms + 1_500,
        next_attempt_ms=NOW_MS + 60_000,
        error_class="KeyError",
        error_message=message,
        error_stack=stack,
        fence=4,
    )


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("paused", False, "no"),
        ("owner", None, "-"),
        ("partitions", [1, 2], "1, 2"),
        ("since", "2026-02-09T01:41:12.959Z", "2026-02-09 01:41:12Z"),
        ("overdueMs", 150_000, "2 min"),
        ("overdueMs", 186_712_250_088, "5 years"),
        ("key", str(KEY), str(KEY)),
        ("error", "two\nlines \x1b[31m", '"two\\nlines \\u001b[31m"'),
    ],
)
def test_a_value_is_written_in_one_line(name: str, value: object, told: str) -> None:
    """Keys stay as commands take them."""
    assert cell_of(name, value) == told


@pytest.mark.parametrize(
    ("name", "heading"),
    [
        ("loadedUntil", "LOADED UNTIL"),
        ("executionsPerS", "RUNS/S"),
        ("overdueMs", "OVERDUE"),
        ("key", "KEY"),
    ],
)
def test_a_heading_is_words(name: str, heading: str) -> None:
    """Not the name of a field."""
    assert heading_of(name) == heading


def test_a_moment_is_told_by_how_far_away_it_is() -> None:
    """On either side of now."""
    assert due_text(NOW_MS + 10_000, NOW_MS) == "in 10 s"
    assert due_text(NOW_MS - 7_200_000, NOW_MS) == "2 h ago"


def test_columns_are_as_wide_as_what_they_hold() -> None:
    """And no line ends with blanks."""
    lines = [*row_lines([{"a": 1, "bC": "long"}, {"a": 1_000, "bC": None}], ("a", "bC"))]

    assert lines == ["A     B C", "1     long", "1000  -"]
    assert [*fact_lines({"loadedUntil": None, "a": 1})] == ["loaded until  -", "a             1"]


def test_a_listing_shows_columns_that_some_task_needs() -> None:
    """Error and kind are left out where no task has one."""
    plain = [*listing_lines(TaskListing([view()], None), NOW_MS)]
    assert plain == [
        "STATE    DUE        ATTEMPTS  KEY",
        f"pending  1 min ago  0         {KEY}",
    ]

    mailed = view(failed(), data=b'{"invoice":42,"hourhand.kind":"mail"}')
    heading, line = listing_lines(TaskListing([mailed], None), NOW_MS)
    assert heading.split() == ["STATE", "DUE", "ATTEMPTS", "KIND", "KEY", "ERROR"]
    assert line.split() == f"retrying 1 min ago 1 mail {KEY} KeyError: no such invoice".split()


def test_a_task_is_shown_with_attempts_in_sentences() -> None:
    """And the stack of each below it."""
    lines = [*view_lines(view(failed(stack="Traceback\n  File x")), NOW_MS)]

    assert lines[0].split() == ["state", "retrying"]
    assert f"key             {KEY}" in lines
    assert lines[-4] == (
        "attempt 1: failure, 2026-02-09 01:41:12Z, took 1 s,"
        " next attempt 2026-02-09 01:44:12Z, fence 4"
    )
    assert lines[-3:] == ["    KeyError: no such invoice", "    Traceback", "      File x"]


def test_a_task_that_was_opened_again_is_not_said_to_be_closed() -> None:
    """It waits, and says since when and with how many attempts behind it."""
    reopened = a_completion(
        key=KEY, result=CompletionResult.REOPENED, attempts=3, reason="by command"
    )
    lines = [*view_lines(view_of(KEY, 3, StoredTask(KEY, b"{}", 17), reopened, ()), NOW_MS)]

    assert not [each for each in lines if each.startswith("closed")]
    assert lines[-1] == (
        "opened again    after 3 attempts, at 2026-02-09 01:41:12Z, because: by command"
    )


@pytest.mark.parametrize(
    ("suspect", "closed", "told"),
    [
        (False, None, ["does not count", "runs"]),
        (True, None, ["counts", "runs"]),
        (True, CompletionResult.FAILURE, ["counts", "counts"]),
    ],
)
def test_an_attempt_without_a_known_end_says_whether_it_counts(
    suspect: bool, closed: CompletionResult | None, told: list[str]
) -> None:
    """Unless it runs."""
    attempts = [
        AttemptRecord(KEY, n, AttemptResult.STARTED, KEY.scheduled_ms, suspect=suspect)
        for n in (1, 2)
    ]
    completion = None if closed is None else a_completion(key=KEY, result=closed, attempts=2)
    lines = [*view_lines(view_of(KEY, 3, StoredTask(KEY, b"{}", 17), completion, attempts), NOW_MS)]

    ends = ["" if each in {"", "runs"} else f", its end is not known, {each}" for each in told]
    assert lines[-2:] == [
        f"attempt {number}: started, 2026-02-09 01:41:12Z, fence 0{end}"
        for number, end in enumerate(ends, 1)
    ]


def test_a_long_error_is_cut() -> None:
    """A table has a line for each task."""
    found = last_error(view(failed("x" * 500)))

    assert found is not None
    assert (len(found), found[-1]) == (80, "…")


def test_what_runs_says_where_and_for_how_long() -> None:
    """A node that does not say since when is quoted without it."""
    started = ShownExecution(attempt=2, node="node-1", started="2026-02-09T01:42:12Z")

    assert "running         attempt 2 on node-1, for 1 min" in [
        *view_lines(view(), NOW_MS, started)
    ]
    unsaid = ShownExecution(attempt=2, node="node-1")
    assert "running         attempt 2 on node-1" in [*view_lines(view(), NOW_MS, unsaid)]


def test_large_data_is_cut_and_says_how_to_see_it() -> None:
    """A page of one line is nothing that somebody reads."""
    large = view(data=b'{"text":"' + b"x" * 20_000 + b'"}')

    (line,) = [each for each in view_lines(large, NOW_MS, data_chars_max=100) if "xxx" in each]
    assert line.endswith("… (20,011 characters; --all shows them)") and len(line) < 200
    assert any(len(each) > 20_000 for each in view_lines(large, NOW_MS))
