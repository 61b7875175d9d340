"""What errors show of values that somebody else made."""

import logging

import pytest

from actors.model.display import CHARS_MAX, log_raised, message_of, shown, storable_text


class _Hostile:
    def __repr__(self) -> str:
        raise KeyboardInterrupt


class _Unprintable(Exception):
    def __str__(self) -> str:
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
    assert alone.getMessage() == "attempt 3 raised; the error cannot be shown"
