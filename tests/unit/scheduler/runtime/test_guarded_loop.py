"""Rounds go on whatever one raises, until somebody stops them."""

import logging
import threading

import pytest

from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.scheduler.runtime.guarded_loop import FAILED_PAUSE_S, guarded, run_guarded

LOGGER = logging.getLogger("hourhand.test")


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (LogUnavailable("nobody answers"), "a round failed and is tried again: nobody answers"),
        (LookupError("x"), "a round failed and is tried again; please report this"),
        (SystemExit(3), "a round failed and is tried again; please report this"),
    ],
)
def test_a_failure_is_told_of_and_ends_nothing(
    caplog: pytest.LogCaptureFixture, failure: BaseException, text: str
) -> None:
    """Whoever can mend it is named: the operator, or us."""

    def work() -> None:
        raise failure

    assert not guarded(work, "a round", LOGGER)
    assert text in caplog.text
    assert guarded(lambda: None, "a round", LOGGER)


class Told(threading.Event):
    """An event whose waits are told, and take no time."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_s: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether it is set."""
        self.waits_s.append(timeout)
        return self.is_set()


@pytest.mark.parametrize(("every_s", "waits_s"), [(0.0, [FAILED_PAUSE_S] * 3), (7.0, [7.0] * 4)])
def test_rounds_go_on_after_a_failure_until_they_are_stopped(
    every_s: float, waits_s: list[float]
) -> None:
    """The round under way is the last one."""
    stopped, rounds = Told(), list[int]()

    def work() -> None:
        rounds.append(1)
        if len(rounds) == 3:
            stopped.set()
        raise LookupError("not yet")

    run_guarded(work, "a round", LOGGER, stopped, every_s)

    assert len(rounds) == 3
    assert stopped.waits_s == waits_s
