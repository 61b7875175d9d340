"""A Cassandra that demands TLS, a login or a certificate: who gets in, and what refusals say."""

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hourhand import Settings
from hourhand.actors.model.values.errors import OperatorError, SettingsInvalid, StoreUnavailable
from hourhand.scheduler import wiring
from hourhand.scheduler.tasks.inspector import Inspector, TaskState
from tests.builders import a_stored_task
from tests.conformance.store_values import done
from tests.security.authority import SECRET, Authority
from tests.security.cassandra_rights import a_context, cassandra_settings, encrypted
from tests.security.clients import login, trusting, with_certificate
from tests.security.one_task import a_task, run_one_task
from tests.security.test_injection import assert_held
from tests.servers.cassandra import CassandraServer
from tests.servers.running import running

pytestmark = pytest.mark.integration


def test_a_node_runs_with_a_login_over_tls_with_a_nodes_rights(
    locked_cassandra: CassandraServer, authority: Authority, tmp_path: Path
) -> None:
    """The keyspace was made by ``hourhand migrate``, by a user with the rights for just that."""
    (tmp_path / "password").write_text(f"{SECRET}\n")
    settings = cassandra_settings(
        locked_cassandra,
        tmp_path / "data",
        **login(authority, password=None, password_file=tmp_path / "password"),
    )

    run_one_task(settings)


def test_hostile_ids_are_held_as_ids(
    locked_cassandra: CassandraServer, authority: Authority, tmp_path: Path
) -> None:
    """As tests/security/test_injection.py shows of the embedded store."""
    stores = wiring.open_stores(cassandra_settings(locked_cassandra, tmp_path, **login(authority)))
    try:
        assert_held(stores)
    finally:
        stores.close()


def test_a_reader_needs_no_more_than_to_select(
    locked_cassandra: CassandraServer, authority: Authority, tmp_path: Path
) -> None:
    """What docs/security.md lists for commands that read."""
    settings = cassandra_settings(locked_cassandra, tmp_path, **login(authority, username="reader"))
    stores = wiring.open_stores(settings)
    try:
        inspector = Inspector(stores, partition_count=2)
        assert inspector.show(a_task().key).state is TaskState.UNKNOWN
        with pytest.raises(StoreUnavailable, match=r"'reader'.*MODIFY"):
            done(stores.schedule.insert_tasks(1, [a_stored_task()], 1))
    finally:
        stores.close()


def test_migrating_again_needs_no_more_rights(
    locked_cassandra: CassandraServer, authority: Authority, tmp_path: Path
) -> None:
    """Whoever made the keyspace may change it."""
    assert wiring.migrate(
        cassandra_settings(locked_cassandra, tmp_path, **login(authority, username="migrator"))
    )


Wrong = Callable[[Authority, Authority], dict[str, Any]]

REFUSALS: dict[str, tuple[Wrong, str]] = {
    "wrong authority": (lambda _, other: login(other), "cassandra.tls"),
    "no TLS": (lambda ours, _: login(ours, tls={}), "tls"),
    "no login": (lambda ours, _: {"tls": trusting(ours)}, "cassandra.username"),
    "wrong password": (
        lambda ours, _: login(ours, password=f"not {SECRET}"),
        "cassandra.username",
    ),
    "unknown user": (lambda ours, _: login(ours, username="nobody"), "'nobody'"),
    "another host's certificate": (
        # The node listens there too, but its certificate names 127.0.0.1 alone.
        lambda ours, _: login(ours, contact_points=("127.0.0.2",)),
        "cassandra.tls",
    ),
}
"""(settings from our authority and a stranger's, what the error must name)"""


def assert_refused(settings: Settings, named: str) -> None:
    """Node and migration fail in bounded time, name server and settings, and show no secret."""
    server = f"{settings.cassandra.contact_points[0]}:{settings.cassandra.port}"
    for attempt in (wiring.open_stores, wiring.migrate):
        with pytest.raises(OperatorError) as raised:
            attempt(settings)
        assert server in str(raised.value)
        assert named in str(raised.value)
        assert SECRET not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("wrong", REFUSALS)
def test_a_wrong_client_is_told_what_to_check(
    wrong: str,
    locked_cassandra: CassandraServer,
    authority: Authority,
    stranger: Authority,
    tmp_path: Path,
) -> None:
    """Each is the operator's to mend."""
    cassandra, named = REFUSALS[wrong]

    assert_refused(
        cassandra_settings(locked_cassandra, tmp_path, **cassandra(authority, stranger)), named
    )


def test_a_user_without_rights_is_told_which_are_missing(
    locked_cassandra: CassandraServer, authority: Authority, tmp_path: Path
) -> None:
    """Logged in, and allowed nothing."""
    settings = cassandra_settings(
        locked_cassandra, tmp_path, **login(authority, username="powerless")
    )

    with pytest.raises(StoreUnavailable, match=r"'powerless'.*SELECT and MODIFY"):
        wiring.open_stores(settings)
    with pytest.raises(StoreUnavailable, match=r"'powerless'.*CREATE"):
        wiring.migrate(settings)


@pytest.fixture(scope="module")
def mutual(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[CassandraServer]:
    """A node that asks for a certificate."""
    yield from running(
        lambda: CassandraServer(
            tmp_path_factory.mktemp("mutual-cassandra"),
            client={"ssl_context": a_context(authority)},
            configuration=encrypted(authority, mutual=True),
        )
    )


@pytest.mark.long
def test_a_node_runs_over_mutual_tls(
    mutual: CassandraServer, authority: Authority, tmp_path: Path
) -> None:
    """Its key is encrypted."""
    settings = cassandra_settings(mutual, tmp_path, tls=with_certificate(authority))

    wiring.migrate(settings)
    run_one_task(settings)


@pytest.mark.long
def test_no_certificate_or_a_strangers_is_refused(
    mutual: CassandraServer, authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    """The node closes the connection; the error says what it may have wanted."""
    foreign = {**with_certificate(stranger), "ca_file": authority.ca_file}
    for tls in (trusting(authority), foreign):
        assert_refused(cassandra_settings(mutual, tmp_path, tls=tls), "tls")


@pytest.mark.parametrize("password", ["wrong", None])
def test_a_wrong_key_password_is_told_before_anything_is_sent(
    password: str | None, authority: Authority, tmp_path: Path
) -> None:
    """Also none at all: nobody is asked for it on a terminal."""
    cassandra: Any = {"tls": {**with_certificate(authority), "key_password": password}}
    settings = Settings(
        store="cassandra",
        cassandra=cassandra,
        embedded={"folder": tmp_path},
    )

    with pytest.raises(SettingsInvalid, match=r"key_file.*key_password"):
        wiring.open_stores(settings)
