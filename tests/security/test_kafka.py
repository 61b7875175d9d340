"""A broker that demands TLS, a certificate or a login: who gets in, and what refusals say."""

import re
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hourhand import SchedulerClient, Settings
from hourhand.actors.model.values.errors import LogUnavailable, OperatorError, SettingsInvalid
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.kafka.log import KafkaLog
from hourhand.scheduler.adapters.kafka.topics import topic_warnings
from tests.conformance.kafka_world import MachineClock
from tests.conformance.log_bench import Member, poll_until
from tests.security.authority import CLIENT, SECRET, Authority
from tests.security.clients import login, trusting, with_certificate
from tests.security.kafka_rights import (
    CLIENT_RIGHTS,
    MIGRATE_RIGHTS,
    NODE_RIGHTS,
    Rights,
    grant,
    make_scram_user,
)
from tests.security.one_task import WAIT_S, a_task, run_one_task
from tests.servers.kafka import KafkaServer

pytestmark = pytest.mark.integration


def settings_for(name: str, folder: Path, server: str, **kafka: Any) -> Settings:
    """Return settings for one listener; the store is embedded, as only the log matters here."""
    chosen: Any = {"bootstrap_servers": server, "connect_timeout_ms": 10_000, **kafka}
    return Settings(
        log="kafka",
        topic={"name": name, "dead_letter": f"{name}-dead-letter", "partitions": 2},
        group={"id": name, "session_timeout_ms": 45_000, "heartbeat_interval_ms": 250},
        kafka=chosen,
        embedded={"folder": folder},
    )


def a_name() -> str:
    """Return a name for topic and group that no other test has."""
    return f"secure-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def topic(
    secure_kafka: KafkaServer, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """Topics made by the operator, and a user that may do what a node does and no more."""
    name = a_name()
    open_door = secure_kafka.bootstrap_servers
    wiring.migrate(settings_for(name, tmp_path_factory.mktemp("operator"), open_door))
    grant(open_door, CLIENT, name, NODE_RIGHTS)
    make_scram_user(secure_kafka, authority, CLIENT, SECRET)
    return name


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all nodes of the group, which work for one store."""
    return tmp_path_factory.mktemp("store")


def test_a_node_runs_over_tls(
    secure_kafka: KafkaServer, authority: Authority, topic: str, store: Path
) -> None:
    """The broker's certificate and address are verified."""
    server = secure_kafka.address("TLS")

    run_one_task(settings_for(topic, store, server, tls=trusting(authority)))


def test_a_node_runs_over_mutual_tls_with_a_nodes_rights(
    secure_kafka: KafkaServer, authority: Authority, topic: str, store: Path
) -> None:
    """The certificate says who it is; its key is encrypted."""
    server = secure_kafka.address("MUTUAL")
    settings = settings_for(topic, store, server, tls=with_certificate(authority))

    run_one_task(settings)
    assert topic_warnings(settings) == []


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_node_runs_with_a_login_over_tls_with_a_nodes_rights(
    mechanism: str,
    secure_kafka: KafkaServer,
    authority: Authority,
    topic: str,
    store: Path,
    tmp_path: Path,
) -> None:
    """The password comes from a file."""
    (tmp_path / "password").write_text(f"{SECRET}\n")
    settings = settings_for(
        topic,
        store,
        secure_kafka.address("SASL"),
        tls=trusting(authority),
        username=CLIENT,
        password_file=tmp_path / "password",
        sasl_mechanism=mechanism,
    )

    run_one_task(settings)
    assert topic_warnings(settings) == []


TIMEOUTS_MS = (2_000, 30_000)
"""A busy broker may refuse a login after the first has passed; a client then names no cause."""
Wrong = Callable[[Authority, Authority], dict[str, Any]]

REFUSALS: dict[str, tuple[str, Wrong, str]] = {
    "wrong authority": ("TLS", lambda _, other: {"tls": trusting(other)}, "kafka.tls"),
    "no certificate": ("MUTUAL", lambda ours, _: {"tls": trusting(ours)}, "kafka.tls"),
    "a stranger's certificate": (
        "MUTUAL",
        lambda ours, other: {"tls": {**with_certificate(other), "ca_file": ours.ca_file}},
        "kafka.tls",
    ),
    "no TLS at a door of TLS": ("TLS", lambda *_: {}, "kafka.tls.enabled"),
    "no TLS at a door of logins": (
        "SASL",
        lambda ours, _: login(ours, tls={}),
        "kafka.tls.enabled",
    ),
    "TLS at an open door": ("PLAINTEXT", lambda ours, _: {"tls": trusting(ours)}, "kafka.tls"),
    "no login": ("SASL", lambda ours, _: {"tls": trusting(ours)}, "kafka.username"),
    "wrong password for SCRAM": (
        "SASL",
        lambda ours, _: login(ours, password=f"not {SECRET}"),
        "kafka.username",
    ),
    "wrong password for PLAIN": (
        "SASL",
        lambda ours, _: login(ours, password=f"not {SECRET}", sasl_mechanism="PLAIN"),
        "kafka.username",
    ),
    "unknown user": ("SASL", lambda ours, _: login(ours, username="nobody"), "'nobody'"),
    "another mechanism": (
        "SASL",
        lambda ours, _: login(ours, sasl_mechanism="SCRAM-SHA-256"),
        "kafka.sasl_mechanism",
    ),
}
"""(listener, settings from our authority and a stranger's, what the error must name)"""


