"""Adapters are picked by the settings, drivers only when asked for."""

from pathlib import Path

import pytest

from hourhand.actors.model.operations.events import BulkEnqueued
from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.embedded.writer import EmbeddedWriter
from hourhand.scheduler.adapters.telemetry import LoggingTelemetry
from hourhand.scheduler.cli.relay_running import relay_log_settings
from hourhand.scheduler.configuration.door_settings import ObserveSettings
from hourhand.scheduler.configuration.settings import Settings


def test_the_default_settings_open_the_embedded_adapters(tmp_path: Path) -> None:
    """In the folder that the settings name."""
    settings = Settings.model_validate({"embedded": {"folder": tmp_path / "data"}})

    writer = wiring.open_writer(settings)
    try:
        assert isinstance(writer, EmbeddedWriter)
        assert writer.partition_count() == 16
    finally:
        writer.close()


def test_an_embedded_installation_has_nothing_to_migrate() -> None:
    """And says so for both of its parts."""
    assert [line.endswith("nothing to do") for line in wiring.migrate(Settings())] == [True, True]


def test_a_node_is_observed_where_the_settings_ask_for_it() -> None:
    """Otherwise every port is used as it is, and nothing is loaded for it."""
    clock, telemetry = wiring.open_clock(), wiring.build_telemetry(Settings())
    assert isinstance(telemetry, LoggingTelemetry)

    plain = wiring.observe(Settings(), clock, telemetry)
    counted = wiring.observe(Settings(observe=ObserveSettings(metrics=True)), clock, telemetry)

    assert plain.registry is None
    counted.telemetry.emit(BulkEnqueued(3, 1.0))
    assert counted.registry.get_sample_value("hourhand_records_enqueued_total") == 3


def test_without_a_topic_for_events_nobody_is_told(tmp_path: Path) -> None:
    """Nothing stands before the stores then, and nothing is opened."""
    settings = Settings.model_validate({"embedded": {"folder": tmp_path / "data"}})

    assert wiring.open_feed(settings, wiring.open_clock()) is None


def test_events_have_a_topic_of_their_own() -> None:
    """In any other they would be taken for tasks, messages or letters."""
    for name in ("hourhand", "hourhand-dead-letter", "hourhand-relay-in"):
        with pytest.raises(SettingsInvalid, match="give the events a topic of their own"):
            Settings(events={"topic": name})


def test_the_in_topic_is_fetched_in_batches_unless_told_otherwise() -> None:
    """A fetch for each message costs the broker as much as the message; the user's word counts."""
    chosen = {"fetch.wait.max.ms": "7"}
    settings = Settings(log="kafka", kafka={"consumer_properties": chosen})

    read = relay_log_settings(settings).kafka.consumer_properties

    assert read == {"fetch.min.bytes": "1000000", "fetch.wait.max.ms": "7"}
    assert settings.kafka.consumer_properties == chosen
