"""The table of ports and technologies: each row opens what its port promises."""

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Concatenate, ParamSpec, TypeVar

import pytest

from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters import lifecycle
from hourhand.scheduler.adapters.cassandra import bulk as cassandra_bulk
from hourhand.scheduler.adapters.cassandra import stores as cassandra_stores
from hourhand.scheduler.adapters.cassandra import transfer as cassandra_transfer
from hourhand.scheduler.adapters.embedded import bulk as embedded_bulk
from hourhand.scheduler.adapters.embedded import dead_letters as embedded_dead_letters
from hourhand.scheduler.adapters.embedded import folder as embedded_folder
from hourhand.scheduler.adapters.embedded import log as embedded_log
from hourhand.scheduler.adapters.embedded import stores as embedded_stores
from hourhand.scheduler.adapters.embedded import transfer as embedded_transfer
from hourhand.scheduler.adapters.embedded import writer as embedded_writer
from hourhand.scheduler.adapters.kafka import dead_letters as kafka_dead_letters
from hourhand.scheduler.adapters.kafka import group_offsets as kafka_group_offsets
from hourhand.scheduler.adapters.kafka import log as kafka_log
from hourhand.scheduler.adapters.kafka import reading as kafka_reading
from hourhand.scheduler.adapters.kafka import topics as kafka_topics
from hourhand.scheduler.adapters.kafka import writer as kafka_writer
from hourhand.scheduler.adapters.observing import counted, tracing
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.kafka_only.kafka import pending, pending_topics, tails
from hourhand.scheduler.wiring import Port

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _row(
    port: Port[_P, _T], technology: str, opens: Callable[Concatenate[Settings, _P], _T]
) -> tuple[tuple[str, str], object]:
    """Return a row as it should be; the type checker compares what opens with its port."""
    return (port.name, technology), opens


ROWS = dict(
    [
        _row(wiring.open_log, "kafka", kafka_log.open_log),
        _row(wiring.open_log, "embedded", embedded_log.open_log),
        _row(wiring.open_writer, "kafka", kafka_writer.open_writer),
        _row(wiring.open_writer, "embedded", embedded_writer.EmbeddedWriter),
        _row(wiring.open_log_view, "kafka", kafka_dead_letters.KafkaLogView),
        _row(wiring.open_log_view, "embedded", embedded_dead_letters.EmbeddedLogView),
        _row(wiring.open_tail, "kafka", kafka_group_offsets.KafkaTail),
        _row(wiring.open_tail, "embedded", embedded_transfer.EmbeddedTail),
        _row(wiring.migrate_log, "kafka", kafka_topics.create_topics),
        _row(wiring.migrate_log, "embedded", embedded_log.bring_up_to_date),
        _row(wiring.open_stores, "cassandra", cassandra_stores.open_stores),
        _row(wiring.open_stores, "embedded", embedded_stores.open_stores),
        _row(wiring.open_bulk, "cassandra", cassandra_bulk.open_bulk),
        _row(wiring.open_bulk, "embedded", embedded_bulk.open_bulk),
        _row(wiring.open_transfer, "cassandra", cassandra_transfer.open_transfer),
        _row(wiring.open_transfer, "embedded", embedded_transfer.EmbeddedTransfer),
        _row(wiring.migrate_store, "cassandra", cassandra_stores.bring_up_to_date),
        _row(wiring.migrate_store, "embedded", embedded_stores.bring_up_to_date),
        _row(wiring.lock_folder, "embedded", embedded_folder.lock_folder),
        _row(wiring.open_group_offsets, "kafka", kafka_group_offsets.KafkaGroupOffsets),
        _row(wiring.open_messages, "kafka", kafka_writer.open_messages),
        _row(wiring.open_topic_reader, "kafka", kafka_reading.KafkaTopicReader),
        _row(wiring.topic_identity, "kafka", kafka_topics.topic_identity),
        _row(wiring.require_topic, "kafka", kafka_topics.require_topic),
        _row(wiring.create_topics, "kafka", kafka_topics.create_topics),
        _row(wiring.create_told_topics, "kafka", kafka_topics.create_told_topics),
        _row(wiring.publish_lives, "topic", lifecycle.publish_lives),
        _row(wiring.open_buckets, "kafka", pending.KafkaBuckets),
        _row(wiring.create_bucket_topics, "kafka", pending_topics.create_pending_topics),
        _row(wiring.open_marks, "kafka", tails.open_marks),
        _row(wiring.counted, "prometheus", counted.Counted),
        _row(wiring.traced, "opentelemetry", tracing.traced),
    ]
)


@pytest.mark.parametrize("row", wiring.ADAPTERS)
def test_each_row_of_the_table_opens_what_its_port_promises(row: tuple[str, str]) -> None:
    """A name that finds nothing would only show when somebody uses that technology."""
    assert resolve_name(wiring.ADAPTERS[row]) is ROWS[row]


@pytest.mark.parametrize("settings", [{}, {"log": "kafka", "store": "cassandra"}])
def test_every_port_has_a_row_for_the_technology_that_the_settings_name(
    settings: dict[str, str],
) -> None:
    """Every combination that a node can run with."""
    chosen = Settings.model_validate(settings)
    ports = [each for each in vars(wiring).values() if isinstance(each, Port)]

    missing = {(port.name, port.technology_of(chosen)) for port in ports} - wiring.ADAPTERS.keys()

    assert len(ports) > 20
    assert not missing


def test_with_kafka_alone_no_store_for_tasks_is_opened() -> None:
    """It keeps messages only, which the error says."""
    for port in (wiring.open_stores, wiring.open_bulk, wiring.open_transfer):
        with pytest.raises(SettingsInvalid, match="messages of send_later and the relay only"):
            port(Settings(log="kafka", store="kafka"))
