"""What a check says of what it ran and left out."""

from tests.check.report import counted, left_out, listed, result_line
from tests.check.selection import Selection
from tests.check.steps import Result, Step

_SERVERS = "tests/integration/test_store.py"


def _selection(
    too_many: tuple[str, ...] = (),
    slow: tuple[str, ...] = (),
    own: tuple[str, ...] = (),
    unjudged: tuple[str, ...] = (),
) -> Selection:
    return Selection((), too_many, slow, frozenset(own), unjudged)


def test_nothing_is_said_where_nothing_is_left_out() -> None:
    """No empty line either."""
    assert list(left_out(_selection())) == []


def test_a_changed_test_on_servers_comes_with_its_command() -> None:
    """The one line that a contributor has to type."""
    lines = list(left_out(_selection(slow=(_SERVERS,), own=(_SERVERS,))))

    assert lines == [f"{_SERVERS}: .venv/bin/python -m pytest {_SERVERS}"]


def test_slow_tests_of_importers_are_counted_by_folder() -> None:
    """There are dozens of them."""
    slow = ("tests/promises/test_a.py", "tests/promises/test_b.py", "tests/fuzz/test_c.py")

    lines = list(left_out(_selection(slow=slow)))

    assert lines == ["3 slower test files (1 in fuzz, 2 in promises) of what changed: make test"]


def test_tests_above_the_limit_and_files_without_a_test_are_named() -> None:
    """Each with what runs them."""
    lines = list(left_out(_selection(too_many=("tests/unit/test_a.py",), unjudged=("a.toml",))))

    assert lines == [
        "tests/unit/test_a.py of what imports the change: make test-unit",
        "tests of a.toml, none is known: make test",
    ]


def test_the_line_of_a_step_tells_how_it_ended_and_what_it_ran() -> None:
    """Seconds, and the last line of what pytest prints."""
    step = Step("tests", ("pytest",), (0,), "a.py")

    passed = result_line(Result(step, 0, "....\n4 passed in 1s", 2.34))
    failed = result_line(Result(step, 1, "F\n1 failed", 2.34))

    assert passed == "tests      2.3 s  ok: a.py; 4 passed in 1s"
    assert failed == "tests      2.3 s  failed, exit code 1: a.py"


def test_many_files_are_counted() -> None:
    """Few are named."""
    assert listed(["a", "b"]) == "a, b"
    assert listed([*"abcdefgh"]) == "8 test files"
    assert counted(1, "file") == "1 file"
