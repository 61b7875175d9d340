"""Tokens of a named provider: when it is asked, and what becomes of one that fails."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hourhand.actors.model.values.errors import LogUnavailable, SettingsInvalid
from hourhand.scheduler.adapters.kafka import tokens
from hourhand.scheduler.adapters.kafka.connection import security_advice, security_properties
from hourhand.scheduler.adapters.kafka.tokens import Token, TokenSource, token_callback
from hourhand.scheduler.configuration.settings import KafkaSettings
from tests.unit.scheduler.adapters.memory.world import ManualClock

WAIT_S = 60.0


HOUR_S = 3_600


SECRET = "hunter2"


NOT_TOKENS: dict[str, tuple[object, str]] = {
    "nothing": (None, "returned a NoneType"),
    "a token alone": (SECRET, "returned a str"),
    "one of a tuple": ((SECRET,), "returned a tuple"),
    "bytes": ((SECRET.encode(), HOUR_S), "RFC 6750"),
    "a line end": ((f"{SECRET}\n", HOUR_S), "RFC 6750"),
    "no number": ((SECRET, "soon"), "returned a str as expiry"),
    "a truth": ((SECRET, True), "returned a bool as expiry"),
    "expired": ((SECRET, -1), "valid for -1 s"),
    "milliseconds": ((SECRET, 1_795_655_814_000), "Unix time in seconds"),
    "a number as principal": ((SECRET, HOUR_S, 7), "RFC 7628"),
    "extensions in a list": ((SECRET, HOUR_S, "", [SECRET]), "RFC 7628"),
    "an extension that is reserved": ((SECRET, HOUR_S, "", {"auth": "x"}), "RFC 7628"),
    "a fifth": ((SECRET, HOUR_S, "", {}, None), "returned a tuple"),
}


class Provider:
    """Counts how often it is asked; answers with what is given, or does it."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: object = ("abc", HOUR_S)

    def __call__(self) -> object:
        """Answer."""
        self.asked += 1
        return self.answer() if callable(self.answer) else self.answer


class World:
    """A source, its provider, and a clock that stands still."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.clock.ms = 0.0
        self.provider = Provider()
        self.source = TokenSource("app:token", self.provider, self.clock)

    def pass_s(self, seconds: float) -> None:
        """Let so long pass on both clocks."""
        self.clock.ms += seconds * 1000


@pytest.fixture
def world() -> World:
    """At the beginning of Unix time."""
    return World()


def test_one_token_serves_all_clients_until_three_quarters_of_its_life(world: World) -> None:
    """The driver asks after four fifths."""
    assert [world.source.token(WAIT_S) for _ in range(3)] == [Token("abc", HOUR_S, "", {})] * 3
    world.pass_s(0.74 * HOUR_S)
    world.source.refresh("")
    assert world.provider.asked == 1

    world.pass_s(0.02 * HOUR_S)
    world.provider.answer = ("later", 2 * HOUR_S, "me", {"logicalCluster": "lkc-1"})

    assert world.source.refresh("") == Token("later", 2 * HOUR_S, "me", {"logicalCluster": "lkc-1"})


@pytest.mark.parametrize("kind", NOT_TOKENS)
def test_what_is_not_a_token_is_refused_and_not_shown(kind: str, world: World) -> None:
    """It may be one, in the wrong place."""
    world.provider.answer, told = NOT_TOKENS[kind]

    with pytest.raises(LogUnavailable, match=told) as raised:
        world.source.token(WAIT_S)

    assert "'app:token'" in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_a_provider_raises_is_told_by_class_and_place(
    kind: type[BaseException], world: World
) -> None:
    """Its message may quote a secret."""

    def fails() -> object:
        raise kind(SECRET)

    world.provider.answer = fails
    with pytest.raises(LogUnavailable, match=rf"{kind.__name__} at .*test_tokens\.py:\d+") as told:
        world.source.token(WAIT_S)

    assert SECRET not in str(told.value)
    assert told.value.__cause__ is None


def test_a_failed_provider_is_asked_again_after_a_pause(world: World) -> None:
    """Every client asks for itself."""
    world.provider.answer = None
    for _ in range(3):
        with pytest.raises(LogUnavailable):
            world.source.token(WAIT_S)
    assert world.provider.asked == 1

    world.provider.answer = ("abc", HOUR_S)
    world.pass_s(5)

    assert world.source.token(WAIT_S).text == "abc"


def test_a_provider_that_blocks_is_waited_for_by_one_thread(world: World) -> None:
    """And asked again after a minute, then after two: its thread cannot be ended."""
    goes_on, threads = threading.Event(), threading.active_count()
    world.provider.answer = goes_on.wait
    for passed_s, asked in ((0, 1), (59, 1), (1, 2), (60, 2), (60, 3)):
        world.pass_s(passed_s)
        with pytest.raises(LogUnavailable, match="did not answer within"):
            world.source.token(0.0)
        assert threading.active_count() - threads == asked

    goes_on.set()
    with pytest.raises(LogUnavailable, match="returned a bool"):
        world.source.token(WAIT_S)
    world.provider.answer = ("abc", HOUR_S)
    world.pass_s(5)
    assert world.source.token(WAIT_S).text == "abc"


def test_the_driver_is_told_and_the_log_says_what_to_do(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver keeps its last token, and asks again."""
    world.provider.answer = None

    with pytest.raises(LogUnavailable):
        world.source.refresh("")

    assert "Call it by hand" in caplog.text
    assert "the last token is used until it expires" in caplog.text


