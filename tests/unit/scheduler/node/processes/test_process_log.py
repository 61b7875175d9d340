"""Lines of a process's log in its node."""

import logging

import pytest

from hourhand.scheduler.node.processes.process_frames import Logged
from hourhand.scheduler.node.processes.process_log import log_line


def test_a_name_of_a_process_makes_no_logger_in_the_node(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A logger is never forgotten, and user code may have one for each task."""
    logging.getLogger("known_here").setLevel(logging.ERROR)
    for name, level in (
        ("known_here.task_7", logging.ERROR),
        ("known_here.task_8", logging.WARNING),
        ("unknown_here.task_9", logging.WARNING),
        ("", logging.WARNING),
    ):
        log_line(Logged(name, level, "said", 0.0, "x.py", 1, "f", None, 0, -1), None)

    told = [(each.name, each.levelno) for each in caplog.records]
    assert told == [
        ("known_here.task_7", logging.ERROR),
        ("unknown_here.task_9", logging.WARNING),
        ("", logging.WARNING),
    ]
    made = logging.getLogger().manager.loggerDict
    assert not {"known_here.task_7", "unknown_here", "unknown_here.task_9"} & made.keys()
