"""Creates Hourhand's topics, and reports configurations that would break a promise.

An existing topic is never changed: its number of partitions is fixed for life, and its
configuration is the operator's. Unsuitable values are reported as warnings.
"""

import hashlib
import threading
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from hourhand.actors.model.values.errors import HourhandError, TopicMissing
from hourhand.scheduler.adapters.kafka.connection import (
    LastError,
    admin_client,
    answer_within,
    describe_topic,
    unreachable,
)
from hourhand.scheduler.configuration.settings import Settings

_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
_KNOWN_PAUSE_MS = 50
_LETTER_HEADROOM_BYTES = 65_536
"""Room for a dead letter's additional headers."""
_ID_CHARS = 8
_BROKER_RECORD_BYTES_MAX = 1_048_588
"""Kafka's own default for ``max.message.bytes``."""


def create_topics(settings: Settings) -> list[str]:
    """Create the task topic and the dead-letter topic if they are missing.

    Returns the created names; another process that creates them meanwhile is not an error. Raises
    LogUnavailable.
    """
    return create_missing(settings, [_task_topic(settings), dead_letter_topic(settings)])


def create_told_topics(settings: Settings) -> list[str]:
    """Create the topics of lifecycle events and of outcomes if they are named and missing; as
    ``create_topics``.
    """
    config = {"cleanup.policy": "delete"}
    told = (settings.events, settings.outcomes)
    named = [(each.topic, each.partitions) for each in told if each.topic is not None]
    return create_missing(
        settings, [new_topic(settings, topic, config, count) for topic, count in named]
    )


def require_topic(settings: Settings, topic: str) -> None:
    """Raise TopicMissing if a topic does not exist, LogUnavailable if no broker answers."""
    last_error = LastError()
    describe_topic(settings, topic, admin_client(settings, last_error), last_error)


def create_missing(settings: Settings, wanted: list[NewTopic]) -> list[str]:
    """Create the missing topics and return their names; as ``create_topics``."""
    last_error = LastError()
    admin = admin_client(settings, last_error)
    missing = [each for each in wanted if not _exists(settings, each.topic, admin, last_error)]
    if not missing:
        return []
    created = []
    futures = admin.create_topics(missing, request_timeout=settings.kafka.connect_timeout_ms / 1000)
    for name, future in futures.items():
        try:
            answer_within(future, settings, admin, last_error, f"creating topic {name!r}")
        except HourhandError as error:
            cause = error.__cause__
            if isinstance(cause, KafkaException) and (
                cause.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
            ):
                continue
            raise
        created.append(name)
    _wait_until_known(settings, created, admin, last_error)
    return created


def raise_partitions(
    settings: Settings, topic: str, count: int, admin: AdminClient, last_error: LastError
) -> bool:
    """Raise a topic's number of partitions to ``count``; True if it had fewer. Raises TopicMissing,
    LogUnavailable.

    Never for the task topic, whose number is fixed.
    """
    if len(describe_topic(settings, topic, admin, last_error).partitions) >= count:
        return False
    asked = admin.create_partitions(
        [NewPartitions(topic, count)],
        request_timeout=settings.kafka.connect_timeout_ms / 1000,
    )
    answer_within(asked[topic], settings, admin, last_error, f"adding a partition to {topic!r}")
    return True


def topic_warnings(settings: Settings) -> list[str]:
    """Return configurations of the brokers that weaken the promises, one sentence each.

    Raises LogUnavailable and TopicMissing.
    """
    last_error = LastError()
    admin = admin_client(settings, last_error)
    name = settings.topic.name
    described = describe_topic(settings, name, admin, last_error)
    try:
        config = configuration_of(settings, name, admin, last_error)
        brokers = len(admin.list_topics(name, settings.kafka.connect_timeout_ms / 1000).brokers)
    except (HourhandError, KafkaException) as error:
        return [f"the configuration of topic {name!r} cannot be read, so it is unchecked: {error}"]
    replicas = min((len(each.replicas) for each in described.partitions), default=0)
    return [
        *_durability_warnings(name, brokers, replicas, config),
        *_retention_warnings(name, config, settings.tree.watermark.completion_retention_ms),
    ]


def topic_identity(settings: Settings, topic: str) -> str:
    """Return the topic's id, which a new topic of the same name does not share; empty if brokers
    have none.

    Brokers have ids of topics since version 2.8. Raises TopicMissing, LogUnavailable.
    """
    last_error = LastError()
    admin = admin_client(settings, last_error)
    return identity_of(describe_topic(settings, topic, admin, last_error))


def identity_of(described: Any) -> str:
    """Return a described topic's identity; as ``topic_identity``."""
    told = getattr(described, "topic_id", None)
    return "" if told is None else hashlib.sha256(str(told).encode()).hexdigest()[:_ID_CHARS]


