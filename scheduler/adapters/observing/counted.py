"""What observes a node that counts: metrics, health and self-check, and where they are served.

Decides the order of the wrappers.  What is asked for and not installed is SettingsInvalid.
"""

import logging
from contextlib import ExitStack

from actors.model.errors import SettingsInvalid
from actors.ports.clock import Clock
from actors.ports.log import LogWriter, TaskLog
from actors.ports.store import Stores
from scheduler.adapters.observing.measured import (
    CheckedLog,
    MeasuredLog,
    checked_stores,
    measured_stores,
)
from scheduler.adapters.observing.probe_server import ProbeServer
from scheduler.adapters.observing.prometheus import registry_of
from scheduler.configuration.door_settings import ObserveSettings
from scheduler.observe.health import Health, NodeProbes
from scheduler.observe.node_telemetry import NodeTelemetry
from scheduler.observe.observation import Observation
from scheduler.observe.self_check import SelfCheck

logger = logging.getLogger("hourhand.observing")


class Counted(Observation):
    """Counts what happens, and shows it."""

    def __init__(self, settings: ObserveSettings, clock: Clock, telemetry: NodeTelemetry) -> None:
        self._settings = settings
        self._clock = clock
        super().__init__(telemetry)
        self.registry = registry_of(telemetry.meters)
        self._log: MeasuredLog | None = None
        self._check: SelfCheck | None = None
        self._closing = ExitStack()

    def stores(self, stores: Stores) -> Stores:
        """Measure every request, and let the self-check see what is stored."""
        measured = measured_stores(stores, self._clock, self.telemetry)
        share = self._settings.self_check_share
        if not share:
            return measured
        self._check = check = SelfCheck(self._clock, self.telemetry.emit, measured, share)
        self.telemetry.check_with(check)
        return checked_stores(measured, check)

    def log(self, log: TaskLog) -> TaskLog:
        """Measure every request, and watch the polling."""
        self._log = MeasuredLog(log, self._clock, self.telemetry)
        return self._log if self._check is None else CheckedLog(self._log, self._check)

    def writer(self, writer: LogWriter) -> LogWriter:
        """As it is; but the self-check learns the number of partitions."""
        if self._check is not None:
            self._check.partition_count = writer.partition_count()
        return writer

    def begin(self, probes: NodeProbes) -> None:
        """Serve, where the settings say so."""
        if self._log is not None:
            log = self._log
            probes = probes.watching(lambda: log.polled_ms, lambda: log.failure)
        self.health = health = Health(probes, self._clock, self._settings.hang_ms)
        self._derive(probes, health)
        if self._settings.port is not None:
            server = self._serve(self._settings.port, health)
            self.port = server.port
            self._closing.callback(server.close)
            logger.info("metrics and health on %s:%d", self._settings.host, server.port)

    def close(self) -> None:
        """Serve no more."""
        self._closing.close()

    def _derive(self, probes: NodeProbes, health: Health) -> None:
        meters, now_ms = self.telemetry.meters, self._clock.monotonic_ms
        meters.derive(
            "lease_margin_seconds", lambda: {"": (probes.lease_ends_ms() - now_ms()) / 1000}
        )
        meters.derive("poll_age_seconds", lambda: {"": (now_ms() - probes.polled_ms()) / 1000})
        meters.derive("mailbox_messages", lambda: {"": probes.dispatching().waiting})
        meters.derive("ready", lambda: {"": float(health.is_ready())})
        for name, read in probes.measures.items():
            meters.derive(name, read)

    def _serve(self, port: int, health: Health) -> ProbeServer:
        host = self._settings.host
        try:
            return ProbeServer(host, port, self.registry, health, self._clock)
        except OSError as error:
            raise SettingsInvalid(
                f"cannot serve metrics on {host}:{port}: {error.strerror}; choose another"
                " observe.port"
            ) from None
