"""The lease under the consumer protocol (KIP-848), where only heartbeats keep a session.

An accepted offset commit proves there that this member is in the group, but not for how long: the
coordinator counts from the last heartbeat that it received, which the driver sends on a thread of
its own and does not report. Its statistics report the number of requests on each connection to the
coordinator. A lease needs three things, in this order, on one connection:

1. a heartbeat was sent, between two statistics,
2. an offset commit that was requested after the later of them was accepted,
3. statistics that were taken after the answer show the same connection.

A broker handles the requests of a connection one after another, so it handled the heartbeat, not
before the earlier of the two statistics: the session counts from there. No thread is assumed to be
punctual. A member asks the brokers once, when it joins, for the length of their session.
"""

import logging
from collections import deque
from typing import NamedTuple

import msgspec
from confluent_kafka.admin import AdminClient, ConfigResource

from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.adapters.clock import driver_ms
from hourhand.scheduler.adapters.kafka.commits import MembershipLease
from hourhand.scheduler.adapters.kafka.connection import LastError, answer_within
from hourhand.scheduler.configuration.settings import GroupSettings, Settings

logger = logging.getLogger("hourhand.kafka")

STATISTICS_MS_MAX = 1_000
SESSION_NAME = "consumer.session.timeout.ms"
_COORDINATOR = "GroupCoordinator"
_HEARTBEAT = "ConsumerGroupHeartbeat"
_COMMIT = "OffsetCommit"
_SUSPENDED_MS = 50.0
_HEARD_MAX = 64


class _CoordinatorCounts(msgspec.Struct):
    """The driver's counts for its connections to a broker."""

    connects: int = 0
    disconnects: int = 0
    tx: int = 0
    """Requests of all kinds."""
    req: dict[str, int] = {}

    def heartbeats(self) -> int | None:
        """Return the number of heartbeats sent, None if it is unknown.

        The driver counts every other kind of request of a consumer, so heartbeats are the rest.
        """
        if _HEARTBEAT in self.req:
            return self.req[_HEARTBEAT]
        return self.tx - sum(self.req.values()) if _COMMIT in self.req else None


class _Statistics(msgspec.Struct):
    ts: int
    """The driver's monotonic clock, in microseconds, at the time of the counts."""
    brokers: dict[str, _CoordinatorCounts]


class _Sample(NamedTuple):
    taken_ms: float
    connection: tuple[int, int]
    heartbeats: int


class _Heard(NamedTuple):
    """A heartbeat that was sent."""

    known_ms: float
    after_ms: float
    connection: tuple[int, int]


class _Accepted(NamedTuple):
    """A heartbeat that a commit followed; ``driver_ms`` is the time of the answer."""

    driver_ms: float
    heard: _Heard


decoder = msgspec.json.Decoder(_Statistics)


class HeartbeatLease(MembershipLease):
    """A lease that counts from heartbeats; used from the polling thread.

    ``clock`` includes suspended time and the driver's does not: values from before a suspension are
    dropped.
    """

    def __init__(self, group: GroupSettings, clock: Clock) -> None:
        super().__init__(group)
        self._clock = clock
        self._ahead_ms = clock.monotonic_ms() - driver_ms()
        self._ahead_since_ms = driver_ms()
        self._last: _Sample | None = None
        self._heard: deque[_Heard] = deque(maxlen=_HEARD_MAX)
        self._accepted: _Accepted | None = None
        self._is_blind = False

    def polled(self, now_ms: float) -> None:
        """Note the begin of a poll."""
        self._note_suspension()
        super().polled(now_ms)

    def accepted(self, sent_ms: float) -> None:
        """Note that the coordinator accepted a commit that was requested at ``sent_ms``."""
        known = [each for each in self._heard if each.known_ms <= sent_ms]
        if known and self._accepted is None:
            self._accepted = _Accepted(driver_ms(), known[-1])

    def end(self) -> None:
        """Note the end of the membership; only a heartbeat sent from now on renews the lease."""
        self._forget()
        super().end()

    def observe(self, statistics: str) -> None:
        """Read the driver's statistics, as JSON."""
        told = decoder.decode(statistics)
        self._note_suspension()
        taken_driver_ms = told.ts / 1000
        coordinator = told.brokers.get(_COORDINATOR)
        if coordinator is None or taken_driver_ms < self._ahead_since_ms:
            self._forget()
            return
        heartbeats = coordinator.heartbeats()
        if heartbeats is None or taken_driver_ms > driver_ms():
            self._say_blind()
            return
        connection = coordinator.connects, coordinator.disconnects
        sample = _Sample(taken_driver_ms + self._ahead_ms, connection, heartbeats)
        self._confirm(taken_driver_ms, connection)
        last, self._last = self._last, sample
        if last is None or last.connection != connection:
            self._heard.clear()
        elif heartbeats > last.heartbeats:
            known_ms = self._clock.monotonic_ms()
            self._heard.append(_Heard(known_ms, last.taken_ms, connection))

    def _confirm(self, taken_driver_ms: float, connection: tuple[int, int]) -> None:
        accepted = self._accepted
        if accepted is None or taken_driver_ms < accepted.driver_ms:
            return
        self._accepted = None
        if accepted.heard.connection == connection:
            super().accepted(accepted.heard.after_ms)

    def _note_suspension(self) -> None:
        # The difference of the clocks only grows, so an earlier one is a lower bound.
        now_ms = driver_ms()
        ahead_ms = self._clock.monotonic_ms() - now_ms
        if abs(ahead_ms - self._ahead_ms) > _SUSPENDED_MS:
            self._ahead_ms, self._ahead_since_ms = ahead_ms, now_ms
            self._forget()

    def _forget(self) -> None:
        self._last = self._accepted = None
        self._heard.clear()

    def _say_blind(self) -> None:
        self._forget()
        if not self._is_blind:
            self._is_blind = True
            logger.error(
                "this version of the driver does not tell when it sends heartbeats, so nothing"
                " can start under group.protocol consumer: set it to classic"
            )


def check_session(settings: Settings, admin: AdminClient, last_error: LastError) -> None:
    """Raise SettingsInvalid if a lease would outlive a membership (P3), or LogUnavailable."""
    group = settings.group
    session_ms = broker_session_ms(settings, admin, last_error)
    if session_ms < group.session_timeout_ms:
        raise SettingsInvalid(
            f"group.session_timeout_ms is {group.session_timeout_ms}, and the brokers give up a"
            f" member of group {group.id!r} after {session_ms} ms: set it to {session_ms} or less,"
            f" or raise the group's {SESSION_NAME} on the brokers"
        )
    if session_ms > group.session_timeout_ms:
        logger.warning(
            "the partitions of a killed node wait %s ms, which is the %s of group %r on the brokers"
            " and longer than group.session_timeout_ms %s",
            session_ms,
            SESSION_NAME,
            group.id,
            group.session_timeout_ms,
        )


def broker_session_ms(settings: Settings, admin: AdminClient, last_error: LastError) -> int:
    """Return the time of silence after which the brokers give up a member of the group."""
    asked = ConfigResource(ConfigResource.Type.GROUP, settings.group.id)
    timeout_s = settings.kafka.connect_timeout_ms / 1000
    future = admin.describe_configs([asked], request_timeout=timeout_s)[asked]
    what = f"asking for the session timeout of group {settings.group.id!r}"
    found = answer_within(future, settings, admin, last_error, what)
    return int(found[SESSION_NAME].value)
