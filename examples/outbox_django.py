"""``python examples/outbox_django.py``: an order and its reminder, in one transaction of Django.

One customer's card is refused, so neither order nor reminder is there; one cancels, and the
reminder goes with the order.  Settings, model, node and mover stand in this one file; in a project
they are where Django wants them, and the mover is ``hourhand outbox``.
"""

import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import django
from django.conf import settings as django_settings
from django.core.management import call_command

django_settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}},
    INSTALLED_APPS=["hourhand.outbox.django"],
    USE_TZ=True,
)
django.setup()

from django.db import connection, transaction  # noqa: E402 - Django has to be set up first

from hourhand import Scheduler, Settings, Task, TaskExecutor, TaskKey, outbox  # noqa: E402

_WAIT_S = 60


class CardRefusedError(Exception):
    """The payment provider said no."""


class Remind(TaskExecutor):
    """Reminds of an order, if it is still there."""

    def execute(self, task: Task) -> None:
        """Print; the same line whenever the task runs again."""
        print(f"reminding {task.ordering_id} of order {task.data['order']}")


def order(customer: str, number: int, *, card_works: bool = True) -> TaskKey:
    """Insert the order and schedule its reminder; both, or none of them."""
    task = Task(
        ordering_id=customer,
        scheduled_time=datetime.now(UTC) + timedelta(seconds=2),
        uniqueness_key=f"order-{number}",
        data={"order": number},
    )
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("INSERT INTO shop_order VALUES (%s, %s)", [number, customer])
        outbox.schedule(connection, task)
        if not card_works:
            raise CardRefusedError
    return task.key


def cancel(number: int, key: TaskKey) -> None:
    """Delete the order and cancel its reminder."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM shop_order WHERE number = %s", [number])
        outbox.cancel(connection, key)


def main() -> int:
    """Order, refuse, cancel; then wait for the reminder of what is left."""
    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE shop_order (number integer, customer text)")
    settings = Settings(outbox={"url": "sqlite:///shop.sqlite3", "poll_ms": 20})
    kept = order("ada", 1)
    with suppress(CardRefusedError):
        order("bo", 2, card_works=False)
    cancel(3, order("cleo", 3))
    with (
        Scheduler(settings, executor=Remind) as scheduler,
        outbox.OutboxMover(settings),
    ):
        ran = scheduler.wait_task(kept, timeout=_WAIT_S)
        print(f"the reminder of {kept.ordering_id}: {ran.state.value}")
        found = {task.key.ordering_id: task.state.value for task in scheduler.list_tasks()}
    print(f"all tasks: {found}")
    # Nothing is left of cleo's: schedule and cancel waited together, and were moved as a cancel.
    return 0 if found == {"ada": "success"} else 1


if __name__ == "__main__":
    sys.exit(main())
