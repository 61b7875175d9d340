"""Tokens of the library of a cloud, which tries sockets when it is loaded."""

import base64

import pytest

from hourhand.scheduler.adapters.kafka import tokens
from hourhand.scheduler.adapters.kafka.tokens import token_callback
from hourhand.scheduler.configuration.settings import KafkaSettings

SECRET = "hunter2"


def test_a_token_for_msk_is_signed_with_the_credentials_of_aws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signed URL of the region; Amazon's library needs no network for it."""
    pytest.importorskip("aws_msk_iam_sasl_signer", reason="not installed here: make venv")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOURS")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)

    oauth = {"provider": "msk-iam", "region": "eu-west-1"}
    kafka = KafkaSettings.model_validate({"oauth": oauth, "connect_timeout_ms": 1_000})
    tokens._source.cache_clear()

    token = token_callback(kafka)["oauth_cb"]("")

    signed = base64.urlsafe_b64decode(f"{token.text}==").decode()
    assert signed.startswith(
        "https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect"
    )
    assert "AKIAOURS" in signed
    assert SECRET not in signed