def assert_refused(settings: Settings, named: str) -> None:
    """Client and migration fail in bounded time, name what to check, and show no secret."""
    for attempt in (SchedulerClient, wiring.migrate):
        for timeout_ms in TIMEOUTS_MS:
            kafka = settings.kafka.model_copy(update={"connect_timeout_ms": timeout_ms})
            with pytest.raises(OperatorError) as raised:
                attempt(settings.model_copy(update={"kafka": kafka}))
            trace = "".join(traceback.format_exception(raised.value))
            assert kafka.bootstrap_servers in str(raised.value)
            assert SECRET not in trace
            if named in str(raised.value):
                break
        assert named in str(raised.value)


@pytest.mark.parametrize("wrong", REFUSALS)
def test_a_wrong_client_is_told_what_to_check(
    wrong: str,
    secure_kafka: KafkaServer,
    authority: Authority,
    stranger: Authority,
    tmp_path: Path,
) -> None:
    """Each is the operator's to mend."""
    listener, settings, named = REFUSALS[wrong]
    server = (
        secure_kafka.bootstrap_servers
        if listener == "PLAINTEXT"
        else secure_kafka.address(listener)
    )

    assert_refused(
        settings_for("never-reached", tmp_path, server, **settings(authority, stranger)), named
    )


def test_a_certificate_for_another_host_is_refused(
    secure_kafka: KafkaServer, authority: Authority, tmp_path: Path
) -> None:
    """It names 127.0.0.1; the same broker called localhost could be anybody."""
    server = secure_kafka.address("TLS").replace("127.0.0.1", "localhost")

    assert_refused(
        settings_for("never-reached", tmp_path, server, tls=trusting(authority)), "kafka.tls"
    )


def test_a_wrong_key_password_is_told_before_anything_is_sent(
    secure_kafka: KafkaServer, authority: Authority, tmp_path: Path
) -> None:
    """And so is an encrypted key without one: nobody is asked for it on a terminal."""
    for password in ("wrong", None):
        tls = {**with_certificate(authority), "key_password": password}
        settings = settings_for("never-reached", tmp_path, secure_kafka.address("MUTUAL"), tls=tls)
        with pytest.raises(SettingsInvalid, match=r"ssl\.key|key_file|private key"):
            SchedulerClient(settings)


def test_a_client_needs_no_more_than_to_write(
    secure_kafka: KafkaServer, authority: Authority, tmp_path: Path
) -> None:
    """What docs/security.md lists for a client and for ``hourhand migrate``, one user each."""
    name, open_door = a_name(), secure_kafka.bootstrap_servers
    for user, rights in (("writer", CLIENT_RIGHTS), ("migrator", MIGRATE_RIGHTS)):
        make_scram_user(secure_kafka, authority, user, SECRET)
        grant(open_door, user, name, rights)
    settings = {
        user: settings_for(
            name, tmp_path, secure_kafka.address("SASL"), **login(authority, username=user)
        )
        for user in ("writer", "migrator")
    }

    assert wiring.migrate(settings["migrator"])[1:] == [name, f"{name}-dead-letter"]
    with SchedulerClient(settings["writer"]) as client:
        assert client.schedule_task(a_task()).result(timeout=WAIT_S).offset == 0


def test_a_user_without_rights_is_told_which_are_missing(
    secure_kafka: KafkaServer, authority: Authority, topic: str, tmp_path: Path
) -> None:
    """Logged in, and allowed nothing."""
    make_scram_user(secure_kafka, authority, "powerless", SECRET)
    settings = settings_for(
        topic, tmp_path, secure_kafka.address("SASL"), **login(authority, username="powerless")
    )

    with pytest.raises(LogUnavailable, match=r"'powerless'.*docs/security\.md"):
        SchedulerClient(settings)


def test_a_node_whose_group_is_closed_to_it_says_so(
    secure_kafka: KafkaServer,
    authority: Authority,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It may read and write both topics, and it can never be assigned a partition.

    Without the right to see the topic's configuration it works, and warns.
    """
    make_scram_user(secure_kafka, authority, "loner", SECRET)
    rights: Rights = {"topic": ("READ", "WRITE"), "dead_letter": ("WRITE",)}
    grant(secure_kafka.bootstrap_servers, "loner", topic, rights)
    settings = settings_for(
        topic, tmp_path, secure_kafka.address("SASL"), **login(authority, username="loner")
    )

    assert re.search(r"cannot be read.*TOPIC_AUTHORIZATION_FAILED", topic_warnings(settings)[0])
    log = KafkaLog(settings, MachineClock())
    member = Member("loner", log)
    try:
        log.subscribe(member)
        poll_until(lambda: "docs/security.md lists the rights" in caplog.text, member)
    finally:
        log.close()
    assert "GROUP_AUTHORIZATION_FAILED" in caplog.text
