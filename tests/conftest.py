"""Fixtures that several kinds of tests share: real servers, one of each a run."""

import gc
import logging
import signal
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from hourhand.actors.model.execution.interruption import note_attempt
from tests import once_a_run, reruns, several_processes
from tests.servers.cassandra import NEVER_KILLED, CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer
from tests.servers.running import running, shared
from tests.wheel import built, elsewhere, for_developers  # noqa: F401 - fixtures

collect_ignore = [] if find_spec("playwright") else ["browser"]
"""Only ``make test-browser`` installs what steers a browser, and only it runs these tests."""

_SHARED_SERVERS = frozenset({"kafka_server", "cassandra_server"})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the same tests run on servers of another make."""
    parser.addoption(
        "--servers",
        choices=("jars", "containers"),
        default="jars",
        help="where Kafka and Cassandra come from; containers: only tests that use them are run",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Hear SIGINT in a process of several: they are begun without, and programs inherit that."""
    for plugin in (once_a_run, reruns, several_processes):
        config.pluginmanager.register(plugin)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Keep the cyclic collector away from modules and tests, of which nothing is ever freed."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Over containers, leave out what would prove nothing else than over jars."""
    if config.getoption("--servers") != "containers":
        return
    kept = [
        item
        for item in items
        if _SHARED_SERVERS.intersection(getattr(item, "fixturenames", ()))
        or item.get_closest_marker("containers")
    ]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Let a report pass between processes, whatever a test has printed: a lone surrogate, say."""
    return _sendable((yield))


def _sendable(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {_sendable(name): _sendable(each) for name, each in value.items()}
        case list() | tuple():
            return type(value)(map(_sendable, value))
        case _:
            return value


@pytest.fixture(autouse=True)
def _no_attempt() -> None:
    """Forget the attempt that a simulated runner has left in the thread."""
    note_attempt(None)


@pytest.fixture(autouse=True)
def _log_level() -> None:
    """Put back the levels that a command has set, in a test or for all tests of a file."""
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("hourhand").setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def kafka_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaServer]:
    """One Kafka broker for the run; the tests are skipped, saying why, without Java."""
    if request.config.getoption("--servers") == "containers":
        from tests.servers.containers import KafkaContainerServer

        folder = tmp_path_factory.mktemp("kafka")
        yield from running(lambda: KafkaContainerServer(folder))
    else:
        yield shared("kafka", KafkaServer)


@pytest.fixture(scope="session")
def cassandra_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CassandraServer]:
    """One Cassandra node for the run; the tests are skipped, saying why, without Java."""
    if request.config.getoption("--servers") == "containers":
        from tests.servers.containers import CassandraContainerServer

        folder = tmp_path_factory.mktemp("cassandra")
        yield from running(lambda: CassandraContainerServer(folder))
    else:
        yield shared("cassandra", lambda folder: CassandraServer(folder, java_options=NEVER_KILLED))


@pytest.fixture(scope="session")
def postgres_server() -> PostgresServer:
    """One PostgreSQL for the run; the tests are skipped, saying why, where there is none."""
    return shared("postgres", lambda folder: PostgresServer(folder, ("fsync=off",)))
