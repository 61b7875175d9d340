"""The small programs: each as a reader starts it, in a fresh folder, without a server but one.

A program judges itself by its exit code; what it prints is what its page says it prints.
"""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.servers.kafka import KafkaServer
from tests.tidy.source import ROOT

_LIMIT_S = 60.0


def run(name: str, folder: Path, **variables: str) -> str:
    """Run a program in a folder and return what it printed."""
    done = subprocess.run(
        [sys.executable, ROOT / f"examples/{name}.py"],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_reminders_are_sent_for_appointments_that_stand(tmp_path: Path) -> None:
    """One a day before, one an hour before, one at its new time, none for who cancelled."""
    assert "cleo cancelled, and gets none" in run("reminder_mails", tmp_path)

    assert {mail.name for mail in (tmp_path / "outbox").iterdir()} == {
        "ada, a day before.eml",
        "bo, an hour before.eml",
        "dan, a day before.eml",
    }


def test_a_trial_ends_unless_it_is_paid_for(tmp_path: Path) -> None:
    """The cancel is applied, and the database agrees."""
    printed = run("trial_expiry", tmp_path)

    assert printed.splitlines() == [
        "cancelling the end of payer's trial: applied",
        "early is warned",
        "silent is expired",
        "payer is paid",
    ]


def test_webhooks_come_in_order_through_refusals(tmp_path: Path) -> None:
    """The endpoint that is up is not kept waiting by the one that is down."""
    printed = run("webhooks", tmp_path)

    assert "steady 0 steady 1 steady 2 shaky 0 shaky 1 shaky 2" in printed


def test_each_tenant_has_its_night(tmp_path: Path) -> None:
    """One report for each, and the schedules are set."""
    printed = run("nightly_jobs", tmp_path)

    assert "nightly-initech at 30 2 * * * Asia/Tokyo" in printed
    assert len([*tmp_path.glob("reports/*/*.txt")]) == 3


@pytest.mark.integration
def test_a_payment_is_taken_at_its_deadline_or_not_at_all(
    tmp_path: Path, kafka_server: KafkaServer
) -> None:
    """On a real broker: late at once, moved later, called off never."""
    name = f"capture-{uuid.uuid4().hex[:8]}"
    printed = run(
        "payment_capture",
        tmp_path,
        HOURHAND_KAFKA__BOOTSTRAP_SERVERS=kafka_server.bootstrap_servers,
        HOURHAND_TOPIC__NAME=name,
        HOURHAND_TOPIC__DEAD_LETTER=f"{name}-letters",
        HOURHAND_TOPIC__PARTITIONS="4",
        HOURHAND_GROUP__ID=name,
        HOURHAND_RELAY__IN_TOPIC=f"{name}-in",
        HOURHAND_RELAY__OUT_TOPIC=f"{name}-out",
        HOURHAND_RELAY__GROUP_ID=f"{name}-in",
    )

    assert "taking 9900 cents of postponed" in printed
    assert "called-off was not taken" in printed


def test_a_task_is_part_of_a_transaction_of_django(tmp_path: Path) -> None:
    """The order that was refused has no reminder, and the cancelled one loses its own."""
    assert run("outbox_django", tmp_path).splitlines() == [
        "reminding ada of order 1",
        "the reminder of ada: success",
        "all tasks: {'ada': 'success'}",
    ]


def test_a_task_is_part_of_a_request_of_fastapi(tmp_path: Path) -> None:
    """A request that fails behind the call of the outbox leaves neither row nor task."""
    assert run("outbox_fastapi", tmp_path).splitlines() == [
        "root is answered 409",
        "the trial of ada ends",
        "the trial of cleo is cancelled, all others: {'ada': 'success'}",
    ]
