"""A relay node: a node of the group that also reads the relay's in-topic.

It runs both on two threads. Either may stop first: each message is durable in the task log before
its offset is committed, and any node of the group continues.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.ports.log import LogWriter, Position
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler import wiring
from hourhand.scheduler.cli.running import DoorRunning
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.executors.user_executors import Executors
from hourhand.scheduler.runtime.guarded_loop import run_guarded
from hourhand.scheduler.services.relay.intake import SETTLE_S, IntakePorts, RelayIntake
from hourhand.scheduler.services.relay.message import refuse_small_records

logger = logging.getLogger("hourhand.relay")

_GATHERED = {"fetch.min.bytes": "1000000", "fetch.wait.max.ms": "50"}
"""Messages of the in-topic are fetched together: they usually wait for seconds, and one fetch for
each would cost the broker as much as the message does."""
_POLL_MS = 50


class RelayRunning(DoorRunning):
    """A running relay node; as a context manager it starts on entry and stops on exit.

    Raises what ``Scheduler`` raises, SettingsInvalid where the log would refuse the relay's
    records, and TopicMissing where the in-topic is not there.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        executor: Callable[[], TaskExecutor] | None = None,
        executors: Executors | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        refuse_small_records(settings)
        self._settings = settings
        self._own_settings = relay_log_settings(settings)
        self._letters: LogWriter | None = None
        super().__init__(settings, executor, executors or {}, telemetry)
        self._opened(self._open_intake)
        self._stop_requested = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hourhand-relay", daemon=True)

    def start(self) -> None:
        """Run the node, then read the in-topic."""
        self.scheduler.start()
        self._thread.start()

    def _stop_door(self) -> None:
        self._stop_requested.set()
        if self._thread.is_alive():
            self._thread.join()

    def _open_intake(self) -> None:
        dependencies, names = self.scheduler.dependencies, self._settings.topic
        relay = self._settings.relay
        own, installation_id = self._own_settings, dependencies.installation_id
        log = wiring.open_log(own, dependencies.clock, installation_id)
        self._closing.callback(log.close)
        allows = partial(relay.allows_target, own_topics=(names.name, names.dead_letter))
        ports = IntakePorts(
            log,
            self._put_aside,
            dependencies.appender,
            dependencies.definitions,
            dependencies.clock,
            dependencies.telemetry,
            topic_id=partial(wiring.topic_identity, self._settings, relay.in_topic),
            within=self.scheduler.observation.within,
            row_bytes_max=self._settings.tree.execution.row_bytes_max,
        )
        self.intake = RelayIntake(ports, relay, allows)

    def _put_aside(self, record: LogRecord, reason: str) -> "Future[Position]":
        """Append to the dead-letter topic, which is opened for the first letter, on the reading
        thread.
        """
        if self._letters is None:
            self._letters = wiring.open_writer(self._own_settings)
            self._closing.callback(self._letters.close)
        return self._letters.dead_letter(record, reason)

    def _run(self) -> None:
        step = partial(self.intake.step, _POLL_MS)
        run_guarded(step, "a round of the relay", logger, self._stop_requested)
        try:
            self.intake.drain(SETTLE_S)
        except Exception:
            logger.exception("the relay did not stop cleanly; what it read is read again")


def relay_log_settings(settings: Settings) -> Settings:
    """Return the settings under which the relay's in-topic is read as a log of its own."""
    relay = settings.relay
    topic = settings.topic.model_copy(update={"name": relay.in_topic})
    group = settings.group.model_copy(update={"id": relay.group_id})
    chosen = {**_GATHERED, **settings.kafka.consumer_properties}
    kafka = settings.kafka.model_copy(update={"consumer_properties": chosen})
    return settings.model_copy(
        update={"log": "kafka", "topic": topic, "group": group, "kafka": kafka}
    )
