"""How the Cassandra store fails: nobody there, too slow, lost answers, rows it cannot hold."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

import msgspec
import pytest
from cassandra import OperationTimedOut
from pydantic import SecretStr

from hourhand.actors.model.operations.ownership import Claim, initial_watermark
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.model.values.errors import NodeStopped, PoisonRecord, StoreUnavailable
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.cassandra.connection import Connection, open_connection
from hourhand.scheduler.adapters.cassandra.migrate import migrate
from hourhand.scheduler.adapters.cassandra.ownership import CassandraOwnershipStore
from hourhand.scheduler.adapters.cassandra.schedule import CassandraScheduleStore
from hourhand.scheduler.adapters.cassandra.session import CassandraSession
from hourhand.scheduler.adapters.cassandra.stores import open_stores
from hourhand.scheduler.configuration.settings import CassandraSettings, Settings
from tests.builders import NOW_MS, a_stored_task
from tests.conformance.store_values import before, done
from tests.garbage import cyclic_garbage
from tests.servers.cassandra import CassandraServer
from tests.servers.gate import Gate
from tests.servers.ports import free_ports
from tests.servers.running import running
from tests.waiting import until

pytestmark = pytest.mark.integration

SECRET = "never-shown-anywhere"
PATIENT_MS = 15_000
"""What a request may take on a busy machine."""
IMPATIENT_MS = 1_500
ANSWER_S = 60.0


@pytest.fixture(scope="module")
def settings(cassandra_server: CassandraServer) -> Settings:
    """Settings with the patience of a busy machine, and the schema in place."""
    settings = Settings(
        store="cassandra",
        cassandra=CassandraSettings(
            contact_points=tuple(cassandra_server.addresses),
            port=cassandra_server.port,
            keyspace="failing",
            request_timeout_ms=PATIENT_MS,
            username="hourhand",
            password=SecretStr(SECRET),
        ),
    )
    migrate(settings)
    return settings


@pytest.fixture
def stores(settings: Settings) -> Iterator[Stores]:
    """Opened stores, closed after the test."""
    stores = open_stores(settings)
    yield stores
    stores.close()


class LosingSession:
    """A driver session that carries out what it is told and then loses the answer.

    ``losses`` answers to lightweight transactions are lost, each as a client's time-out.
    """

    def __init__(self, session: Any, losses: int) -> None:
        self._session = session
        self.losses = losses

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def execute_async(self, statement: Any) -> Any:
        """Run the statement; its response may be lost afterwards."""
        response = self._session.execute_async(statement)
        if " IF " not in statement.prepared_statement.query_string or not self.losses:
            return response
        self.losses -= 1
        response.result()
        return _LostResponse()


class HurriedSession:
    """A driver session that gives up the first of its requests soon, and counts all of them."""

    def __init__(self, session: Any, first_timeout_s: float) -> None:
        self._session = session
        self._first_timeout_s = first_timeout_s
        self.sent = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def execute_async(self, statement: Any) -> Any:
        """Send a request."""
        self.sent += 1
        if self.sent > 1:
            return self._session.execute_async(statement)
        return self._session.execute_async(statement, timeout=self._first_timeout_s)


class _LostResponse:
    def result(self) -> list[tuple[object, ...]]:
        """Fail as a driver does whose request was never answered."""
        raise OperationTimedOut


def test_nobody_listens() -> None:
    """The error names every contact point, and what to check; no password gets out."""
    port = free_ports(1)[0]
    settings = Settings(
        cassandra=CassandraSettings(
            contact_points=("127.0.0.1", "127.0.0.2"),
            port=port,
            connect_timeout_ms=3_000,
            username="hourhand",
            password=SecretStr(SECRET),
        )
    )
    with pytest.raises(StoreUnavailable) as unavailable:
        open_stores(settings)
    message = str(unavailable.value)
    assert f"127.0.0.1:{port}, 127.0.0.2:{port}" in message
    assert "contact_points" in message
    assert SECRET not in message + repr(unavailable.value) + repr(settings)


def test_a_server_that_never_answers_is_given_up_in_time() -> None:
    """It accepts the connection and then stays silent."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        settings = Settings(cassandra=CassandraSettings(port=port, connect_timeout_ms=500))
        with ThreadPoolExecutor(1) as pool:
            opening = pool.submit(open_stores, settings)
            error = opening.exception(timeout=ANSWER_S)
    assert isinstance(error, StoreUnavailable)
    assert f"127.0.0.1:{port}" in str(error)