def _durability_warnings(
    name: str, brokers: int, replicas: int, config: Mapping[str, Any]
) -> list[str]:
    if brokers < 2:
        return []
    warnings, in_sync_min = [], int(config["min.insync.replicas"])
    if replicas < 2:
        warnings.append(
            f"topic {name!r} has one replica on a cluster of {brokers} brokers: accepted tasks"
            " are lost with its broker (P1); give it three replicas"
        )
    if in_sync_min < 2:
        warnings.append(
            f"topic {name!r} has min.insync.replicas {in_sync_min}: a task is accepted while"
            " only one broker holds it (P1); set it to 2"
        )
    if config.get("unclean.leader.election.enable") == "true":
        warnings.append(
            f"topic {name!r} has unclean.leader.election.enable true: a broker that lacks accepted"
            " tasks may come to lead, and they are lost (P1); set it to false"
        )
    return warnings


def _retention_warnings(name: str, config: Mapping[str, Any], completions_ms: int) -> list[str]:
    policy, retention_ms = config["cleanup.policy"], int(config["retention.ms"])
    warnings = []
    if "compact" in policy:
        warnings.append(
            f"topic {name!r} has cleanup.policy {policy}: compaction removes tasks of an"
            " ordering id before they are read (P8); set it to delete"
        )
    if retention_ms < 0 or retention_ms >= completions_ms:
        kept = "for ever" if retention_ms < 0 else f"for {retention_ms} ms"
        warnings.append(
            f"topic {name!r} keeps records {kept}, completions are kept for {completions_ms} ms:"
            " a log read from its beginning would run old tasks again (P5); lower retention.ms"
            " or raise tree.watermark.completion_retention_ms"
        )
    if int(config.get("retention.bytes") or -1) >= 0:
        warnings.append(
            f"topic {name!r} keeps {config['retention.bytes']} bytes of each partition: what is"
            " above is removed, read or not (P1, P8); set retention.bytes to -1"
        )
    if config.get("message.timestamp.type") == "CreateTime":
        warnings.append(
            f"topic {name!r} has message.timestamp.type CreateTime: a client's wrong clock makes"
            " records expire unread, or outlive their completions (P5, P8); set it to LogAppendTime"
        )
    return warnings


def _task_topic(settings: Settings) -> NewTopic:
    completions_ms = settings.tree.watermark.completion_retention_ms
    config = {
        "cleanup.policy": "delete",
        "retention.ms": str(max(_HOUR_MS, min(7 * _DAY_MS, completions_ms // 2))),
        # The broker's own time: a producer's wrong clock can neither make a record expire unread
        # nor keep it beyond its retention.
        "message.timestamp.type": "LogAppendTime",
    }
    return new_topic(settings, settings.topic.name, config)


def dead_letter_topic(settings: Settings) -> NewTopic:
    """Return the dead-letter topic to create; a letter is longer than its record."""
    largest = max(settings.client.record_bytes_max, _BROKER_RECORD_BYTES_MAX)
    config = {
        "cleanup.policy": "delete",
        "max.message.bytes": str(largest + _LETTER_HEADROOM_BYTES),
    }
    return new_topic(settings, settings.topic.dead_letter, config)


def new_topic(
    settings: Settings, name: str, config: dict[str, str], partitions: int | None = None
) -> NewTopic:
    """Return a topic to create, with the replicas that the settings ask for."""
    topic = settings.topic
    if topic.replication > 1:
        config["min.insync.replicas"] = "2"
    return NewTopic(
        name,
        num_partitions=partitions or topic.partitions,
        replication_factor=topic.replication,
        config=config,
    )


def _exists(settings: Settings, topic: str, admin: AdminClient, last_error: LastError) -> bool:
    try:
        describe_topic(settings, topic, admin, last_error)
    except TopicMissing:
        return False
    return True


def _wait_until_known(
    settings: Settings, names: list[str], admin: AdminClient, last_error: LastError
) -> None:
    """Wait until every broker knows new topics: the controller answers earlier."""
    pause = threading.Event()
    for _ in range(settings.kafka.connect_timeout_ms // _KNOWN_PAUSE_MS):
        if all(_exists(settings, each, admin, last_error) for each in names):
            return
        pause.wait(_KNOWN_PAUSE_MS / 1000)
    raise unreachable(settings, last_error, f"waiting for topics {names} to be known")


def configuration_of(
    settings: Settings, topic: str, admin: AdminClient, last_error: LastError
) -> dict[str, Any]:
    """Return a topic's effective configuration as text by name; LogUnavailable."""
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    futures = admin.describe_configs(
        [asked], request_timeout=settings.kafka.connect_timeout_ms / 1000
    )
    answer = answer_within(
        futures[asked], settings, admin, last_error, f"asking for the configuration of {topic!r}"
    )
    return {name: entry.value for name, entry in answer.items()}
