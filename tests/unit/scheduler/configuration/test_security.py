"""What settings of TLS and logins may be combined, and where a secret comes from."""

import logging
import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler.configuration.security import TlsSettings
from hourhand.scheduler.configuration.settings import CassandraSettings, KafkaSettings, Settings
from hourhand.scheduler.configuration.settings_dicts import (
    CassandraSettingsDict,
    KafkaSettingsDict,
    OAuthSettingsDict,
    TlsSettingsDict,
)

SECRET = "hunter2"
LOGIN: KafkaSettingsDict = {"username": "someone", "password": SECRET}
TLS: TlsSettingsDict = {"enabled": True}
OIDC: OAuthSettingsDict = {
    "provider": "oidc",
    "client_id": "hourhand",
    "client_secret": SECRET,
    "endpoint": "https://login.example/token",
}

MISTAKES: dict[str, tuple[Any, str]] = {
    "a password without a user": ({"password": SECRET}, "username must be too"),
    "a password file without a user": ({"password_file": "f"}, "username must be too"),
    "a user without a password": ({"username": "someone"}, "password or password_file"),
    "two passwords": ({**LOGIN, "password_file": "f"}, "both set"),
    "an empty user": ({"username": "", "password": SECRET}, "a text that is not empty"),
    "an authority and no TLS": ({"tls": {"ca_file": "f"}}, "set enabled to true"),
    "a key password and no TLS": ({"tls": {"key_password": SECRET}}, "set enabled to true"),
    "a certificate without a key": (
        {"tls": {**TLS, "certificate_file": "f"}},
        "certificate_file and key_file",
    ),
    "a key without a certificate": ({"tls": {**TLS, "key_file": "f"}}, "certificate_file and key"),
    "a key password without a key": ({"tls": {**TLS, "key_password": SECRET}}, "key_file"),
    "two key passwords": (
        {
            "tls": {
                **TLS,
                "certificate_file": "f",
                "key_file": "f",
                "key_password": SECRET,
                "key_password_file": "f",
            }
        },
        "both set",
    ),
    "a mistyped password": ({"pasword": SECRET}, "pasword"),
    "a number in range of none, beside a password": (
        {**LOGIN, "connect_timeout_ms": 0},
        "connect_timeout_ms",
    ),
    "a password instead of the group": (SECRET, "or a dictionary of its fields, is needed"),
    "a list of passwords": (
        {"username": "someone", "password": [SECRET]},
        "password: a text is needed",
    ),
}
OAUTH_MISTAKES: dict[str, tuple[Any, str]] = {
    "a provider that is not known": ({"oauth": {"provider": "okta"}}, "'okta' is not known"),
    "a provider of two words": ({"oauth": {"provider": "a b:c"}}, "provider"),
    "a provider beside a user": (
        {**LOGIN, "oauth": {"provider": "app:token"}},
        "leave one of them out",
    ),
    "a secret and no provider": ({"oauth": {"client_secret": SECRET}}, "client_secret would have"),
    "a region for OIDC": ({"oauth": {**OIDC, "region": "eu-west-1"}}, "region would have no"),
    "a secret for MSK": (
        {"oauth": {"provider": "msk-iam", "region": "r", "client_secret": SECRET}},
        "client_secret would have no effect",
    ),
    "MSK without its region": ({"oauth": {"provider": "msk-iam"}}, "needs region"),
    "OIDC without a secret": (
        {"oauth": {**OIDC, "client_secret": None}},
        "needs client_id, client_secret or client_secret_file, and endpoint",
    ),
    "two secrets": ({"oauth": {**OIDC, "client_secret_file": "f"}}, "both set"),
    "an endpoint without http": ({"oauth": {**OIDC, "endpoint": "login.example"}}, "endpoint"),
    "a mechanism beside a provider": (
        {"oauth": OIDC, "security_properties": {"sasl.mechanism": SECRET}},
        r"sasl\.mechanism beside kafka\.oauth",
    ),
}
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


