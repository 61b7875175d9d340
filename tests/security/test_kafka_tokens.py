"""A broker that demands a signed token: who gets in, also when tokens expire or do not come."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from hourhand import Scheduler, SchedulerClient, Settings, Task
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.kafka import tokens
from tests.builders import Idle
from tests.security.authority import CLIENT, SECRET
from tests.security.authorization_server import (
    AUDIENCE,
    AuthorizationServer,
    authorization_server,
)
from tests.security.kafka_rights import NODE_RIGHTS, grant
from tests.security.one_task import WAIT_S, a_task, run_one_task
from tests.security.test_secrets import Heard, heard
from tests.servers.kafka import KafkaServer
from tests.servers.process import SHORT_LIVED
from tests.servers.running import running
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.long]
__all__ = ["heard"]

LIFETIME_S = 5
"""Of a short token; the broker ends a connection whose token has expired."""
PATIENT_MS, HASTY_MS = 30_000, 4_000
"""How long a client waits for a first answer, where it comes and where none does."""
_ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_OAUTH = "org.apache.kafka.common.security.oauthbearer"


class Provider:
    """What ``kafka.oauth.provider`` names: a function of a user's own."""

    server: AuthorizationServer
    trouble: Callable[[], object] | None = None

    def __call__(self) -> object:
        """Return a token, or get into trouble."""
        return self.trouble() if self.trouble else self.server.token()


own = Provider()
OWN = f"{__name__}:own"


@pytest.fixture(scope="module")
def authority_of_tokens() -> Iterator[AuthorizationServer]:
    """Whom the broker trusts."""
    with authorization_server() as server:
        yield server


@pytest.fixture(scope="module")
def token_kafka(
    tmp_path_factory: pytest.TempPathFactory, authority_of_tokens: AuthorizationServer
) -> Iterator[KafkaServer]:
    """A broker that asks for a token which our server signed, for an hour of a connection."""
    url = authority_of_tokens.url
    listener = "listener.name.sasl.oauthbearer"
    yield from running(
        lambda: KafkaServer(
            tmp_path_factory.mktemp("token-kafka"),
            listeners={"SASL": "SASL_PLAINTEXT"},
            java_options=(*SHORT_LIVED, f"-D{_ALLOWED}={url}/keys"),
            properties={
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                "listener.name.sasl.sasl.enabled.mechanisms": "OAUTHBEARER",
                "listener.name.sasl.connections.max.reauth.ms": "3600000",
                f"{listener}.sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
                f"{listener}.sasl.server.callback.handler.class": (
                    f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"
                ),
                # Without it, Kafka 4.1.0 let in a token that a stranger had signed.
                "listener.name.sasl.sasl.oauthbearer.jwt.validator.class": (
                    f"{_OAUTH}.BrokerJwtValidator"
                ),
                "listener.name.sasl.sasl.oauthbearer.jwks.endpoint.url": f"{url}/keys",
                "listener.name.sasl.sasl.oauthbearer.expected.audience": AUDIENCE,
                "listener.name.sasl.sasl.oauthbearer.expected.issuer": url,
            },
        )
    )


@pytest.fixture
def provider(authority_of_tokens: AuthorizationServer) -> Iterator[Provider]:
    """Out of trouble before and after, and forgotten by the clients of this process."""
    own.server, own.trouble = authority_of_tokens, None
    authority_of_tokens.lifetime_s = 3_600
    tokens._source.cache_clear()
    yield own
    own.trouble = None
    tokens._source.cache_clear()


@pytest.fixture
def settings(token_kafka: KafkaServer, tmp_path: Path) -> Settings:
    """Topics that the operator made, rights of a node, and no token yet."""
    name = f"token-{uuid.uuid4().hex[:8]}"

    def at(server: str) -> Settings:
        return Settings(
            log="kafka",
            topic={"name": name, "dead_letter": f"{name}-dead-letter", "partitions": 2},
            group={"id": name, "session_timeout_ms": 45_000, "heartbeat_interval_ms": 250},
            kafka={"bootstrap_servers": server, "connect_timeout_ms": PATIENT_MS},
            embedded={"folder": tmp_path / "data"},
        )

    wiring.migrate(at(token_kafka.bootstrap_servers))
    grant(token_kafka.bootstrap_servers, CLIENT, name, NODE_RIGHTS)
    return at(token_kafka.address("SASL"))


@pytest.fixture
def hasty(settings: Settings) -> Settings:
    """The same for a client that is refused, which tries for as long as it may."""
    kafka = settings.kafka.model_copy(update={"connect_timeout_ms": HASTY_MS})
    return settings.model_copy(update={"kafka": kafka})


def with_tokens(settings: Settings, **oauth: Any) -> Settings:
    """Return settings that log in with this provider."""
    values = settings.kafka.model_dump() | {"oauth": oauth}
    kafka = type(settings.kafka).model_validate(values)
    return settings.model_copy(update={"kafka": kafka})


def oidc(settings: Settings, server: AuthorizationServer, **instead: Any) -> Settings:
    """Return settings with the driver's own way to get a token."""
    chosen = {"client_id": CLIENT, "client_secret": SECRET, "endpoint": f"{server.url}/token"}
    return with_tokens(settings, **{"provider": "oidc", **chosen, **instead})


