"""Connections to brokers: driver properties, the driver's log, and errors with their causes.

It keeps no state. Secrets go into the driver's configuration and nowhere else: no message or log
line is built from them. The security protocol follows from the other settings, so that it cannot
contradict them.
"""

import contextlib
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from hourhand.actors.model.values.errors import (
    HourhandError,
    LogUnavailable,
    SettingsInvalid,
    TaskTooLarge,
    TopicMissing,
)
from hourhand.scheduler.adapters.kafka.tokens import token_callback
from hourhand.scheduler.configuration.settings import KafkaSettings, Settings
from hourhand.scheduler.runtime.pause import pause

_MISSING_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD})
_WITHOUT_LEADER = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
_LEADER_PAUSE_S = 0.2
Answer = TypeVar("Answer")
Client = TypeVar("Client")

_ANSWER_MARGIN_S = 1.0
"""The driver ends a request at its own timeout; this extra wait lets it report the reason."""

driver_logger = logging.getLogger("hourhand.kafka.driver")
UNAUTHORIZED = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""Answers to a client that the broker knows but does not authorize."""
_MECHANISMS = frozenset({"sasl.mechanism", "sasl.mechanisms"})
_PROTOCOLS = {
    (False, False): "PLAINTEXT",
    (True, False): "SSL",
    (False, True): "SASL_PLAINTEXT",
    (True, True): "SASL_SSL",
}
"""By (encrypted, logs in)."""


# The driver reports every failed connection attempt. Without a handler Python would print these
# lines on stderr in programs without configured logging.
driver_logger.addHandler(logging.NullHandler())


class LastError:
    """The most informative one of the driver's last errors, for the message of a timeout.

    After a refused certificate or password the driver also reports that the broker is down; the
    refusal is what the message needs.
    """

    def __init__(self) -> None:
        self.text = ""
        self.code: int | None = None

    def __call__(self, error: KafkaError) -> None:
        """Keep an error of the driver's own, which it retries by itself."""
        driver_logger.warning("%s: %s", error.name(), error.str())
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self.text:
            return
        self.text, self.code = error.str(), error.code()


def shared_properties(
    settings: Settings, chosen: Mapping[str, str], last_error: Callable[[KafkaError], None]
) -> dict[str, Any]:
    """Return the common properties of consumer, producer and admin client, with ``chosen``.

    Raises SettingsInvalid, and LogUnavailable if a provider of tokens gives none.
    """
    kafka = settings.kafka
    return {
        # A broker that was restarted is found again within a second, not within ten.
        "reconnect.backoff.max.ms": 1_000,
        # So soon a connection is given up that is silent, also where its broker has gone without a
        # word: by default its requests would wait for a minute.
        "socket.timeout.ms": "10000",
        "client.id": "hourhand",
        **chosen,
        **security_properties(kafka),
        **token_callback(kafka),
        "bootstrap.servers": kafka.bootstrap_servers,
        "error_cb": last_error,
    }


def admin_client(settings: Settings, last_error: LastError) -> AdminClient:
    """Open a client for questions about topics; LogUnavailable if a property is refused."""
    return opened(AdminClient, shared_properties(settings, {}, last_error))


def opened(
    kind: Callable[..., Client], properties: dict[str, Any], logger: Any = driver_logger
) -> Client:
    """Construct a client of the driver; SettingsInvalid if it refuses its properties."""
    try:
        return kind(properties, logger=logger)
    except (KafkaException, TypeError, ValueError) as error:
        told = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        raise SettingsInvalid(
            f"the Kafka driver refuses its properties: {told}; see kafka.tls, the login,"
            " kafka.consumer_properties, producer_properties and security_properties"
        ) from None


def answer_within(
    future: "Future[Answer]",
    settings: Settings,
    admin: AdminClient,
    last_error: LastError,
    what: str,
) -> Answer:
    """Wait for an answer of the broker, for a bounded time; LogUnavailable names the servers."""
    timeout_s = settings.kafka.connect_timeout_ms / 1000 + _ANSWER_MARGIN_S
    try:
        return future.result(timeout_s)
    except FutureTimeoutError:
        admin.poll(0)
        raise unreachable(settings, last_error, what) from None
    except KafkaException as error:
        # An admin client reports its errors only when it is polled.
        admin.poll(0)
        raise translated(error.args[0], settings, last_error, what) from error


def unreachable(settings: Settings, last_error: LastError, what: str) -> LogUnavailable:
    """Return the error of a broker that did not answer in time."""
    kafka = settings.kafka
    cause = f" (last error: {last_error.text})" if last_error.text else ""
    advice = security_advice(kafka, last_error.code, last_error.text) or (
        "Check kafka.bootstrap_servers and that a broker runs"
    )
    return LogUnavailable(
        f"Kafka did not answer within {kafka.connect_timeout_ms} ms while {what}; tried"
        f" {kafka.bootstrap_servers}{cause}. {advice}"
    )


def missing_topic(settings: Settings, topic: str) -> TopicMissing:
    """Return the error for a missing topic."""
    return TopicMissing(
        f"topic {topic!r} does not exist on {settings.kafka.bootstrap_servers};"
        " create it with: hourhand migrate"
    )