def of(**oauth: Any) -> KafkaSettings:
    """Return settings with this provider, waited for a second."""
    return KafkaSettings.model_validate({"oauth": oauth, "connect_timeout_ms": 1_000})


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Write a module of the user's into the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_tokens", raising=False)
    tokens._source.cache_clear()

    def write(text: str) -> None:
        (tmp_path / "own_tokens.py").write_text(text)

    return write


def test_a_function_of_the_users_own_is_the_drivers_callback(
    module: Callable[[str], None],
) -> None:
    """It is found in the working folder, and has been asked before the driver asks."""
    module("from time import time\ndef token():\n    return 'abc', time() + 3600\n")

    callback = token_callback(of(provider="own_tokens:token"))["oauth_cb"]

    assert callback("").text == "abc"
    assert token_callback(KafkaSettings()) == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("raise SystemExit('hunter2')", "cannot be imported: SystemExit at .*own_tokens.py:1"),
        ("other = 1", "cannot be imported: AttributeError"),
        ("token = 1", "is a int: name a function"),
    ],
)
def test_a_provider_that_cannot_be_found_is_the_operators(
    text: str, told: str, module: Callable[[str], None]
) -> None:
    """It is told before anything is opened."""
    module(text)

    with pytest.raises(SettingsInvalid, match=told) as raised:
        token_callback(of(provider="own_tokens:token"))

    assert SECRET not in str(raised.value)


def test_oidc_is_the_drivers_own(tmp_path: Path) -> None:
    """Only what is set reaches it; the secret comes from a file."""
    for name in ("secret", "ca.pem"):
        (tmp_path / name).write_text(f"{SECRET}\n")
    kafka = of(
        provider="oidc",
        client_id="hourhand",
        client_secret_file=tmp_path / "secret",
        endpoint="https://login.example/token",
        extensions={"logicalCluster": "lkc-1", "identityPoolId": "pool-1"},
        ca_file=tmp_path / "ca.pem",
    )

    assert token_callback(kafka) == {}
    assert security_properties(kafka) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "hourhand",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-1",
        "https.ca.location": str(tmp_path / "ca.pem"),
    }


def test_a_refused_token_names_the_provider() -> None:
    """There is no password to check."""
    advice = security_advice(of(provider="app:token"), -169, "refused")

    assert "provider 'app:token' gives a token" in advice
    assert "password" not in advice
