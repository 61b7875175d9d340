"""``python examples/reminder_mails.py``: mails a day and an hour before each appointment.

Appointments are moved and cancelled, and their reminders with them.  Mails are written into a
folder, each under the name of its task: one that is written again after a crash replaces itself.
"""

import queue
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path

from hourhand import Scheduler, SchedulerClient, Settings, Task, TaskExecutor, TaskKey

REMINDERS = {"a day": timedelta(days=1), "an hour": timedelta(hours=1)}
_WAIT_S = 60


@dataclass(frozen=True)
class Appointment:
    """A customer and the time of the visit."""

    id: str
    patient: str
    at: datetime

    def reminders(self, now: datetime) -> Iterator[Task]:
        """Yield the reminders whose time has not passed yet."""
        for name, before in REMINDERS.items():
            if self.at - before > now:
                yield Task(
                    ordering_id=self.id,
                    scheduled_time=self.at - before,
                    uniqueness_key=f"{name} before",
                    data={"to": self.patient, "in": name, "at": self.at.isoformat()},
                )


class SendReminder(TaskExecutor):
    """Writes one mail."""

    def __init__(self, outbox: Path, sent: "queue.SimpleQueue[str]") -> None:
        self._outbox = outbox
        self._sent = sent

    def execute(self, task: Task) -> None:
        """Write the mail of a reminder; the same file whenever the task runs again."""
        mail = EmailMessage()
        mail["To"] = str(task.data["to"])
        mail["Subject"] = f"Your appointment in {task.data['in']}"
        mail.set_content(f"We expect you at {task.data['at']}.")
        name = f"{task.ordering_id}, {task.uniqueness_key}.eml"
        (self._outbox / name).write_bytes(mail.as_bytes())
        self._sent.put(name)


def book(client: SchedulerClient, appointment: Appointment, now: datetime) -> list[TaskKey]:
    """Schedule what is still to be sent; return when the log holds all of it durably."""
    accepted = [client.schedule_task(task) for task in appointment.reminders(now)]
    return [future.result(_WAIT_S).key for future in accepted]


def call_off(client: SchedulerClient, reminders: list[TaskKey]) -> None:
    """Cancel reminders; those that were sent already are left as they are."""
    for cancelled in [client.cancel_task(key) for key in reminders]:
        cancelled.result(_WAIT_S)


def main() -> None:
    """Book four appointments that are a day or an hour away, less a moment, and change two."""
    outbox = Path("outbox")
    outbox.mkdir(exist_ok=True)
    sent: queue.SimpleQueue[str] = queue.SimpleQueue()
    with Scheduler(Settings(), executor=lambda: SendReminder(outbox, sent)) as scheduler:
        now = datetime.now(UTC)
        soon = timedelta(seconds=1.5)
        book(scheduler, Appointment("ada", "ada@example.org", now + timedelta(days=1) + soon), now)
        book(scheduler, Appointment("bo", "bo@example.org", now + timedelta(hours=1) + soon), now)
        cleo = Appointment("cleo", "cleo@example.org", now + timedelta(hours=1) + soon)
        call_off(scheduler, book(scheduler, cleo, now))
        dan = Appointment("dan", "dan@example.org", now + timedelta(hours=1) + soon)
        call_off(scheduler, book(scheduler, dan, now))
        book(scheduler, Appointment("dan", dan.patient, dan.at + timedelta(hours=23)), now)
        for _ in range(3):
            print("sent to", sent.get(timeout=_WAIT_S))
    print("cleo cancelled, and gets none" if sent.empty() else "one mail too many")
    sys.exit(0 if sent.empty() else 1)


if __name__ == "__main__":
    main()
