"""The small programs' rules over days and years, under the test kit's clock.

These are also how a reader would test code like it: the executor is the program's own.
"""

import queue
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from examples.nightly_jobs import NightlyJob, set_up, sign_off
from examples.reminder_mails import Appointment, SendReminder, book, call_off
from examples.trial_expiry import Accounts, TrialStep, pay, sign_up
from examples.webhooks import DeliverWebhook, tell
from hourhand.scheduler.testing import VirtualScheduler

MONDAY = datetime(2026, 3, 23, 12, tzinfo=UTC)


def outbox(folder: Path) -> set[str]:
    """Return the names of the mails that were written."""
    return {mail.name for mail in folder.glob("*.eml")}


def test_an_appointment_has_two_reminders(tmp_path: Path) -> None:
    """Each at its time; none is early."""
    scheduler = VirtualScheduler(lambda: SendReminder(tmp_path, queue.SimpleQueue()), now=MONDAY)
    book(scheduler.client, Appointment("ada", "ada@x", MONDAY + timedelta(days=3)), MONDAY)

    scheduler.advance(days=2, milliseconds=-1)
    assert outbox(tmp_path) == set()
    scheduler.advance(milliseconds=1)
    assert outbox(tmp_path) == {"ada, a day before.eml"}
    scheduler.advance(hours=23)
    assert outbox(tmp_path) == {"ada, a day before.eml", "ada, an hour before.eml"}


def test_an_appointment_that_moves_takes_its_reminders_along(tmp_path: Path) -> None:
    """The one that was sent stays sent; the other comes at its new time only."""
    scheduler = VirtualScheduler(lambda: SendReminder(tmp_path, queue.SimpleQueue()), now=MONDAY)
    keys = book(scheduler.client, Appointment("ada", "ada@x", MONDAY + timedelta(days=2)), MONDAY)
    scheduler.advance(days=1)
    call_off(scheduler.client, keys)
    moved = Appointment("ada", "ada@x", MONDAY + timedelta(days=2, hours=5))
    book(scheduler.client, moved, scheduler.now)

    scheduler.assert_executed(ordering_id="ada", uniqueness_key="a day before")
    ran = scheduler.drain()

    assert [(each.key.uniqueness_key, each.at) for each in ran] == [
        ("a day before", moved.at - timedelta(days=1)),
        ("an hour before", moved.at - timedelta(hours=1)),
    ]


@pytest.mark.parametrize(
    ("paid_after", "state"),
    [(None, "expired"), (3, "paid"), (12, "paid"), (15, "expired")],
    ids=["never", "before the warning", "after the warning", "too late"],
)
def test_a_trial_ends_after_a_fortnight(tmp_path: Path, paid_after: int | None, state: str) -> None:
    """Unless it was paid for before."""
    accounts = Accounts(tmp_path / "accounts.sqlite")
    scheduler = VirtualScheduler(lambda: TrialStep(accounts), now=MONDAY)
    sign_up(scheduler.client, accounts, "ada", MONDAY)
    if paid_after is not None:
        scheduler.advance(days=paid_after)
        pay(scheduler.client, accounts, "ada", MONDAY)

    scheduler.drain()

    assert accounts.state("ada") == state


def test_a_trial_survives_a_crash_between_payment_and_cancel(tmp_path: Path) -> None:
    """The task runs anyway, and finds that there is nothing to end."""
    accounts = Accounts(tmp_path / "accounts.sqlite")
    scheduler = VirtualScheduler(lambda: TrialStep(accounts), now=MONDAY)
    sign_up(scheduler.client, accounts, "ada", MONDAY)
    assert accounts.end("ada", "paid")
    scheduler.crash()

    scheduler.drain()

    assert accounts.state("ada") == "paid"


class Endpoint:
    """A customer's endpoint, asked through httpx's own transport for tests."""

    def __init__(self, *answers: httpx.Response) -> None:
        self.answers = [*answers]
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer as the test wants, then with success."""
        self.asked.append(request.headers["Idempotency-Key"])
        return self.answers.pop(0) if self.answers else httpx.Response(204)


def deliver_two(*answers: httpx.Response) -> tuple[VirtualScheduler, Endpoint]:
    """Deliver two events to an endpoint that answers so at first."""
    endpoint = Endpoint(*answers)
    http = httpx.Client(transport=httpx.MockTransport(endpoint))
    scheduler = VirtualScheduler(lambda: DeliverWebhook(http), now=MONDAY)
    for number in range(2):
        tell(scheduler.client, "acme", "https://acme.example/hook", number, "paid", MONDAY)
    scheduler.drain()
    return scheduler, endpoint


def test_a_refused_webhook_is_tried_again_before_the_next_one() -> None:
    """The same idempotency key each time, and the second event waits for the first."""
    _, endpoint = deliver_two(httpx.Response(500), httpx.Response(302))

    assert [key[-1] for key in endpoint.asked] == ["0", "0", "0", "1"]
    assert len(set(endpoint.asked)) == 2


def test_an_endpoint_may_ask_for_patience() -> None:
    """``Retry-After`` is obeyed, longer than the policy would wait."""
    scheduler, _ = deliver_two(httpx.Response(429, headers={"Retry-After": "7200"}))

    assert scheduler.now >= MONDAY + timedelta(hours=2)


def test_an_endpoint_that_is_gone_is_asked_once_for_each_event() -> None:
    """It is dropped, not retried."""
    _, endpoint = deliver_two(httpx.Response(410), httpx.Response(410))

    assert len(endpoint.asked) == 2


def test_a_night_is_half_past_two_where_the_tenant_is(tmp_path: Path) -> None:
    """On the night of 29 March 2026 the clock in Berlin skips it: right after the gap."""
    done: queue.SimpleQueue[Path] = queue.SimpleQueue()
    saturday = datetime(2026, 3, 28, 12, tzinfo=UTC)
    scheduler = VirtualScheduler(lambda: NightlyJob(tmp_path, done), now=saturday)
    set_up(scheduler.client, {"acme": "Europe/Berlin", "initech": "Asia/Tokyo"})

    ran = [each for each in scheduler.advance(days=2) if ":" not in each.key.ordering_id]

    assert [(each.key.ordering_id, f"{each.at:%d %H:%M}") for each in ran] == [
        ("initech", "28 17:30"),
        ("acme", "29 01:00"),
        ("initech", "29 17:30"),
        ("acme", "30 00:30"),
    ]
    assert (tmp_path / "acme/2026-03-29.txt").is_file()


def test_a_tenant_who_leaves_has_no_more_nights(tmp_path: Path) -> None:
    """The others go on."""
    done: queue.SimpleQueue[Path] = queue.SimpleQueue()
    scheduler = VirtualScheduler(lambda: NightlyJob(tmp_path, done), now=MONDAY)
    set_up(scheduler.client, {"acme": "Europe/Berlin", "initech": "Asia/Tokyo"})
    scheduler.advance(days=1)
    sign_off(scheduler.client, "acme")

    scheduler.advance(days=3)

    assert len([*(tmp_path / "acme").iterdir()]) == 1
    assert len([*(tmp_path / "initech").iterdir()]) == 4
