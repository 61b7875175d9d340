"""Which adapter fills which port: the one module that knows, from the settings alone.

Drivers are imported inside the functions, so an embedded installation never loads Kafka's or
Cassandra's, and ``import scheduler`` loads none.  Nothing here keeps what it opened: whoever
asks for a port closes it.
"""

import importlib
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.model.backoff import attribute_complaint
from actors.model.errors import InvalidExecutor
from actors.ports.bulk import BulkStore
from actors.ports.clock import Clock
from actors.ports.log import LogWriter, TaskLog
from actors.ports.messages import MessageWriter
from actors.ports.store import Stores
from actors.ports.telemetry import Telemetry
from actors.task_executor import TaskExecutor
from scheduler.settings import Settings

logger = logging.getLogger("hourhand.wiring")

ExecutorFactory = Callable[[], TaskExecutor]


def open_clock() -> Clock:
    """Return the machine's clocks."""
    from scheduler.adapters.clock import SystemClock

    return SystemClock()


def open_log(settings: Settings, clock: Clock) -> TaskLog:
    """Open the reading side of the log that ``settings.log`` names; subscribes to nothing.

    What the log's operator should change is logged as a warning.  Raises LogUnavailable,
    TopicMissing, and for an embedded folder in use FolderLocked.
    """
    if settings.log == "kafka":
        from scheduler.adapters.kafka.log import KafkaLog
        from scheduler.adapters.kafka.topics import topic_warnings

        for warning in topic_warnings(settings):
            logger.warning("%s", warning)
        return KafkaLog(settings, clock)
    from scheduler.adapters.embedded.log import EmbeddedLog

    return EmbeddedLog(settings, clock)


def open_writer(settings: Settings) -> LogWriter:
    """Open the appending side of the log that ``settings.log`` names."""
    if settings.log == "kafka":
        from scheduler.adapters.kafka.writer import KafkaWriter

        return KafkaWriter(settings)
    from scheduler.adapters.embedded.writer import EmbeddedWriter

    return EmbeddedWriter(settings)


def open_stores(settings: Settings) -> Stores:
    """Open the stores that ``settings.store`` names; StoreUnavailable, SchemaMissing."""
    if settings.store == "cassandra":
        from scheduler.adapters.cassandra.stores import open_stores as open_cassandra

        return open_cassandra(settings)
    from scheduler.adapters.embedded.stores import open_stores as open_embedded

    return open_embedded(settings)


def open_messages(settings: Settings) -> MessageWriter:
    """Open a producer for topics of others; nothing is asked of the broker yet."""
    from scheduler.adapters.kafka.messages import KafkaMessages

    return KafkaMessages(settings)


def relay_log_settings(settings: Settings) -> Settings:
    """Return the settings under which the relay's in-topic is read as a log of its own."""
    relay = settings.relay
    topic = settings.topic.model_copy(update={"name": relay.in_topic})
    group = settings.group.model_copy(update={"id": relay.group_id})
    return settings.model_copy(update={"log": "kafka", "topic": topic, "group": group})


def create_relay_topics(settings: Settings) -> list[str]:
    """Create the relay's in-topic and out-topic where they are missing; return what was made."""
    from scheduler.adapters.kafka.topics import create_topics

    made: list[str] = []
    for name in (settings.relay.in_topic, settings.relay.out_topic):
        topic = settings.topic.model_copy(update={"name": name})
        made += create_topics(settings.model_copy(update={"topic": topic}))
    return made


def open_bulk(settings: Settings) -> BulkStore:
    """Open the stores for jobs over whole buckets; raises as ``open_stores``."""
    if settings.store == "cassandra":
        from scheduler.adapters.cassandra.bulk import open_bulk as open_cassandra

        return open_cassandra(settings)
    from scheduler.adapters.embedded.bulk import open_bulk as open_embedded

    return open_embedded(settings)


