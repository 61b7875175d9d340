"""A real node declares the recurring schedules of its application while it runs."""

import threading
from datetime import timedelta
from functools import partial
from pathlib import Path

from hourhand import Hourhand, Scheduler
from tests.unit.scheduler.cli.commands import settings_of
from tests.waiting import until


def an_app(*names: str) -> Hourhand:
    """Return an application with a schedule of each name."""
    app = Hourhand(name="billing")
    for name in names:
        app.recurring(name, every=timedelta(hours=1))(lambda: None)
    return app


def has(node: Scheduler, names: set[str]) -> bool:
    """True if these schedules are there, and no other."""
    return {each.name for each in node.list_recurring()} == names


def test_a_node_declares_what_its_application_has_and_its_thread_ends_with_it(
    tmp_path: Path,
) -> None:
    """At each start, whatever was declared before it."""
    for names in ({"a", "b"}, {"b", "c"}, set[str]()):
        with Scheduler(settings_of(tmp_path / "data"), executors=an_app(*names)) as node:
            until(partial(has, node, names))
    assert "hourhand-declaring" not in {each.name for each in threading.enumerate()}