@pytest.mark.parametrize("server", ["kafka", "cassandra"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_and_the_secret_is_not(mistake: str, server: str) -> None:
    """Both servers take the same settings."""
    given, named = MISTAKES[mistake]

    with pytest.raises(SettingsInvalid, match=named) as raised:
        Settings(**{server: given})

    assert server in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("mistake", OAUTH_MISTAKES)
def test_a_mistake_about_tokens_is_named_and_the_secret_is_not(mistake: str) -> None:
    """They are for Kafka alone."""
    given, named = OAUTH_MISTAKES[mistake]
    with pytest.raises(SettingsInvalid, match=named) as raised:
        Settings(kafka=given)

    assert SECRET not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("group", [KafkaSettings, CassandraSettings])
def test_a_group_made_by_itself_does_not_quote_secrets(group: type[KafkaSettings]) -> None:
    """The error is pydantic's own there."""
    with pytest.raises(ValidationError) as raised:
        group.model_validate({"password": SECRET})

    assert SECRET not in str(raised.value)


def test_settings_are_shown_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    """By every way Python has to show a value."""
    tls: TlsSettingsDict = {**TLS, "certificate_file": "c", "key_file": "k", "key_password": SECRET}
    cassandra: CassandraSettingsDict = {"username": "someone", "password": SECRET, "tls": tls}
    settings = Settings(
        kafka={**LOGIN, "tls": tls, "security_properties": {"ssl.keystore.password": SECRET}},
        cassandra=cassandra,
    )

    with caplog.at_level(logging.DEBUG):
        logging.getLogger("test").debug("%s %r", settings, settings.kafka)
    for shown in (
        repr(settings),
        str(settings),
        f"{settings.cassandra!s:.9999}",
        str(settings.model_dump()),
        settings.model_dump_json(),
        caplog.text,
    ):
        assert SECRET not in shown
    assert SECRET in settings.kafka.password_text("kafka")  # type: ignore[operator]
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 - our own bytes


def test_a_secret_is_read_from_its_file_each_time(tmp_path: Path) -> None:
    """The line end that an editor leaves is not part of it; spaces are."""
    file = tmp_path / "password"
    kafka = KafkaSettings(username="someone", password_file=file)

    for text, secret in (("one\n", "one"), ("two\r\n", "two"), (" three ", " three ")):
        file.write_bytes(text.encode())
        assert kafka.password_text("kafka") == secret


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe"])
def test_a_secret_file_that_is_of_no_use_is_named(content: bytes | None, tmp_path: Path) -> None:
    """Not there, empty, or no text."""
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    tls = TlsSettings(enabled=True, certificate_file=file, key_file=file, key_password_file=file)

    with pytest.raises(
        SettingsInvalid, match=r"cassandra\.tls\.key_password_file names .*password"
    ):
        tls.key_password_text("cassandra.tls")


@pytest.mark.parametrize("name", ["ca_file", "certificate_file", "key_file"])
def test_a_file_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    """Before a driver says something about it that nobody understands."""
    there, missing = tmp_path / "there.pem", tmp_path / "missing.pem"
    there.touch()
    files = dict.fromkeys(("ca_file", "certificate_file", "key_file"), there) | {name: missing}

    with pytest.raises(SettingsInvalid, match=rf"kafka\.tls\.{name} names .*missing\.pem"):
        TlsSettings.model_validate({"enabled": True, **files}).checked_files("kafka.tls")


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where containers put them."""
    monkeypatch.setenv("HOURHAND_KAFKA__USERNAME", "someone")
    monkeypatch.setenv("HOURHAND_KAFKA__PASSWORD", SECRET)
    monkeypatch.setenv("HOURHAND_CASSANDRA__TLS__ENABLED", "true")

    settings = Settings()

    assert settings.kafka.password == SecretStr(SECRET)
    assert settings.cassandra.tls.enabled


def test_text_that_cannot_be_read_is_not_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON of the environment and a settings file, each cut off after the secret."""
    monkeypatch.setenv("HOURHAND_CASSANDRA", f'{{"password": "{SECRET}"')
    with pytest.raises(SettingsInvalid, match="cassandra") as in_environment:
        Settings()
    monkeypatch.delenv("HOURHAND_CASSANDRA")
    (tmp_path / "hourhand.toml").write_text(f'[cassandra]\npassword = "{SECRET}" x\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsInvalid, match=r"hourhand\.toml is not TOML") as in_file:
        Settings()

    for raised in (in_environment, in_file):
        assert SECRET not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", CONTROLLED)
def test_what_would_break_a_promise_is_refused(name: str, table: str) -> None:
    """The message names the table and the property, and never the value."""
    planted: Any = {table: {name: "planted"}}
    with pytest.raises(SettingsInvalid, match=rf"{table} must not set {name}: \w+") as raised:
        Settings(kafka=planted)

    assert "planted" not in str(raised.value)


@pytest.mark.parametrize("table", TABLES[:2])
@pytest.mark.parametrize("name", ["sasl.password", "ssl.key.pem", "security.protocol"])
def test_security_has_a_table_of_its_own(name: str, table: str) -> None:
    """The others are shown by ``hourhand settings`` and ``repr``."""
    planted: Any = {table: {name: "planted"}}
    with pytest.raises(SettingsInvalid, match="put it into security_properties") as raised:
        Settings(kafka=planted)

    assert "planted" not in str(raised.value)


def test_what_a_setting_says_is_not_said_twice() -> None:
    """Two sources of one truth would differ one day."""
    login: KafkaSettingsDict = {"username": "someone", "password": "x"}

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
