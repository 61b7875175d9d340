"""A driver that never returns from its close is left behind, loudly."""

import logging
import threading

import pytest

from hourhand.scheduler.adapters.kafka.closing import close_within


def test_what_ends_is_waited_for() -> None:
    """It has ended when the call returns."""
    ended = threading.Event()

    assert close_within(ended.set, 30.0) and ended.is_set()


def test_what_never_ends_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    """And the operator is told."""
    released = threading.Event()

    with caplog.at_level(logging.WARNING):
        ended = close_within(lambda: released.wait(60.0), 0.0)
    released.set()

    assert not ended and "left behind" in caplog.text


def test_what_it_raises_is_raised() -> None:
    """A refusal of the driver is not a timeout."""

    def refuse() -> None:
        raise RuntimeError("refused")

    with pytest.raises(RuntimeError, match="refused"):
        close_within(refuse, 30.0)
