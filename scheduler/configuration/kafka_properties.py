"""Which of the driver's properties a user may choose, and which would break a promise.

Decides by name alone, for the three tables of ``KafkaSettings``; a value is never looked at, as
it may be a secret.  What is not listed here is passed on, and judged by the driver.
"""

from collections.abc import Iterable, Iterator, Mapping

_CONTROLLED = {
    "acks": "a task is accepted when all in-sync replicas hold it (P1)",
    "allow.auto.create.topics": "a topic is made by hourhand migrate, with its partitions",
    "auto.commit.enable": "an offset is committed when its record is durable (P9)",
    "auto.commit.interval.ms": "an offset is committed when its record is durable (P9)",
    "auto.offset.reset": "a group without offsets begins where the store says (P8)",
    "bootstrap.servers": "set kafka.bootstrap_servers",
    "default.topic.config": "name the properties themselves",
    "delivery.timeout.ms": "set kafka.delivery_timeout_ms",
    "enable.auto.commit": "an offset is committed when its record is durable (P9)",
    "enable.auto.offset.store": "an offset is committed when its record is durable (P9)",
    "enable.idempotence": "records are neither doubled nor reordered by a retry",
    "enable.partition.eof": "the end of the log is needed before tasks start (P4)",
    "group.id": "set group.id",
    "group.instance.id": "a second member of this name would run beside the first's lease (P3)",
    "group.protocol": "the lease follows the classic protocol (P3)",
    "group.remote.assignor": "the lease follows the classic protocol (P3)",
    "heartbeat.interval.ms": "set group.heartbeat_interval_ms",
    "isolation.level": "a record of an aborted transaction was never accepted",
    "max.poll.interval.ms": "set group.max_poll_interval_ms",
    "message.max.bytes": "set client.record_bytes_max",
    "message.timeout.ms": "set kafka.delivery_timeout_ms",
    "metadata.broker.list": "set kafka.bootstrap_servers",
    "partition.assignment.strategy": "set group.assignor",
    "partitioner": "an ordering id has one partition, whoever writes it",
    "plugin.library.paths": "the driver would run foreign code, which could change any of these",
    "request.required.acks": "a task is accepted when all in-sync replicas hold it (P1)",
    "session.timeout.ms": "set group.session_timeout_ms",
    "transactional.id": "each record is acknowledged on its own",
}
"""Names that are refused, synonyms included, each with why or what to set in its place."""

_OF_TLS = frozenset(
    {
        "security.protocol",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
    }
)
_OF_LOGIN = frozenset(
    {
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.password",
        "sasl.username",
        "security.protocol",
    }
)
_SECURITY_PREFIXES = ("sasl.", "ssl.", "security.", "https.", "enable.sasl.", "enable.ssl.")


def property_complaints(
    table: str, names: Iterable[str], in_use: Mapping[str, bool]
) -> Iterator[str]:
    """Yield what is wrong with the names of one table, each with what to do.

    ``in_use`` tells of ``tls`` and ``username`` whether the settings of this name decide, so
    that their properties in a table would contradict them.
    """
    for name in sorted(names):
        if name.endswith("_cb") or name in _CONTROLLED:
            why = _CONTROLLED.get(name, "a callback cannot be written as text")
            yield f"{table} must not set {name}: {why}"
        elif table != "security_properties" and name.startswith(_SECURITY_PREFIXES):
            yield f"{table} must not set {name}: put it into security_properties, never shown"
        elif in_use["tls"] and name in _OF_TLS:
            yield f"{table} must not set {name} beside the settings of kafka.tls"
        elif in_use["username"] and name in _OF_LOGIN:
            yield f"{table} must not set {name} beside kafka.username"
