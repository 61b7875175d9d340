"""TLS and login as librdkafka is told of them, and what to do where a broker refuses them.

Decides the security protocol from what is set, so that it cannot contradict the rest.  The
returned properties hold secrets in the clear: they are handed to the driver and not kept.
"""

from confluent_kafka import KafkaError

from scheduler.configuration.settings import KafkaSettings

UNAUTHORIZED = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""Answers to a client that the broker knows and does not allow."""
_MECHANISMS = frozenset({"sasl.mechanism", "sasl.mechanisms"})
_PROTOCOLS = {
    (False, False): "PLAINTEXT",
    (True, False): "SSL",
    (False, True): "SASL_PLAINTEXT",
    (True, True): "SASL_SSL",
}
"""By (encrypted, logs in)."""


def security_properties(kafka: KafkaSettings) -> dict[str, str]:
    """Return the driver's properties; SettingsInvalid where a file cannot be read."""
    passed_on = {
        name: value.get_secret_value() for name, value in kafka.security_properties.items()
    }
    logs_in = kafka.username is not None or bool(_MECHANISMS & passed_on.keys())
    return {
        "security.protocol": _PROTOCOLS[kafka.tls.enabled, logs_in],
        **_tls_properties(kafka),
        **_login_properties(kafka),
        **passed_on,
    }


def security_advice(kafka: KafkaSettings, code: int | None, text: str) -> str:
    """Return what to check where an error is one of trust, login or rights, else nothing."""
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
        # A broker that waits for TLS or for a login closes the connection without a word.
        return (
            "Check kafka.bootstrap_servers, that a broker runs, and that this port is meant for"
            f" kafka.tls.enabled, which is {str(kafka.tls.enabled).lower()}, and"
            f" kafka.username, which is {kafka.username!r}"
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
    if kafka.username is None:
        return {}
    return {
        "sasl.mechanism": kafka.sasl_mechanism,
        "sasl.username": kafka.username,
        "sasl.password": kafka.password_text("kafka") or "",
    }
