"""Writes lines of a process's log to the node's log.

Decides nothing: the node's levels and handlers do.
"""

import logging
from contextvars import Context

from hourhand.actors.model.execution.interruption import note_attempt
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.processes.process_frames import Logged
from hourhand.scheduler.node.processes.remote_errors import RemoteError


def log_line(line: Logged, running: RunningAttempt | None) -> None:
    """Log a line as if its attempt ran here."""
    log = _logger_of(line.name)
    if not log.isEnabledFor(line.level):
        return
    raised = None
    if line.stack is not None:
        error = RemoteError(line.stack.rstrip().rpartition("\n")[2].strip())
        raised = (RemoteError, error, None)
    record = log.makeRecord(
        line.name, line.level, line.path, line.line, line.message, (), raised, line.function
    )
    record.created, record.msecs = line.created_s, (line.created_s % 1) * 1000
    record.exc_text = line.stack
    Context().run(_handle, log, record, running)


def _logger_of(name: str) -> logging.Logger:
    """Return the node's logger for lines of this name; never a new one, because loggers live for
    ever.
    """
    made = logging.getLogger().manager.loggerDict
    while name:
        found = made.get(name)
        if isinstance(found, logging.Logger):
            return found
        name = name.rpartition(".")[0]
    return logging.getLogger()


def _handle(log: logging.Logger, record: logging.LogRecord, running: RunningAttempt | None) -> None:
    note_attempt(None if running is None else running.attempt)
    log.handle(record)
