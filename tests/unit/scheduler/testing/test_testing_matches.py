"""What the claims of the test kit match, and how much one that fails prints."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
import tenacity

from hourhand import Hourhand, RetryPolicy
from hourhand.errors import InvalidTask
from hourhand.payloads import Deflate, PayloadCodecs
from hourhand.testing import VirtualScheduler
from tests.unit.scheduler.testing.testing_bench import Failing, a_scheduler, a_task


@dataclass
class Invoice:
    """A payload."""

    id: int
    cents: int = 100


def _app(payloads: PayloadCodecs | None = None) -> Hourhand:
    app = Hourhand(payloads=payloads)

    @app.task("invoice")
    def invoice(of: Invoice) -> None: ...

    @app.task("report")
    def report() -> None: ...

    return app


def _ran(app: Hourhand) -> VirtualScheduler:
    """Return a scheduler on which three tasks ran."""
    scheduler = VirtualScheduler(executors=app)
    for kind, data in (
        ("invoice", {"id": 1, "cents": 5}),
        ("invoice", {"id": 2, "cents": 5}),
        ("report", {}),
    ):
        task = a_task(due_in=timedelta(0), name=f"{kind}-{data}").model_copy(
            update={"kind": kind, "data": data, "scheduled_time": scheduler.now}
        )
        scheduler.schedule_task(task).result(timeout=5)
    scheduler.run_due()
    return scheduler


@pytest.mark.parametrize("payloads", [None, PayloadCodecs(Deflate())])
def test_executions_are_matched_by_kind_and_data(payloads: PayloadCodecs | None) -> None:
    """Of data only the names that are given; sealed data is opened."""
    with _ran(_app(payloads)) as scheduler:
        scheduler.assert_executed(2, kind="invoice")
        scheduler.assert_executed(2, data={"cents": 5})
        [found] = scheduler.assert_executed(kind="invoice", data={"id": 2})
        scheduler.assert_executed(0, kind="report", data={"id": 2})

    assert (found.kind, found.key.uniqueness_key[:7]) == ("invoice", "invoice")


def test_an_execution_has_its_kind_and_data() -> None:
    """For claims of one's own."""
    with _ran(_app()) as scheduler:
        found = [(each.kind, each.data) for each in scheduler.executions]

    assert ("invoice", {"id": 2, "cents": 5}) in found
    assert ("report", {}) in found


def test_open_tasks_are_matched_by_kind() -> None:
    """As executions are."""
    app = _app()
    with VirtualScheduler(executors=app) as scheduler:
        later = scheduler.now + timedelta(hours=1)
        task = a_task(name="later").model_copy(update={"kind": "report", "scheduled_time": later})
        scheduler.schedule_task(task).result(timeout=5)

        assert scheduler.assert_scheduled(kind="report").kind == "report"
        scheduler.refute_scheduled(kind="invoice")


@pytest.mark.parametrize("claim", ["assert_executed", "assert_scheduled", "refute_scheduled"])
def test_a_mistyped_name_is_an_error_that_says_the_known_ones(claim: str) -> None:
    """A claim that can match nothing would hold where it denies something."""
    with (
        _ran(_app()) as scheduler,
        pytest.raises(InvalidTask, match=r"'ordring_id'; known are .*did you mean ordering_id"),
    ):
        getattr(scheduler, claim)(ordring_id="a")


@pytest.mark.parametrize("claim", ["assert_executed", "assert_scheduled", "refute_scheduled"])
def test_a_mistyped_kind_is_an_error_that_says_the_known_ones(claim: str) -> None:
    """Where no task has it either."""
    with (
        _ran(_app()) as scheduler,
        pytest.raises(InvalidTask, match=r"'reprot'; known are invoice, report; did you mean rep"),
    ):
        getattr(scheduler, claim)(kind="reprot")


def test_a_kind_that_only_a_task_has_can_be_matched() -> None:
    """It is held, which may be what the test is about."""
    with VirtualScheduler(executors=_app()) as scheduler:
        held = a_task().model_copy(update={"kind": "gone", "scheduled_time": scheduler.now})
        scheduler.schedule_task(held).result(timeout=5)
        scheduler.run_due()

        assert scheduler.assert_scheduled(kind="gone").kind == "gone"


class OftenFailing(Failing):
    """Fails a hundred times and once more."""

    retry = RetryPolicy(attempts_max=101, wait=tenacity.wait_fixed(1))


def test_a_claim_that_fails_shows_the_last_attempt_and_how_many_there_were() -> None:
    """A hundred stacks bury the one line that is looked for."""
    scheduler = a_scheduler(OftenFailing)
    scheduler.schedule_task(a_task(name="invoice-42"))
    scheduler.advance(minutes=5)

    with pytest.raises(AssertionError) as raised:
        scheduler.assert_executed(ordering_id="customer-7")

    lines = str(raised.value).splitlines()
    assert len(lines) < 12
    assert "attempts that match: 101; the last one of them:" in lines
    assert any("attempt 101: failure, LookupError: invoice-42" in line for line in lines)


def test_each_of_a_few_tasks_is_shown_with_its_last_attempt() -> None:
    """Of many the last ones."""
    scheduler = a_scheduler(OftenFailing)
    for number in range(7):
        scheduler.schedule_task(a_task(ordering_id=f"customer-{number}", name="n"))
    scheduler.advance(minutes=5)

    with pytest.raises(AssertionError) as raised:
        scheduler.assert_executed()

    text = str(raised.value)
    assert "attempts that match: 707 of 7 tasks; the last one of 5 tasks:" in text
    assert text.count("raise LookupError") == 5


def test_a_stack_begins_at_user_code() -> None:
    """The kit's own frames are the same for every error."""
    scheduler = a_scheduler(Failing)
    scheduler.schedule_task(a_task(name="invoice-42"))
    [failed] = scheduler.run_due()

    stack = (failed.error_stack or "").splitlines()
    assert stack[0] == "Traceback (most recent call last):"
    assert "testing_bench.py" in stack[1]
    assert "/scheduler/testing/virtual.py" not in (failed.error_stack or "")
