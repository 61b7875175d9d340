"""What errors show of values that somebody else made."""

import logging
import traceback
from collections.abc import Callable

import pytest

from hourhand.actors.model.values.display import (
    _FRAMES_MAX,
    CHARS_MAX,
    _shown_frames,
    class_name_of,
    duration_text,
    log_raised,
    message_of,
    shown,
    stack_of,
    storable_text,
)


class _Hostile:
    def __repr__(self) -> str:
        raise KeyboardInterrupt


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class _Unnoted(Exception):
    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        raise SystemExit(3)


def test_a_value_is_shown_by_its_own_repr_and_cut() -> None:
    """A list without end would fill an error and a log."""
    endless: list[object] = []
    endless.append(endless)

    assert shown({"a": 1}) == "{'a': 1}"
    assert len(shown("x" * 10_000)) <= CHARS_MAX and "..." in shown(endless)


def test_an_error_is_told_by_its_message_and_cut() -> None:
    """As long as the reader can use."""
    assert message_of(ValueError("no")) == "no"
    assert message_of(ValueError("x" * 10), chars_max=4) == "xxxx"


def test_an_error_whose_text_raises_is_told_all_the_same() -> None:
    """Whatever its ``__str__`` raises stays where it is."""
    assert message_of(_Unprintable()) == "its message cannot be shown"


def test_a_value_whose_repr_raises_an_exception_is_named_by_its_type() -> None:
    """An interrupt of the user, though, is not swallowed."""

    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    assert "Broken" in shown(Broken())
    with pytest.raises(KeyboardInterrupt):
        shown(_Hostile())


def test_text_that_utf8_cannot_hold_is_escaped() -> None:
    """A store would refuse the row, and with it the outcome of an attempt."""
    assert storable_text("a\ud800b") == "a\\ud800b"
    assert storable_text("ünï") == "ünï"


class _Unshowable(Exception):
    """An error whose text and notes raise."""

    def __str__(self) -> str:
        """Raise what ``except Exception`` does not catch."""
        raise SystemExit(3)

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        """Raise where a trace is made."""
        raise RuntimeError("no notes")


def test_an_error_that_cannot_be_shown_is_logged_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without it: a log that raised ended the thread of whoever logged."""
    logger = logging.getLogger("hourhand.test")

    for error in (ValueError("plain"), _Unshowable()):
        try:
            raise error
        except Exception:  # noqa: BLE001 - it is logged
            log_raised(logger, "attempt %d raised", 3)

    shown_one, alone = caplog.records
    assert shown_one.getMessage() == "attempt 3 raised" and shown_one.exc_info
    # A newer Python shows such an error with a remark instead of its notes.
    assert alone.exc_info or alone.getMessage() == "attempt 3 raised; the error cannot be shown"


def test_the_name_of_a_class_is_shown_whatever_its_metaclass_does() -> None:
    """It may have its own idea of a name."""

    class Nameless(type):
        def __getattribute__(cls, name: str) -> object:
            raise SystemExit(name)

    class Odd(metaclass=Nameless):
        pass

    assert class_name_of(_Unprintable()) == "_Unprintable"
    assert class_name_of(Odd()) == "class without a name"


def test_of_a_trace_the_end_is_shown_and_no_more_than_asked_for() -> None:
    """The innermost frames say most."""

    def inner() -> None:
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom") as raised:
        inner()

    whole, cut = stack_of(raised.value, 10_000), stack_of(raised.value, 30)
    assert whole.startswith("Traceback") and "in inner" in whole and "boom" in whole
    assert len(cut) == 30 and whole.endswith(cut)
    assert stack_of(_Unnoted(), 10_000) == "its trace cannot be shown"


def _fail(text: str) -> None:
    raise ValueError(text)


def _fail_deeply(depth: int) -> None:
    if depth:
        _fail_deeply(depth - 1)
    raise ValueError("deep")


def _fail_because() -> None:
    try:
        _fail("first")
    except ValueError as error:
        raise RuntimeError("then") from error


def _fail_meanwhile() -> None:
    try:
        _fail("first")
    except ValueError:
        _fail("then")


def _fail_alone() -> None:
    try:
        _fail("first")
    except ValueError:
        raise RuntimeError("then") from None


def _fail_together() -> None:
    raise ExceptionGroup("both", [ValueError("one"), KeyError("other")])


def _fail_with_a_note() -> None:
    error = ValueError("no")
    error.add_note("see the manual")
    raise error


def _look_up_what_is_missing() -> None:
    "".jion([])  # type: ignore[attr-defined]


def _run_what_has_no_source() -> None:
    exec("def run():\n    raise ValueError\nrun()", {})  # noqa: S102 - a frame without a file


def _parse_nonsense() -> None:
    compile("1 +", "nonsense", "exec")


@pytest.mark.parametrize(
    "fail",
    [
        lambda: _fail("plain"),
        lambda: _fail_deeply(20),
        _fail_because,
        _fail_meanwhile,
        _fail_alone,
        _fail_together,
        _fail_with_a_note,
        _look_up_what_is_missing,
        _run_what_has_no_source,
        _parse_nonsense,
    ],
)
def test_a_stack_is_what_the_interpreter_shows(fail: Callable[[], object]) -> None:
    """Also where frames are remembered: the second error of a place is not another text."""
    for _ in range(2):
        with pytest.raises(Exception) as raised:  # noqa: PT011 - each fails in a way of its own
            fail()
        expected = "".join(traceback.format_exception(raised.value))
        assert stack_of(raised.value, 100_000) == expected


def test_codes_that_are_alike_but_for_their_file_are_shown_apart() -> None:
    """They are equal for Python."""
    for file in ("one.py", "other.py"):
        with pytest.raises(ValueError) as raised:  # noqa: PT011 - it says nothing
            exec(compile("raise ValueError", file, "exec"), {})  # noqa: S102
        assert f'"{file}"' in stack_of(raised.value, 10_000)


def test_an_error_that_was_never_raised_has_no_frames() -> None:
    """Only what it says."""
    assert stack_of(ValueError("no"), 10_000) == "ValueError: no\n"


def test_frames_without_end_take_no_memory_without_end() -> None:
    """Code may be recreated for each task."""
    for number in range(2 * _FRAMES_MAX):
        with pytest.raises(ValueError) as raised:  # noqa: PT011 - it says nothing
            exec(compile("raise ValueError", f"{number}.py", "exec"), {})  # noqa: S102
        assert f'"{number}.py"' in stack_of(raised.value, 10_000)
        assert len(_shown_frames) <= _FRAMES_MAX


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (119_999, "1 min"),
        (3_600_000, "1 h"),
        (2 * 86_400_000, "2 d"),
        (31_557_600_000, "1 year"),
        (5 * 31_557_600_000, "5 years"),
    ],
)
def test_a_duration_is_told_in_its_largest_unit(duration_ms: int, text: str) -> None:
    """Rounded down."""
    assert duration_text(duration_ms) == text
