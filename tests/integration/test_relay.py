"""The relay on a real broker, with the embedded store and with Cassandra."""

import random
import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from hourhand import Settings
from hourhand.scheduler import wiring
from hourhand.scheduler.cli.relay_running import RelayRunning
from tests.integration.relay_world import RelayWorld, relay_process, relay_settings
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer

pytestmark = pytest.mark.integration


@pytest.fixture
def settings(kafka_server: KafkaServer, tmp_path: Path) -> Settings:
    """Topics of its own, the store in a folder."""
    return relay_settings(kafka_server, tmp_path / "data")


@pytest.fixture
def world(settings: Settings) -> Iterator[RelayWorld]:
    """Both ends of the relay, on topics that exist."""
    wiring.migrate(settings)
    wiring.create_relay_topics(settings)
    world = RelayWorld(settings)
    yield world
    world.close()


def test_messages_appear_at_their_deadline_byte_for_byte(world: RelayWorld) -> None:
    """Any bytes, null key and value, repeated and ordered headers; long ones, too."""
    start_ms = world.clock.now_ms()
    cases = [
        (b"k", b'{"a": 1 }\n'),
        (None, b"\x00\xff" * 1_000),
        (b"\xff\x00", None),
        (b"", b""),
        (b"long", random.Random(7).randbytes(1_040_000)),
    ]
    headers = [("b", b"\xff\xfe"), ("a", None), ("b", b""), ("b", b"\xff\xfe")]
    with RelayRunning(world.settings):
        world.put_raw(b"no headers")
        for number, (key, value) in enumerate(cases):
            world.put(
                value,
                message_id=f"m-{number}",
                due_ms=start_ms + 3_000,
                key=key,
                headers=headers if number < 4 else (),
            )
        world.flush()
        arrivals = world.wait_for(len(cases))

    assert {(each.key, each.value) for each in arrivals} == set(cases)
    assert all(each.read_ms >= start_ms + 3_000 for each in arrivals)
    assert all(each.headers == headers for each in arrivals if each.key != b"long")
    assert world.first_letter() == b"no headers"


def test_p17_a_header_that_json_makes_too_long_for_a_record_is_relayed(world: RelayWorld) -> None:
    """170,000 control characters, a million bytes once escaped; the next one appears too."""
    name = "\x01" * 170_000
    with RelayRunning(world.settings):
        due_ms = world.clock.now_ms() + 1_000
        world.put(b"escaped", message_id="a", due_ms=due_ms, headers=[(name, b"v")])
        world.put(b"behind", message_id="b", due_ms=due_ms, key=b"other")
        world.flush()
        arrivals = world.wait_for(2)

    found = {each.value: each.headers for each in arrivals}
    assert found == {b"escaped": [(name, b"v")], b"behind": []}


def test_send_later_delivers_with_a_node_of_the_same_installation(world: RelayWorld) -> None:
    """From the library; messages of one key and time in the order of the calls."""
    topic = world.settings.relay.out_topic
    with RelayRunning(world.settings) as running:
        when = timedelta(seconds=2)
        sent_ms = world.clock.now_ms()
        for number in range(20):
            running.scheduler.send_later(b"k", b"%d" % number, topic, when).result(30)
        arrivals = world.wait_for(20)

    assert [each.value for each in arrivals] == [b"%d" % number for number in range(20)]
    assert arrivals[0].read_ms >= sent_ms + 2_000


def test_a_sigkill_loses_no_message(world: RelayWorld, tmp_path: Path) -> None:
    """One node takes over from another that died; nothing is early, and only what was being
    passed on at the kill may appear twice.
    """
    first = relay_process(world.settings, tmp_path)
    start_ms = world.clock.now_ms()
    rng = random.Random(11)
    due_ms = {f"m-{number}": start_ms + rng.randrange(8_000, 14_000) for number in range(400)}
    for name, due in due_ms.items():
        world.put(name.encode(), message_id=name, due_ms=due, key=name.encode())
    world.flush()
    try:
        world.wait_for(100)
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    with RelayRunning(world.settings):
        world.wait_for(400)
        while set(due_ms) - {(each.value or b"").decode() for each in world.arrivals}:
            world.wait_for(len(world.arrivals) + 1)

    seen = Counter((each.value or b"").decode() for each in world.arrivals)
    assert seen.keys() == due_ms.keys()
    assert sum(seen.values()) - len(seen) <= 40
    assert all(a.read_ms >= due_ms[(a.value or b"").decode()] for a in world.arrivals)


class TestOnCassandra:
    """The same with Cassandra as the store, two nodes."""

    @pytest.fixture
    def settings(self, kafka_server: KafkaServer, cassandra_server: CassandraServer) -> Settings:
        """A keyspace of its own."""
        return relay_settings(
            kafka_server,
            None,
            store="cassandra",
            cassandra={
                "contact_points": tuple(cassandra_server.addresses),
                "port": cassandra_server.port,
                "keyspace": f"relay_{uuid.uuid4().hex[:12]}",
            },
        )

    def test_two_healthy_nodes_pass_each_message_on_once(self, world: RelayWorld) -> None:
        """Each id once, however often it came; nothing missing, early or doubled."""
        with RelayRunning(world.settings), RelayRunning(world.settings):
            start_ms = world.clock.now_ms()
            due_ms = {f"m-{n}": start_ms + 4_000 + n for n in range(200)}
            for again in range(2):
                for name, due in due_ms.items():
                    world.put(
                        f"{name}/{again}".encode(), message_id=name, due_ms=due, key=name.encode()
                    )
            world.flush()
            world.wait_for(200)
            late = due_ms | {"marker": world.clock.now_ms() + 3_000}
            world.put(b"marker/0", message_id="marker", due_ms=late["marker"])
            world.flush()
            world.wait_for(201)

        seen = Counter((each.value or b"").decode() for each in world.arrivals)
        wanted = Counter(f"{name}/0" for name in late)
        assert (seen - wanted, wanted - seen) == (Counter(), Counter())
        for each in world.arrivals:
            assert each.read_ms >= late[(each.value or b"").decode().partition("/")[0]]
