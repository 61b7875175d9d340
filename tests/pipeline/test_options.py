"""Options of a read or write: which are taken, and what a wrong one is told."""

from pathlib import Path

import pytest

from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler.pipeline.options import Options, parse_options


def test_settings_are_options_by_their_dotted_names(tmp_path: Path) -> None:
    """In whatever case Spark hands them over, and back again for the workers."""
    config = tmp_path / "hourhand.toml"
    config.write_text("[topic]\npartitions = 7\n")

    options = parse_options(
        {
            "Table": "attempts",
            "config": str(config),
            "cassandra.contact_points": "127.0.0.1,127.0.0.2",
            "cassandra.datacenter": "null",
            "topic.name": "orders",
            "kafka.consumer_properties.fetch.min.bytes": "5",
        }
    )
    settings = options.settings()

    assert options.table == "attempts"
    assert settings.topic.partitions == 7
    assert settings.topic.name == "orders"
    assert settings.cassandra.contact_points == ("127.0.0.1", "127.0.0.2")
    assert settings.cassandra.datacenter is None
    assert settings.kafka.consumer_properties == {"fetch.min.bytes": "5"}
    assert parse_options(options.as_mapping()) == options


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"table": "jobs"}, "is not one of tasks, statuses, attempts, states"),
        ({"bucketsPerTask": "none"}, "is not a number from 1 to 100000"),
        ({"rowsPerSecond": "0"}, "is not a number from 0.001"),
        ({"colour": "red"}, "no such setting"),
        ({"kafka.password": "hunter2"}, "is a secret, which would stand in Spark's plans"),
        ({"kafka.security_properties.sasl.jaas": "hunter2"}, "is a secret"),
        ({"cassandra.tls.key_password": "hunter2"}, "is a secret"),
    ],
)
def test_a_wrong_option_is_named(wrong: dict[str, str], complaint: str) -> None:
    """And a secret is not repeated."""
    with pytest.raises(SettingsInvalid, match=complaint) as error:
        parse_options(wrong)
    assert "hunter2" not in str(error.value)


def test_a_setting_out_of_its_range_is_refused_by_the_settings() -> None:
    """Their judgement, not a second one."""
    with pytest.raises(SettingsInvalid, match=r"topic\.partitions"):
        Options(overrides=(("topic.partitions", "0"),)).settings()
