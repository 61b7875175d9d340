"""The short chaos run of ``make test``: two minutes on one broker and one Cassandra node.

A node is killed, one is frozen past its session, one restarted gracefully, and Cassandra
paused, under 200 tasks/s; the same auditor judges it.  Recovery has loose limits here: the
machine is shared with the rest of the tests.
"""

from pathlib import Path

import pytest
from rich.console import Console

from tests.chaos.auditor import audit
from tests.chaos.causes import Rules
from tests.chaos.installation import install
from tests.chaos.measures import measure
from tests.chaos.plan import SHORT, Extent
from tests.chaos.run import Chaos, run_chaos
from tests.chaos.table import show
from tests.chaos.verdict import Limits, judge
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.integration, pytest.mark.slow]

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
LOOSE = Limits(killed_s=60.0, drained_s=60.0)


@pytest.mark.timeout(HUNG_AFTER_S)
def test_nothing_is_lost_early_or_doubled_while_nodes_and_store_fail(
    kafka_server: KafkaServer, cassandra_server: CassandraServer, tmp_path: Path
) -> None:
    """Every requirement of ``make chaos``, recounted by the same auditor."""
    console = Console(width=160)
    installation = install(kafka_server, cassandra_server)

    evidence = run_chaos(SHORT_RUN, installation, tmp_path, console.print)
    findings = audit(evidence.history, Rules(order_lead_s=10.0, flush_s=15.0))
    verdict = judge(SHORT_RUN, evidence, findings, measure(evidence.history), LOOSE)

    show(console, verdict)
    assert verdict.holds, [check for check in verdict.checks if not check.holds]
    assert findings.accepted > 5_000
