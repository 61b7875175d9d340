"""What a node hands its ports through to be observed: here nothing is, and it costs nothing.

The adapter that observes overrides every step.  Neither decides anything about tasks.
"""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from actors.model.codec import Headers
from actors.ports.log import LogWriter, TaskLog
from actors.ports.runner import Runner
from actors.ports.store import Stores
from scheduler.observe.health import Health, NodeProbes
from scheduler.observe.node_telemetry import NodeTelemetry
from scheduler.ports.messages import MessageWriter


class Observation:
    """Observes nothing: every port is returned as it is."""

    registry: Any = None
    """A Prometheus registry with the node's metrics; None where nobody counts."""
    health: Health | None = None
    """Judges the node once it has begun; None where nobody asks."""
    port: int | None = None
    """Where metrics and health are served."""

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
        """Expect no order of tasks of these kinds."""
        del unordered

    def runner(self, runner: Runner) -> Runner:
        """Return what runs attempts."""
        return runner

    def messages(self, messages: MessageWriter) -> MessageWriter:
        """Return what produces messages of others."""
        return messages

    def headers(self) -> Mapping[str, str]:
        """Return the headers that carry the trace at hand to another system, over HTTP."""
        return {}

    def within(self, headers: Headers) -> AbstractContextManager[object]:
        """Return a context in which what is appended belongs to the trace of a message."""
        del headers
        return nullcontext()

    def begin(self, probes: NodeProbes) -> None:
        """Serve what may be asked; raises OSError where the port is taken."""

    def close(self) -> None:
        """Serve no more."""
