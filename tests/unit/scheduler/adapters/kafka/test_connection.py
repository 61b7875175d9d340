"""What the driver is told of TLS and logins, and which of its complaints is remembered."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler.adapters.kafka.connection import (
    LastError,
    opened,
    security_advice,
    security_properties,
)
from hourhand.scheduler.configuration.settings import KafkaSettings

LOGIN = {"username": "someone", "password": "hunter2"}
KERBEROS = {"security_properties": {"sasl.mechanism": "GSSAPI"}}


@pytest.mark.parametrize(
    ("settings", "protocol"),
    [
        ({}, "PLAINTEXT"),
        ({"tls": {"enabled": True}}, "SSL"),
        (LOGIN, "SASL_PLAINTEXT"),
        ({**LOGIN, "tls": {"enabled": True}}, "SASL_SSL"),
        (KERBEROS, "SASL_PLAINTEXT"),
        ({**KERBEROS, "tls": {"enabled": True}}, "SASL_SSL"),
    ],
)
def test_the_protocol_follows_from_what_is_set(settings: dict[str, Any], protocol: str) -> None:
    """So nobody can encrypt and forget to say so."""
    properties = security_properties(KafkaSettings.model_validate(settings))

    assert properties["security.protocol"] == protocol


def test_what_is_passed_on_reaches_the_driver() -> None:
    """In the clear, as nothing else would do."""
    kafka = KafkaSettings.model_validate(
        {**LOGIN, "security_properties": {"ssl.cipher.suites": "x"}}
    )

    assert security_properties(kafka) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "someone",
        "sasl.password": "hunter2",
        "ssl.cipher.suites": "x",
    }


def test_a_refusal_outlives_the_complaint_that_follows_it() -> None:
    """A broker that refuses a password is also one that is down."""
    last = LastError()

    last(KafkaError(KafkaError._AUTHENTICATION, "refused"))
    last(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert (last.text, last.code) == ("refused", KafkaError._AUTHENTICATION)

    last(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    assert last.text == "connection refused"


def test_a_broker_that_is_only_down_needs_no_advice_on_security() -> None:
    """Nor does any other error."""
    kafka = KafkaSettings()

    assert security_advice(kafka, KafkaError._TRANSPORT, "Connection refused") == ""
    assert security_advice(kafka, None, "") == ""
    assert "kafka.tls" in security_advice(kafka, KafkaError._TRANSPORT, "SSL handshake failed")


def test_properties_the_driver_refuses_are_the_operators() -> None:
    """It names the property, and not its value."""
    with pytest.raises(SettingsInvalid, match=r"no\.such\.property.*kafka\.consumer_properties"):
        opened(Producer, {"no.such.property": "hunter2"})