def keep_nodes_out(settings: Settings) -> Callable[[], None]:
    """Hold the lock of an embedded folder, which has one writer at a time; return its release.

    Raises FolderLocked where a node works there.  A store on servers needs nobody to stop.
    """
    if settings.store == "cassandra":
        return lambda: None
    from scheduler.adapters.embedded.folder import FolderLock

    return FolderLock(settings.embedded.folder).release


def migrate(settings: Settings) -> list[str]:
    """Create what is missing of tables and topics; return what was done, one line each.

    Safe to run twice, and from two machines at once.
    """
    done: list[str] = []
    if settings.store == "cassandra":
        from scheduler.adapters.cassandra.migrate import migrate as migrate_cassandra

        done += migrate_cassandra(settings)
    else:
        done.append("the embedded store makes its tables itself: nothing to do")
    if settings.log == "kafka":
        from scheduler.adapters.kafka.topics import create_topics

        done += create_topics(settings)
    else:
        done.append("the embedded log makes its folder itself: nothing to do")
    return done


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """The port that metrics are read from, and how to let go of it."""

    port: int
    close: Callable[[], None]


def build_telemetry(settings: Settings) -> Telemetry:
    """Build what takes note of events where nobody asked for metrics: the program's log."""
    del settings
    from scheduler.adapters.telemetry import LoggingTelemetry

    return LoggingTelemetry()


def serve_metrics(settings: Settings, port: int) -> tuple[Telemetry, MetricsServer]:
    """Build telemetry that also counts, and serve the counts on ``port`` (0: any free one).

    Raises OSError where the port is taken.
    """
    from scheduler.adapters.metrics import PrometheusTelemetry
    from scheduler.adapters.telemetry import CompositeTelemetry

    metrics = PrometheusTelemetry()
    served_port, close = metrics.serve(port)
    telemetry = CompositeTelemetry(build_telemetry(settings), metrics)
    return telemetry, MetricsServer(served_port, close)


def build_metrics(settings: Settings) -> tuple[Telemetry, Any]:
    """Build telemetry that also counts, and return what the counts are read from."""
    from scheduler.adapters.metrics import PrometheusTelemetry
    from scheduler.adapters.telemetry import CompositeTelemetry

    metrics = PrometheusTelemetry()
    return CompositeTelemetry(build_telemetry(settings), metrics), metrics.registry


def load_executor(path: str) -> ExecutorFactory:
    """Return what ``module:Name`` names: a TaskExecutor class or a zero-argument factory.

    The working folder is searched first, as with ``python -m``.  Raises InvalidExecutor and
    says which part of the path is wrong.
    """
    module_name, colon, attribute = path.partition(":")
    if not (colon and module_name and attribute):
        raise InvalidExecutor(
            f"{path!r} is no executor path: expected module:Class, such as invoices:SendInvoice"
        )
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: object = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise InvalidExecutor(
            f"{path!r}: cannot import {module_name!r}: {type(error).__name__}: {error}"
        ) from error
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise InvalidExecutor(f"{path!r}: {module_name!r} has no {attribute!r}") from None
    return checked_factory(repr(path), found)


def checked_factory(name: str, found: object) -> ExecutorFactory:
    """Return what makes executors; raises InvalidExecutor for what is seen never to do so."""
    if isinstance(found, type):
        if not issubclass(found, TaskExecutor):
            raise InvalidExecutor(
                f"{name} is a class but no TaskExecutor: write"
                f" class {found.__name__}(TaskExecutor) and define execute(self, task)"
            )
        if unwritten := sorted(getattr(found, "__abstractmethods__", ())):
            raise InvalidExecutor(f"{name} does not define {', '.join(unwritten)}")
        if complaint := attribute_complaint(found):
            raise InvalidExecutor(f"{name}: {found.__name__}.{complaint}")
        return found
    if not callable(found):
        raise InvalidExecutor(
            f"{name} is a {type(found).__name__}: expected a TaskExecutor class or a"
            " function without arguments that returns one"
        )
    return found
