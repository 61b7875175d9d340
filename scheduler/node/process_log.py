"""Lines of a process's log, as they become lines of the node's.

Decides nothing: the levels and handlers of the node do.
"""

import logging
from contextvars import Context

from actors.model.interruption import note_attempt
from scheduler.node.attempts import RunningAttempt
from scheduler.node.process_frames import Logged
from scheduler.node.remote_errors import RemoteError


def log_line(line: Logged, running: RunningAttempt | None) -> None:
    """Log a line as if the attempt that wrote it ran here."""
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
    """Return the logger of the node that a line of this name gets to; never a new one, as none is
    ever forgotten.
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