def test_a_client_without_a_token_is_refused(hasty: Settings) -> None:
    """The broker closes the connection without a word."""
    with pytest.raises(LogUnavailable, match=r"kafka\.oauth\.provider, which is None"):
        SchedulerClient(hasty)


def test_a_client_with_a_strangers_token_is_refused(hasty: Settings, provider: Provider) -> None:
    """Signed, but not by whom the broker trusts."""
    with authorization_server() as stranger:
        provider.trouble = stranger.token
        with pytest.raises(LogUnavailable, match=r"Check kafka\.oauth: that provider"):
            SchedulerClient(with_tokens(hasty, provider=OWN))


def test_a_node_runs_with_tokens_of_its_own_provider(
    settings: Settings, provider: Provider
) -> None:
    """All clients of the process share one."""
    before = provider.server.issued

    run_one_task(with_tokens(settings, provider=OWN))

    assert provider.server.issued == before + 1


@pytest.mark.parametrize("kind", ["own", "oidc"])
def test_a_node_outlives_its_tokens(
    kind: str, settings: Settings, provider: Provider, tmp_path: Path
) -> None:
    """It runs tasks before, at and after the end of two of them; a secret comes from a file."""
    provider.server.lifetime_s = LIFETIME_S
    chosen = with_tokens(settings, provider=OWN)
    if kind == "oidc":
        (tmp_path / "secret").write_text(f"{SECRET}\n")
        chosen = oidc(
            settings, provider.server, client_secret=None, client_secret_file=tmp_path / "secret"
        )
    before = provider.server.issued

    with Running(chosen) as node:
        deadline_s = time.monotonic() + 2.2 * LIFETIME_S
        while time.monotonic() < deadline_s:
            node.run_a_task()

    assert provider.server.issued >= before + 2


def raises() -> object:
    """Fail as a user's provider may, with a secret in the message."""
    raise SystemExit(f"no token for {SECRET}")


def blocks() -> object:
    """Answer late, and nothing of use."""
    return threading.Event().wait(8)


@pytest.mark.parametrize("trouble", [raises, blocks])
def test_a_provider_in_trouble_does_not_end_a_node(
    trouble: Callable[[], object], settings: Settings, provider: Provider, heard: Heard
) -> None:
    """The log says what to do, and the node goes on as soon as tokens come again."""
    provider.server.lifetime_s = LIFETIME_S
    with Running(with_tokens(settings, provider=OWN)) as node:
        node.run_a_task()
        provider.trouble = trouble
        until(lambda: any("Call it by hand" in line for line in heard.lines))
        provider.trouble = None
        node.run_a_task()
        until(lambda: node.scheduler.partitions, "the node lost its partitions")

    assert not [line for line in heard.lines if SECRET in line]


@pytest.mark.parametrize("trouble", [raises, blocks])
def test_a_provider_in_trouble_at_the_start_is_told(
    trouble: Callable[[], object], hasty: Settings, provider: Provider
) -> None:
    """Within the time for a first answer."""
    provider.trouble = trouble

    with pytest.raises(LogUnavailable, match=r"no token for Kafka.*Call it by hand") as raised:
        Scheduler(with_tokens(hasty, provider=OWN), executor=Idle)

    assert SECRET not in str(raised.value)


def test_a_wrong_secret_for_oidc_is_told(hasty: Settings, provider: Provider, heard: Heard) -> None:
    """And is not shown, nor is the token, with the driver at its loudest."""
    mistyped = f"{SECRET}!"
    wrong = oidc(hasty, provider.server, client_secret=mistyped)
    loud = wrong.kafka.model_copy(update={"producer_properties": {"debug": "all"}})

    with pytest.raises(LogUnavailable, match=r"Check kafka\.oauth: that provider 'oidc'") as raised:
        SchedulerClient(wrong.model_copy(update={"kafka": loud}))

    for text in (*heard.lines, str(raised.value), repr(wrong), wrong.model_dump_json()):
        assert SECRET not in text


def test_tokens_are_not_shown(settings: Settings, provider: Provider, heard: Heard) -> None:
    """Even where the driver logs all that it can, whatever the provider."""
    loud = {"producer_properties": {"debug": "all"}, "consumer_properties": {"debug": "all"}}
    for chosen in (with_tokens(settings, provider=OWN), oidc(settings, provider.server)):
        run_one_task(
            chosen.model_copy(update={"kafka": chosen.kafka.model_copy(update=loud)}),
        )

    assert any("OAUTHBEARER" in line for line in heard.lines), "the driver was not loud"
    # A token is its head, which is known, its claims and its signature.
    head = provider.server.token()[0].partition(".")[0]
    assert not [line for line in heard.lines if head in line or SECRET in line]


class Running:
    """A node at work, and tasks that it is seen to run."""

    def __init__(self, settings: Settings) -> None:
        self._ran: set[str] = set()
        ran = self._ran

        class Noting(Idle):
            """Notes what it runs."""

            def execute(self, task: Task) -> None:
                """Note the task."""
                ran.add(task.uniqueness_key)

        self.scheduler = Scheduler(settings, executor=Noting)

    def __enter__(self) -> Self:
        self.scheduler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.scheduler.stop()

    def run_a_task(self) -> None:
        """Schedule one that is due and wait until it ran."""
        task = a_task()
        self.scheduler.schedule_task(task).result(timeout=WAIT_S)
        until(lambda: task.uniqueness_key in self._ran, "a task did not run")
