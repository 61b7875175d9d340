"""The benchmark's families for relay, timers and dashboard on real servers, so that they last."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.bench import Bench
from benchmarks.families import dashboard, relay, timers
from benchmarks.servers import Servers
from benchmarks.sizes import SMOKE
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.integration, pytest.mark.long]


class SessionServers(Servers):
    """The session's servers: how long their collectors stop them is not judged here."""

    @contextlib.contextmanager
    def of_short_pauses(self) -> Iterator[Servers]:
        """Start none."""
        yield self


@pytest.fixture
def servers(
    kafka_server: KafkaServer, cassandra_server: CassandraServer, tmp_path: Path
) -> Servers:
    """The session's servers, as the benchmark knows them."""
    return SessionServers(tmp_path, kafka_server, cassandra_server)


def test_the_relay_gives_lines(servers: Servers) -> None:
    """Nothing missing, early or there twice, however busy the machine is."""
    lines = relay.run(Bench(servers, SMOKE, frozenset({"relay_1k"})))

    found = {line.unit: line.figure.value for line in lines}
    assert [found[f"{what} messages"] for what in ("missing", "early", "doubled")] == [0, 0, 0]
    assert found["ms, p99.9"] >= found["ms, p50"] >= 0


def test_the_timers_give_lines(servers: Servers) -> None:
    """Creations beside the bare endpoint, and pops while others wait."""
    lines = timers.run(Bench(servers, SMOKE, frozenset({"timers_create", "timers_pending"})))

    created, resident, *pops = lines
    assert created.ratio is not None
    assert created.ratio > 0
    assert resident.unit == "MiB"
    found = {line.unit: line.figure.value for line in pops}
    assert [found[f"{what} pops"] for what in ("missing", "early", "doubled")] == [0, 0, 0]


def test_the_dashboard_gives_lines(servers: Servers) -> None:
    """One for each screen, whatever they took on a busy machine."""
    with contextlib.ExitStack() as kept:
        bench = Bench(servers, SMOKE, frozenset({"dashboard"}), kept=kept)
        lines = dashboard.run(bench)

    screens = {line.unit.removeprefix("ms, p95, ").partition(",")[0] for line in lines}
    assert {"now", "ahead", "bucket map", "tasks", "task", "blocked keys"} <= screens
    assert all(line.figure.value > 0 for line in lines)
