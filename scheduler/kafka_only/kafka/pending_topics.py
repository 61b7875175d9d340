"""Creates the topics of storage with Kafka alone, and refuses configurations that would lose
messages.

The pending topic keeps records by the broker's own time, and for as long as the longest delay and
an outage together; marker and layout topics are compacted, so their last records stay.
"""

from contextlib import closing
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from hourhand.actors.model.values.errors import HourhandError, LogUnavailable, SettingsInvalid
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.kafka.connection import LastError, admin_client, describe_topic
from hourhand.scheduler.adapters.kafka.topics import (
    configuration_of,
    create_missing,
    dead_letter_topic,
    new_topic,
    raise_partitions,
)
from hourhand.scheduler.adapters.kafka.writer import KafkaMessages
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.kafka_only.bucket_layout import encode_layout, first_layout
from hourhand.scheduler.runtime.answers import JOB_S, answered

_RECORD_HEADROOM_BYTES = 65_536
"""Room for a message's envelope beyond the message."""
_BROKER_RECORD_BYTES_MAX = 1_048_588


def create_pending_topics(settings: Settings) -> list[str]:
    """Create the missing ones of the three topics and the dead-letter topic.

    A first layout is published with its new topic. A pending topic that an operator gave more
    partitions gets markers for them. Returns the names of created topics, and other changes; raises
    LogUnavailable.
    """
    buckets = settings.buckets
    compacted = {"cleanup.policy": "compact", "segment.ms": "3600000"}
    pending = {
        "cleanup.policy": "delete",
        "retention.ms": str(buckets.longest_delay_ms + buckets.outage_ms),
        "retention.bytes": "-1",
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(_BROKER_RECORD_BYTES_MAX + _RECORD_HEADROOM_BYTES),
    }
    count = buckets.partitions
    made = create_missing(
        settings,
        [
            dead_letter_topic(settings),
            new_topic(settings, buckets.layout_topic, dict(compacted), 1),
            new_topic(settings, buckets.marker_topic, dict(compacted), count),
            new_topic(settings, buckets.topic, pending, count),
        ],
    )
    if buckets.layout_topic in made:
        layout = encode_layout(
            first_layout(buckets.first_ms, buckets.factor, count, buckets.first_partitions)
        )
        with closing(KafkaMessages(settings, SystemClock())) as messages:
            produced = messages.produce(buckets.layout_topic, b"layout", layout, ())
            answered(produced, JOB_S, "the log")
    return [*made, *_missing_markers(settings)]


def _missing_markers(settings: Settings) -> list[str]:
    """Give each partition of the pending topic its markers; return the changes."""
    last_error = LastError()
    admin = admin_client(settings, last_error)
    pending, markers = settings.buckets.topic, settings.buckets.marker_topic
    count = len(describe_topic(settings, pending, admin, last_error).partitions)
    if not raise_partitions(settings, markers, count, admin, last_error):
        return []
    return [f"{markers}: {count} partitions, as {pending} has"]


def delay_covered_ms(settings: Settings) -> int:
    """Return the longest delay that may wait.

    Raises SettingsInvalid if retention does not cover ``buckets.longest_delay_ms`` and
    ``outage_ms``, or if a topic's configuration would lose messages; TopicMissing, LogUnavailable.
    """
    buckets = settings.buckets
    last_error = LastError()
    admin = admin_client(settings, last_error)
    complaints = []
    for topic in buckets.own_topics:
        describe_topic(settings, topic, admin, last_error)
        config = _configuration(settings, topic, admin, last_error)
        if topic == buckets.topic:
            complaints += _pending_complaints(settings, config)
        elif config["cleanup.policy"] != "compact":
            complaints.append(
                f"topic {topic!r} has cleanup.policy {config['cleanup.policy']}: set it to compact,"
                " or markers are removed, and messages appear twice"
            )
    if complaints:
        raise SettingsInvalid("; ".join(complaints))
    return buckets.longest_delay_ms


def _pending_complaints(settings: Settings, config: dict[str, Any]) -> list[str]:
    buckets = settings.buckets
    name = buckets.topic
    complaints = []
    needed_ms = buckets.longest_delay_ms + buckets.outage_ms
    kept_ms = int(config["retention.ms"])
    if 0 <= kept_ms < needed_ms:
        complaints.append(
            f"topic {name!r} keeps records for {kept_ms} ms (retention.ms), messages may wait for"
            f" {needed_ms} ms: buckets.longest_delay_ms {buckets.longest_delay_ms} and an outage"
            f" of buckets.outage_ms {buckets.outage_ms}; raise retention.ms or lower these"
        )
    if int(config["retention.bytes"]) >= 0:
        complaints.append(
            f"topic {name!r} has retention.bytes {config['retention.bytes']}: what waits would be"
            " removed by size; set it to -1"
        )
    if config["cleanup.policy"] != "delete":
        complaints.append(
            f"topic {name!r} has cleanup.policy {config['cleanup.policy']}: messages of one key"
            " would replace one another; set it to delete"
        )
    if config["message.timestamp.type"] != "LogAppendTime":
        complaints.append(
            f"topic {name!r} has message.timestamp.type {config['message.timestamp.type']}: a"
            " producer's wrong clock would delay the records behind it; set it to LogAppendTime"
        )
    return complaints


def _configuration(
    settings: Settings, topic: str, admin: AdminClient, last_error: LastError
) -> dict[str, Any]:
    try:
        return configuration_of(settings, topic, admin, last_error)
    except (HourhandError, KafkaException) as error:
        raise LogUnavailable(
            f"the configuration of topic {topic!r} cannot be read, so it is unknown how long"
            f" messages may wait: {error}"
        ) from error
