"""What is said where a package is missing; tests/tidy/test_wheel.py misses them for real."""

import importlib

import pytest

from hourhand.actors.model.values.errors import DependencyMissing
from hourhand.scheduler.configuration.optional_dependencies import opens_drivers, required_by
from hourhand.scheduler.configuration.settings import Settings


@opens_drivers
def opened(settings: Settings, missing: str | None = None) -> str:
    """Stand in for a function of the wiring."""
    if missing is not None:
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
    return settings.log


@pytest.mark.parametrize(
    ("settings", "missing", "said"),
    [
        ({"log": "kafka"}, "confluent_kafka.admin", "log = 'kafka' needs confluent_kafka"),
        (
            {"log": "kafka", "store": "cassandra"},
            "cassandra",
            "store = 'cassandra' needs cassandra",
        ),
        ({"events": {"topic": "life"}}, "confluent_kafka", "events.topic = 'life' needs"),
        ({}, "confluent_kafka", "a message for a Kafka topic needs confluent_kafka"),
    ],
)
def test_the_setting_that_asks_for_a_driver_is_named(
    settings: dict[str, object], missing: str, said: str
) -> None:
    """And what pip takes, from wherever Hourhand was installed, and the extra."""
    remedy = r": pip install '(confluent-kafka|cassandra-driver)[<>=.,0-9]+' \(the extra '\w+'"
    with pytest.raises(DependencyMissing, match=remedy) as caught:
        opened(Settings.model_validate(settings), missing)

    assert said in str(caught.value)


def test_what_opens_is_returned() -> None:
    """Nothing is looked for in advance."""
    assert opened(Settings()) == "embedded"


def test_a_module_of_our_own_that_is_missing_stays_a_bug() -> None:
    """No extra would bring it."""
    with pytest.raises(ModuleNotFoundError), required_by("a test"):
        importlib.import_module("hourhand.scheduler.no_such_module")

    with pytest.raises(ModuleNotFoundError):
        opened(Settings(), "hourhand.scheduler.no_such_module")
