"""Which of the driver's properties are passed on, and which are refused with what to do."""

import pytest

from actors.model.errors import SettingsInvalid
from scheduler.configuration.settings import Settings

TABLES = ("consumer_properties", "producer_properties", "security_properties")
CONTROLLED = (
    "acks",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.idempotence",
    "group.instance.id",
    "partition.assignment.strategy",
    "partitioner",
    "request.required.acks",
    "session.timeout.ms",
    "transactional.id",
    "error_cb",
)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", CONTROLLED)
def test_what_would_break_a_promise_is_refused(name: str, table: str) -> None:
    """The message names the table and the property, and never the value."""
    with pytest.raises(SettingsInvalid, match=rf"{table} must not set {name}: \w+") as raised:
        Settings(kafka={table: {name: "planted"}})

    assert "planted" not in str(raised.value)


@pytest.mark.parametrize("table", TABLES[:2])
@pytest.mark.parametrize("name", ["sasl.password", "ssl.key.pem", "security.protocol"])
def test_security_has_a_table_of_its_own(name: str, table: str) -> None:
    """The others are shown by ``hourhand settings`` and ``repr``."""
    with pytest.raises(SettingsInvalid, match="put it into security_properties") as raised:
        Settings(kafka={table: {name: "planted"}})

    assert "planted" not in str(raised.value)


def test_what_a_setting_says_is_not_said_twice() -> None:
    """Two sources of one truth would differ one day."""
    login = {"username": "someone", "password": "x"}

    with pytest.raises(SettingsInvalid, match=r"sasl\.password beside kafka\.username"):
        Settings(kafka={**login, "security_properties": {"sasl.password": "y"}})
    with pytest.raises(SettingsInvalid, match=r"ssl\.ca\.location beside .*kafka\.tls"):
        Settings(kafka={"tls": {"enabled": True}, "security_properties": {"ssl.ca.location": "y"}})


def test_everything_else_is_passed_on() -> None:
    """Also beside the settings of TLS."""
    settings = Settings(
        kafka={
            "tls": {"enabled": True},
            "consumer_properties": {"fetch.wait.max.ms": "100"},
            "producer_properties": {"linger.ms": "5"},
            "security_properties": {
                "sasl.mechanism": "GSSAPI",
                "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384",
            },
        }
    )

    assert settings.kafka.consumer_properties == {"fetch.wait.max.ms": "100"}
