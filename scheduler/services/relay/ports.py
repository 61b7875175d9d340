"""What the intake of the relay needs from outside.  Decides nothing."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from actors.model.backoff import RetryPolicy
from actors.model.codec import Headers, LogRecord
from actors.ports.clock import Clock
from actors.ports.log import TaskLog
from actors.ports.telemetry import Telemetry
from scheduler.node.system_executor import PATIENCE
from scheduler.records.appending import TaskAppender
from scheduler.services.definition_book import DefinitionBook
from scheduler.services.system_tasks import unique_in_order


class IntakePorts(NamedTuple):
    """What the intake works with; it closes none of it."""

    log: TaskLog
    put_aside: Callable[[LogRecord, str], "Future[Any]"]
    """Appends a record to the dead-letter topic, with a reason."""
    appender: TaskAppender
    definitions: DefinitionBook
    clock: Clock
    telemetry: Telemetry
    wait: "Callable[[Iterable[Future[Any]], float], object]" = wait
    """Waits for all of these, so many seconds at most."""
    unique: Callable[[int], str] = unique_in_order
    """Names batches of claims: none twice, and in the order of the calls."""
    topic_id: Callable[[], str] = str
    """Says which topic of its name the in-topic is now; empty where nobody can.  Blocks."""
    within: Callable[[Headers], AbstractContextManager[object]] = nullcontext
    """Has what is appended inside belong to the trace of a message with these headers."""
    row_bytes_max: int = 8_388_608
    """Longest message that the store can hold."""
    patience: RetryPolicy = PATIENCE
    """How long a partition rests before it is read again."""