def test_a_write_without_a_time_of_its_own_gets_the_servers(settings: Settings) -> None:
    """So no node's clock that is a year ahead hides what others write later."""
    opened = open_connection(settings.cassandra)
    try:
        opened.cluster.timestamp_generator = lambda: (NOW_MS + 365 * 24 * HOUR_MS) * 1_000
        opened.session.set_keyspace(settings.cassandra.keyspace)

        opened.session.execute("INSERT INTO schedule_meta (name, value) VALUES ('timed', '1')")

        asked = "SELECT WRITETIME(value) FROM schedule_meta WHERE name = 'timed'"
        [(written_us,)] = opened.session.execute(asked).all()
        [(now_ms,)] = opened.session.execute("SELECT toUnixTimestamp(now()) FROM system.local")
        assert abs(written_us / 1_000 - now_ms) < HOUR_MS
    finally:
        opened.cluster.shutdown()


@pytest.fixture
def gate(cassandra_server: CassandraServer) -> Iterator[Gate]:
    """The only way to the server for one test, as others use the server meanwhile."""
    with Gate(cassandra_server.port) as gate:
        yield gate


def through(gate: Gate, settings: Settings, **cassandra: Any) -> Settings:
    """Return settings that lead through a gate."""
    chosen = settings.cassandra.model_copy(update={"port": gate.port, **cassandra})
    return settings.model_copy(update={"cassandra": chosen})


def test_a_short_outage_only_delays(settings: Settings, gate: Gate) -> None:
    """A request that timed out is sent again."""
    chosen = through(gate, settings).cassandra
    driver = open_connection(chosen)
    hurried = HurriedSession(driver.session, first_timeout_s=0.5)
    session = CassandraSession(Connection(driver.cluster, hurried), chosen)
    task, store = a_stored_task(), CassandraScheduleStore(session)
    try:
        gate.shut()
        inserting = store.insert_tasks(1, [task], 1)
        until(lambda: hurried.sent >= 2, "what timed out was not sent again")
        assert not inserting.done()
        gate.open()
        done(inserting)
        assert done(store.find_tasks(1, [task.key])) == {task.key: task}
    finally:
        gate.open()
        session.close()


def test_a_longer_outage_is_reported_and_survived(settings: Settings, gate: Gate) -> None:
    """Every kind of call fails with StoreUnavailable; afterwards the same stores work."""
    stores = open_stores(through(gate, settings, request_timeout_ms=IMPATIENT_MS))
    task = a_stored_task()
    calls: list[Callable[[], Any]] = [
        lambda: stores.schedule.insert_tasks(2, [task], 1),
        lambda: stores.schedule.load_tasks(2, before(NOW_MS), NOW_MS + HOUR_MS, 10),
        lambda: stores.ownership.claim(2, NOW_MS),
    ]
    try:
        gate.shut()
        errors = [future.exception(ANSWER_S) for future in [call() for call in calls]]
        gate.open()
        assert [type(error) for error in errors] == [StoreUnavailable] * 3
        assert all("cassandra.consistency" in str(error) for error in errors)
        assert SECRET not in repr(errors)
        for call in calls:
            # A busy server may need longer for its first answer than these stores wait for one.
            until(partial(_succeeds, call), "the stores never saw that the server answers")
        find = partial(stores.schedule.find_tasks, 2, [task.key])
        until(partial(_succeeds, find))
        assert done(find()) == {task.key: task}
    finally:
        gate.open()
        stores.close()


def _succeeds(call: Callable[[], Any]) -> bool:
    return call().exception(ANSWER_S) is None


@pytest.mark.parametrize("losses", [1, 2])
def test_a_claim_whose_answer_was_lost_is_recognised(settings: Settings, losses: int) -> None:
    """The epoch that was raised unseen is the one handed out; the next claim gets another."""
    driver = open_connection(settings.cassandra)
    losing = LosingSession(driver.session, losses)
    session = CassandraSession(Connection(driver.cluster, losing), settings.cassandra)
    try:
        store = CassandraOwnershipStore(session, retention_ms=0)
        partition = 100 + losses
        assert done(store.claim(partition, NOW_MS)) == Claim(1, initial_watermark(NOW_MS))
        assert losing.losses == 0
        losing.losses = losses
        assert done(store.claim(partition, 0)) == Claim(2, initial_watermark(NOW_MS))
        losing.losses = losses
        done(store.save_watermark(partition, 2, initial_watermark(NOW_MS + 1)))
        assert done(store.claim(partition, 0)) == Claim(3, initial_watermark(NOW_MS + 1))
    finally:
        session.close()


class _SavedInBetween(CassandraOwnershipStore):
    """Claims a partition while its owner saves, once: the row has been read, and is not taken."""

    saving: Callable[[], Any] | None = None

    def _claiming(self, *row: Any) -> Any:
        saving, self.saving = self.saving, None
        if saving is not None:
            saving()
        return super()._claiming(*row)


def test_a_claim_holds_what_was_saved_while_it_was_under_way(settings: Settings) -> None:
    """Whatever the owner before had still saved is where the new one begins (P8)."""
    session = CassandraSession(open_connection(settings.cassandra), settings.cassandra)
    try:
        store = _SavedInBetween(session, retention_ms=0)
        done(store.claim(110, NOW_MS))
        saved = msgspec.structs.replace(initial_watermark(NOW_MS + 1), write_time=7)
        store.saving = lambda: done(store.save_watermark(110, 1, saved))
        assert done(store.claim(110, 0)) == Claim(2, saved)
        assert store.saving is None
    finally:
        session.close()


