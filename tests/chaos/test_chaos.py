"""The short chaos runs of ``make test`` and ``make test-cluster``, on one broker and one Cassandra.

Under the classic protocol, for two minutes, a node is killed, one is frozen past its session, one
restarted gracefully, the clock of one set, and Cassandra paused, under 200 tasks/s.  Under KIP-848
only the lease is another, so a node is killed and one is frozen past its session.  The same judge
recounts both.
Recovery has loose limits here: the machine is shared with the rest of the tests.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.chaos.installation import GroupProtocol, install
from tests.chaos.measures import measure
from tests.chaos.plan import SHORT, Extent, Kind
from tests.chaos.run import Chaos, run_chaos
from tests.chaos.table import show
from tests.chaos.verdict import Limits, judge
from tests.judge.causes import Rules
from tests.judge.recount import recount
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.machine import compile_machine

pytestmark = [pytest.mark.integration, pytest.mark.long]

SEED = 4
HUNG_AFTER_S = 480
SHORT_RUN = Chaos(
    seed=SEED,
    extent=Extent(
        nodes=3,
        brokers=1,
        store_nodes=1,
        seconds=40.0,
        kinds=SHORT,
        quiet_s=(3.0, 4.0),
        lasts_s_max=9.0,
    ),
    tasks_per_s=200,
    lead_s=11.0,
)
OF_THE_LEASE = replace(
    SHORT_RUN,
    extent=replace(
        SHORT_RUN.extent,
        seconds=15.0,
        kinds=(Kind.KILL_NODE, Kind.FREEZE_NODE),
        quiet_s=(1.0, 2.0),
        lasts_s_max=8.0,
    ),
    tasks_per_s=100,
    lead_s=6.0,
    # The lease is the nodes' alone, and a frozen node's callbacks are judged by the other run.
    doors=False,
)
RUNS: dict[GroupProtocol, Chaos] = {"classic": SHORT_RUN, "consumer": OF_THE_LEASE}
LOOSE = Limits(killed_s=60.0, drained_s=60.0, clock_s=60.0)


@pytest.mark.timeout(HUNG_AFTER_S)
@pytest.mark.parametrize(
    "protocol", ["classic", pytest.param("consumer", marks=pytest.mark.cluster)]
)
def test_nothing_is_lost_early_or_doubled_while_nodes_and_store_fail(
    protocol: GroupProtocol,
    kafka_server: KafkaServer,
    cassandra_server: CassandraServer,
    tmp_path: Path,
) -> None:
    """Every requirement of ``make chaos``, recounted by the same judge."""
    console, run = Console(width=160), RUNS[protocol]
    installation = replace(
        install(kafka_server, cassandra_server, protocol), library=compile_machine(tmp_path)
    )

    evidence = run_chaos(run, installation, tmp_path, console.print)
    findings = recount(evidence.history, Rules(order_lead_s=run.lead_s - 1, flush_s=15.0))
    verdict = judge(run, evidence, findings, measure(evidence.history), LOOSE)

    show(console, verdict)
    assert verdict.holds, [check for check in verdict.checks if not check.holds]
    assert findings.accepted > 25 * run.tasks_per_s
