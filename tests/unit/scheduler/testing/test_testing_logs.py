"""What a whole node logs while tasks fail: one line for many, and stacks of user code alone."""

import logging
from dataclasses import dataclass
from datetime import timedelta

import pytest
from pydantic import JsonValue

from hourhand import Hourhand, RetryPolicy, Task, TaskExecutor
from hourhand.actors.model.values.display import stack_of
from hourhand.actors.model.values.errors import PayloadInvalid
from hourhand.testing import VirtualScheduler

TASKS = 500


@dataclass
class Invoice:
    """A payload."""

    id: int


class NotThere(Exception):
    """An outcome that a policy drops."""


def _app() -> Hourhand:
    app = Hourhand()

    @app.task("charge", retry=RetryPolicy(attempts_max=1))
    def charge(invoice: Invoice) -> None:
        raise ConnectionError(f"the bank does not answer for invoice {invoice.id}")

    @app.task("look", retry=RetryPolicy(attempts_max=3, drop_on=(NotThere,)))
    async def look(invoice: Invoice) -> None:
        raise NotThere(invoice.id)

    return app


def _schedule(
    scheduler: VirtualScheduler, kind: str, data: dict[str, JsonValue], number: int
) -> None:
    task = Task(
        ordering_id=f"customer-{number}",
        scheduled_time=scheduler.now + timedelta(seconds=1),
        uniqueness_key=f"{kind}-{number}",
        data=data,
        kind=kind,
    )
    scheduler.schedule_task(task).result(timeout=5)


def test_a_storm_is_few_lines_and_its_number(caplog: pytest.LogCaptureFixture) -> None:
    """Five hundred tasks fail at one moment, each for good."""
    caplog.set_level(logging.INFO, "hourhand")
    with VirtualScheduler(executors=_app()) as scheduler:
        for number in range(TASKS):
            _schedule(scheduler, "charge", {"id": number}, number)
        scheduler.advance(seconds=2)
    failed = [each for each in caplog.records if each.getMessage().startswith("AttemptFailed")]
    fields = [getattr(each, "event_fields", {}) for each in failed]

    assert len(failed) == 2
    assert sum(each.get("suppressed", 0) for each in fields) == TASKS - 1
    assert len(caplog.records) < 8


def test_a_payload_that_does_not_fit_is_one_line_with_whose_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """All of its frames would be Hourhand's."""
    caplog.set_level(logging.INFO, "hourhand")
    with VirtualScheduler(executors=_app()) as scheduler:
        _schedule(scheduler, "charge", {"id": "x"}, 1)
        [ended] = scheduler.advance(seconds=2)
    [failed] = [each for each in caplog.records if each.getMessage().startswith("AttemptFailed")]

    assert failed.exc_info is None and failed.exc_text is None
    assert "id: a whole number is needed" in failed.getMessage()
    assert "whoever scheduled the task sent it so" in failed.getMessage()
    assert ended.error_stack is not None and "File " not in ended.error_stack


@pytest.mark.parametrize("kind", ["charge", "look"])
def test_a_stack_begins_at_user_code_also_of_a_coroutine(kind: str) -> None:
    """What runs it, and the event loop, is the same for every error."""
    with VirtualScheduler(executors=_app()) as scheduler:
        _schedule(scheduler, kind, {"id": 7}, 1)
        [ended] = scheduler.advance(seconds=2)

    stack = (ended.error_stack or "").splitlines()
    assert stack[0] == "Traceback (most recent call last):"
    assert f"{__name__.rpartition('.')[2]}.py" in stack[1] and f"in {kind}" in stack[1]
    assert len([line for line in stack if line.startswith("  File ")]) == 1


def test_a_wanted_outcome_is_not_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """It is what ``drop_on`` is for."""
    caplog.set_level(logging.INFO, "hourhand")
    with VirtualScheduler(executors=_app()) as scheduler:
        _schedule(scheduler, "look", {"id": 7}, 1)
        scheduler.advance(seconds=2)

    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_frames_behind_user_code_are_kept() -> None:
    """Code of Hourhand's that the user's calls is part of what happened."""
    app = _app()

    def call() -> None:
        app["nothing"]

    try:
        call()
    except KeyError as error:
        stack = stack_of(error, 8_000)

    assert "in call" in stack and "registry.py" in stack


def test_a_cause_begins_at_user_code_too() -> None:
    """Each error of a chain."""

    def call() -> None:
        try:
            _app()["nothing"]
        except KeyError as error:
            raise LookupError("no such kind") from error

    try:
        call()
    except LookupError as error:
        stack = stack_of(error, 8_000)

    assert stack.count("Traceback (most recent call last)") == 2
    assert "direct cause" in stack and stack.count("in call") == 2


def test_a_surprise_of_our_own_keeps_its_frames() -> None:
    """It is a bug to report, and nothing else says where it is."""
    try:
        Hourhand().__getitem__("nothing")
    except KeyError as error:
        ours = error.with_traceback(error.__traceback__.tb_next if error.__traceback__ else None)

    assert "registry.py" in stack_of(ours, 8_000)


def test_what_we_refuse_before_user_code_has_no_frames() -> None:
    """Its message says whose fault it is."""
    assert stack_of(PayloadInvalid("it does not fit"), 8_000).strip().endswith("it does not fit")


def test_what_user_code_raised_elsewhere_is_logged_from_user_code_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As where a factory of executors is tried when a node starts."""

    def make() -> TaskExecutor:
        raise LookupError("no such bank")

    with VirtualScheduler(make) as scheduler:
        assert scheduler.executions == []
    [record] = [
        each for each in caplog.records if "raised an error when it was tried" in each.getMessage()
    ]

    frames = [line for line in (record.exc_text or "").splitlines() if " File " in line]
    assert len(frames) == 1 and "in make" in frames[0]