def test_a_row_that_never_fits_is_poison(stores: Stores) -> None:
    """Just below the limit it is stored; above it nothing of the call is."""
    fits = a_stored_task(uniqueness_key="fits", data=b"x" * (15 * 2**20 - 200))
    too_long = a_stored_task(uniqueness_key="too long", data=b"x" * (15 * 2**20 + 1))
    done(stores.schedule.insert_tasks(3, [fits], 1))
    with pytest.raises(PoisonRecord, match=r"too%20long.*record_bytes_max"):
        done(stores.schedule.insert_tasks(3, [a_stored_task(), too_long], 1))
    asked = [fits.key, a_stored_task().key, too_long.key]
    assert done(stores.schedule.find_tasks(3, asked)) == {fits.key: fits}


def test_a_closed_store_says_so(settings: Settings) -> None:
    """Work in flight ends before the connection does; later work is refused."""
    stores = open_stores(settings)
    tasks = [a_stored_task(due_in_ms=number * HOUR_MS) for number in range(300)]
    inserting = stores.schedule.insert_tasks(4, tasks, 1)
    stores.close()
    assert done(inserting) is None
    with pytest.raises(NodeStopped):
        done(stores.schedule.find_tasks(4, [tasks[0].key]))
    stores.close()


def test_many_decades_of_hours_are_deleted_where_they_hold_rows(stores: Stores) -> None:
    """A sweep that begins in 1970 does not write half a million tombstones."""
    old, new = a_stored_task(due_in_ms=-NOW_MS), a_stored_task(due_in_ms=-2 * HOUR_MS)
    kept = a_stored_task(due_in_ms=HOUR_MS)
    done(stores.schedule.insert_tasks(5, [old, new, kept], 1))
    end_ms = NOW_MS - NOW_MS % HOUR_MS
    done(stores.schedule.delete_tasks(5, 0, end_ms, 2))
    keys = [old.key, new.key, kept.key]
    assert set(done(stores.schedule.find_tasks(5, keys))) == {kept.key}


def test_no_piece_of_a_request_waits_for_an_acknowledgement(settings: Settings) -> None:
    """The driver cuts requests, and a server puts off acknowledging a piece for 40 ms."""
    connection = open_connection(settings.cassandra)
    with closing(CassandraSession(connection, settings.cassandra)):
        pools = connection.session.get_pools()
        opened = [each for pool in pools for each in pool.get_connections()]
        options = [
            each._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for each in opened
        ]
    assert options
    assert all(options)


class _Rejecting(StreamRequestHandler):
    """Answers as Cassandra 5 does where old versions of its protocol are not allowed."""

    def handle(self) -> None:
        """Take one request, and reject its version."""
        head = self.rfile.read(9)
        self.rfile.read(int.from_bytes(head[5:9]))
        told = b"Rejecting Protocol Version 4 < 5."
        body = (0x0A).to_bytes(4) + len(told).to_bytes(2) + told
        self.wfile.write(b"\x84\x00" + head[2:4] + b"\x00" + len(body).to_bytes(4) + body)


def test_a_node_that_rejects_the_protocol_says_what_to_set() -> None:
    """A long test has the same answer from a real node."""
    with ThreadingTCPServer(("127.0.0.1", 0), _Rejecting) as server:
        Thread(target=server.serve_forever).start()
        try:
            port = server.server_address[1]
            with pytest.raises(StoreUnavailable, match="allow_older_protocols to true"):
                open_connection(CassandraSettings(contact_points=("127.0.0.1",), port=port))
        finally:
            server.shutdown()


@pytest.fixture
def modern_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CassandraServer]:
    """A node that speaks the newest version of its protocol and no other."""
    yield from running(
        lambda: CassandraServer(
            tmp_path_factory.mktemp("modern-cassandra"),
            configuration={"native_transport_allow_older_protocols": False},
        )
    )


@pytest.mark.long
def test_a_node_that_refuses_the_protocol_says_what_to_set(modern_server: CassandraServer) -> None:
    """Cassandra itself only says which versions it rejects."""
    asked = CassandraSettings(
        contact_points=tuple(modern_server.addresses), port=modern_server.port
    )

    with pytest.raises(StoreUnavailable, match="native_transport_allow_older_protocols to true"):
        open_connection(asked)


def test_answered_requests_leave_nothing_to_the_collector(stores: Stores) -> None:
    """The driver has each of them hold a timer that holds it."""
    with cyclic_garbage() as found:
        for number in range(20):
            stores.schedule.insert_tasks(0, [a_stored_task(offset=number)], number).result(30)

    assert found["ResponseFuture"] == 0
