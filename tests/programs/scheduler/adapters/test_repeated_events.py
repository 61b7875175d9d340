"""A real node counts equal failures, and says their number at the latest when it stops."""

import logging
from pathlib import Path
from threading import Lock

import pytest

from hourhand import Hourhand, RetryPolicy, Scheduler, Settings
from tests.waiting import until

TASKS = 300


def test_a_node_that_stops_has_told_of_every_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In lines and in numbers, which add up."""
    caplog.set_level(logging.INFO, "hourhand")
    app, ran, lock = Hourhand(), list[int](), Lock()

    @app.task("charge", retry=RetryPolicy(attempts_max=1))
    def charge(of: dict[str, int]) -> None:
        with lock:
            ran.append(of["id"])
        raise ConnectionError(f"the bank does not answer for invoice {of['id']}")

    with Scheduler(Settings(embedded={"folder": tmp_path / "data"}), executors=app):
        for number in range(TASKS):
            charge.schedule({"id": number}, ordering_id=f"customer-{number}").result(timeout=30)
        until(lambda: len(ran) == TASKS, "not every task ran")

    fields = [
        getattr(each, "event_fields", {})
        for each in caplog.records
        if each.getMessage().startswith("AttemptFailed")
    ]
    whole = [each for each in fields if "partition" in each]
    assert len(whole) + sum(each.get("suppressed", 0) for each in fields) == TASKS
    assert len(fields) < TASKS / 2
