"""The steps through which a node passes its ports for observation; here they cost nothing.

The adapter that observes overrides every step. Neither decides anything about tasks.
"""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from hourhand.actors.model.task.codec import Headers
from hourhand.actors.ports.log import LogWriter, TaskLog
from hourhand.actors.ports.runner import Runner
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.observe.health import Health, NodeProbes
from hourhand.scheduler.observe.node_telemetry import NodeTelemetry
from hourhand.scheduler.ports.messages import MessageWriter


class Observation:
    """Observes nothing: every port is returned unchanged."""

    registry: Any = None
    """A Prometheus registry with the node's metrics; None without metrics."""
    health: Health | None = None
    """Judges the node once it has begun; None without health checks."""
    port: int | None = None
    """The port of metrics and health."""

    def __init__(self, telemetry: NodeTelemetry) -> None:
        self.telemetry = telemetry

    def stores(self, stores: Stores) -> Stores:
        """Return the stores to work with."""
        return stores

    def log(self, log: TaskLog) -> TaskLog:
        """Return the log to poll."""
        return log

    def writer(self, writer: LogWriter) -> LogWriter:
        """Return the writer to append with."""
        return writer

    def leave_out(self, unordered: Collection[str | None]) -> None:
        """Exclude kinds without order from checks of order."""
        del unordered

    def runner(self, runner: Runner) -> Runner:
        """Return the runner of attempts."""
        return runner

    def messages(self, messages: MessageWriter) -> MessageWriter:
        """Return the producer of others' messages."""
        return messages

    def headers(self) -> Mapping[str, str]:
        """Return the HTTP headers that carry the current trace to another system."""
        return {}

    def within(self, headers: Headers) -> AbstractContextManager[object]:
        """Return a context in which appended records belong to the trace of a message."""
        del headers
        return nullcontext()

    def begin(self, probes: NodeProbes) -> None:
        """Serve metrics and health; raises OSError if the port is taken."""

    def close(self) -> None:
        """Stop serving."""