def translated(
    error: KafkaError,
    settings: Settings,
    last_error: LastError,
    what: str,
    topic: str | None = None,
) -> HourhandError:
    """Return the project's error for one of the driver's, about ``topic`` or the task topic."""
    code = error.code()
    if code in _MISSING_TOPIC:
        return missing_topic(settings, topic or settings.topic.name)
    if code in _TOO_LARGE:
        return TaskTooLarge(
            f"Kafka refused the record while {what}: {error.str()}; make the task's data"
            " smaller, or raise client.record_bytes_max and the topic's max.message.bytes"
        )
    if code in {KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN}:
        return unreachable(settings, last_error, what)
    advice = security_advice(settings.kafka, code, error.str())
    return LogUnavailable(
        f"Kafka at {settings.kafka.bootstrap_servers} failed while {what}:"
        f" {error.name()}: {error.str()}" + (f". {advice}" if advice else "")
    )


def bounds_of(
    consumer: Any,
    settings: Settings,
    topic: str,
    partition: int,
    last_error: LastError,
    timeout_s: float | None = None,
    wait: Callable[[float], None] = pause,
) -> tuple[int, int]:
    """Return the first existing offset of a partition, and the next one to be written.

    Asks the broker again while a leader is being chosen: for a new topic, or after a broker failed.
    ``timeout_s`` bounds this wait, and that for one answer; by default ``kafka.connect_timeout_ms``
    does. ``wait`` lets time pass between two tries. Raises TopicMissing, LogUnavailable.
    """
    asked = TopicPartition(topic, partition)
    timeout_s = timeout_s or settings.kafka.connect_timeout_ms / 1000
    for looks_left in reversed(range(1 + round(timeout_s / _LEADER_PAUSE_S))):
        try:
            first, end = consumer.get_watermark_offsets(asked, timeout=timeout_s)
        except KafkaException as error:
            if error.args[0].code() not in _WITHOUT_LEADER or not looks_left:
                what = f"reading {topic!r}"
                raise translated(error.args[0], settings, last_error, what, topic) from error
        else:
            return int(first), int(end)
        wait(_LEADER_PAUSE_S)
        # The driver remembers the partition's old leader until it is told to refresh.
        with contextlib.suppress(KafkaException):
            consumer.list_topics(topic, timeout=timeout_s)
    raise AssertionError("the last look returns or raises")


def describe_topic(
    settings: Settings, topic: str, admin: AdminClient, last_error: LastError
) -> Any:
    """Return the driver's description of a topic; TopicMissing, LogUnavailable.

    A description never creates a topic, unlike a metadata request of a producer on a broker
    with ``auto.create.topics.enable``.
    """
    futures = admin.describe_topics(
        TopicCollection([topic]),
        request_timeout=settings.kafka.connect_timeout_ms / 1000,
    )
    try:
        what = f"asking for topic {topic!r}"
        return answer_within(futures[topic], settings, admin, last_error, what)
    except TopicMissing:
        raise missing_topic(settings, topic) from None


def security_properties(kafka: KafkaSettings) -> dict[str, str]:
    """Return the driver's properties; SettingsInvalid if a file cannot be read."""
    passed_on = {
        name: value.get_secret_value() for name, value in kafka.security_properties.items()
    }
    has_login = kafka.username is not None or kafka.oauth.provider is not None
    logs_in = has_login or bool(_MECHANISMS & passed_on.keys())
    return {
        "security.protocol": _PROTOCOLS[kafka.tls.enabled, logs_in],
        **_tls_properties(kafka),
        **_login_properties(kafka),
        **passed_on,
    }


def security_advice(kafka: KafkaSettings, code: int | None, text: str) -> str:
    """Return advice for an error about trust, login or rights, else an empty text."""
    if code == KafkaError._AUTHENTICATION and kafka.oauth.provider is not None:
        return (
            f"Check kafka.oauth: that provider {kafka.oauth.provider!r} gives a token, and that"
            " the broker accepts its issuer, audience, subject and lifetime"
        )
    if code == KafkaError._AUTHENTICATION:
        return (
            f"Check kafka.username, which is {kafka.username!r}, its password and"
            f" kafka.sasl_mechanism, which is {kafka.sasl_mechanism}"
        )
    if code == KafkaError._SSL or "SSL" in text:
        return (
            "Check kafka.tls: that ca_file holds the authority of the broker's certificate, that"
            " the certificate names the host in kafka.bootstrap_servers, that this port speaks"
            " TLS, and certificate_file and key_file where the broker asks for them"
        )
    if code in UNAUTHORIZED:
        who = f"user {kafka.username!r}" if kafka.username else "this node's principal"
        return f"Grant {who} what docs/security.md lists for it"
    if code == KafkaError._ALL_BROKERS_DOWN:
        # A broker that expects TLS or a login closes the connection without a message.
        return (
            "Check kafka.bootstrap_servers, that a broker runs, and that this port is meant for"
            f" kafka.tls.enabled, which is {str(kafka.tls.enabled).lower()}, and"
            f" kafka.username, which is {kafka.username!r}, or kafka.oauth.provider, which is"
            f" {kafka.oauth.provider!r}"
        )
    return ""


def _tls_properties(kafka: KafkaSettings) -> dict[str, str]:
    names = {
        "ca_file": "ssl.ca.location",
        "certificate_file": "ssl.certificate.location",
        "key_file": "ssl.key.location",
    }
    files = kafka.tls.checked_files("kafka.tls")
    properties = {names[name]: path for name, path in files.items()}
    if (password := kafka.tls.key_password_text("kafka.tls")) is not None:
        properties["ssl.key.password"] = password
    return properties


def _login_properties(kafka: KafkaSettings) -> dict[str, str]:
    if kafka.oauth.provider is not None:
        return kafka.oauth.driver_properties("kafka.oauth")
    if kafka.username is None:
        return {}
    return {
        "sasl.mechanism": kafka.sasl_mechanism,
        "sasl.username": kafka.username,
        "sasl.password": kafka.password_text("kafka") or "",
    }
