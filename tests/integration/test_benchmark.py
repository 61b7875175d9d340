"""The benchmark's harness on the embedded default, so that it does not rot."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.bench import Bench
from benchmarks.families import (
    compute_beside,
    herd,
    occurrences,
    shapes,
    startup,
    steady,
    throughput,
    user_processes,
    writes,
)
from benchmarks.families.blocked import BLOCKED_ID, block_one_id
from benchmarks.servers import open_servers
from benchmarks.sizes import SMOKE
from hourhand import Settings
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.settings import EmbeddedSettings
from hourhand.scheduler.tasks.inspector import Inspector, TaskState

pytestmark = pytest.mark.long


def test_the_embedded_drain_gives_a_line(tmp_path: Path) -> None:
    """A node and a client in processes of their own, and the end as the store knows it."""
    sizes = replace(SMOKE, drain_tasks=500, drain_ids=100)
    with open_servers(tmp_path / "servers", cluster=False, rivals=False) as servers:
        lines = throughput.run(Bench(servers, sizes, frozenset({"embedded"})))

    rates = [line for line in lines if line.unit == throughput.UNIT]
    assert {line.measure for line in lines} == {"embedded"}
    assert all(line.figure.value > 0 for line in rates)
    assert {line.met for line in rates} == {None}, "no rival was there to judge it by"
    if sys.platform == "linux":
        cpu = {line.unit for line in lines} - {throughput.UNIT}
        assert cpu == {"µs CPU a task, client", "µs CPU a task, node"}


@pytest.mark.parametrize("measure", shapes.MEASURES)
def test_tasks_that_are_not_plain_are_run_beside_plain_ones(measure: str, tmp_path: Path) -> None:
    """All of them, once each: a drain fails where one is missing."""
    sizes = replace(SMOKE, drain_tasks=400, drain_ids=100)
    with open_servers(tmp_path / "servers", cluster=False, rivals=False) as servers:
        lines = shapes.run(Bench(servers, sizes, frozenset({measure})))

    rate, *_ = lines
    assert {line.measure for line in lines} == {measure}
    assert rate.figure.value > 0
    assert rate.against == "plain drain"
    if sys.platform == "linux":
        assert [line.goal for line in lines[1:]] != [None]


def test_work_in_processes_is_run_beside_threads(tmp_path: Path) -> None:
    """All tasks are noted by the processes that ran them, and those that compute end with them."""
    sizes = replace(SMOKE, drain_tasks=400, drain_ids=100, beside_s=1.0)
    wanted = frozenset({*user_processes.MEASURES, *compute_beside.MEASURES})
    with open_servers(tmp_path / "servers", cluster=False, rivals=False) as servers:
        bench = Bench(servers, sizes, wanted, with_rivals=False)
        lines = [*user_processes.run(bench), *compute_beside.run(bench)]

    assert {line.measure for line in lines} == wanted
    assert all(line.figure.value > 0 for line in lines)
    beside = [line for line in lines if line.against == "beside none"]
    assert {line.detail["computing"] for line in beside} == {2, 32}


def test_what_a_node_makes_itself_gives_lines(tmp_path: Path) -> None:
    """Occurrences of schedules, and the tasks of calls that are unique or debounced."""
    sizes = replace(SMOKE, enqueue_tasks=400)
    with open_servers(tmp_path / "servers", cluster=False, rivals=False) as servers:
        bench = Bench(servers, sizes, frozenset(occurrences.MEASURES))
        lines = occurrences.run(bench)

    assert {"ms, p50", "ms, p99"} <= {line.unit for line in lines}
    if sys.platform == "linux":
        assert {line.measure for line in lines} == set(occurrences.MEASURES)


def test_writes_are_counted_at_every_pace(tmp_path: Path) -> None:
    """Of node and client; a drain shares its syncs, and tasks that come alone have their own."""
    sizes = replace(SMOKE, drain_tasks=2_000, drain_ids=400, enqueue_tasks=2_000, lateness_s=2.0)
    with open_servers(tmp_path / "servers", cluster=False, rivals=False) as servers:
        lines = writes.run(Bench(servers, sizes, frozenset(writes.MEASURES)))

    found = {line.unit: line.figure.value for line in lines}
    if sys.platform == "linux":
        drain, alone = (
            found[f"syncs a thousand tasks, {how}, node"] for how in ("drain", "1,000 a second")
        )
        assert 0 < drain < alone


def test_a_rate_holds_or_does_not(tmp_path: Path) -> None:
    """One far below what a node drains, and one that no client could keep up."""
    with open_servers(tmp_path / "servers", cluster=False, rivals=False) as servers:
        bench = Bench(servers, SMOKE, frozenset(steady.MEASURES))
        with (
            servers.embedded("steady") as settings,
            steady.hourhand(bench, settings) as system,
        ):
            low = steady.at_rate(system, 50.0, warming_s=1.0, counted_s=4.0)
            high = steady.at_rate(system, 100_000.0, warming_s=0.0, counted_s=0.2)

    assert low is not None and low.per_s == 50.0
    assert high is None


def test_a_herd_gives_a_line_a_phase(tmp_path: Path) -> None:
    """Stored before it is due, drained from then on, and deleted as a whole."""
    sizes = replace(SMOKE, ahead_s=1.0)
    with open_servers(tmp_path / "servers", cluster=False, rivals=False) as servers:
        bench = Bench(servers, sizes, frozenset(herd.MEASURES))
        with servers.embedded("herd") as settings:
            load, drain, sweep = herd.taken(bench, settings, 300)

    assert [load.measure, drain.measure, sweep.measure] == list(herd.MEASURES)
    assert load.detail["stored_before_due_s"] > 0
    assert load.detail["largest_hour_rows"] * settings.topic.partitions >= 300


def test_a_node_over_a_blocked_id_and_what_it_imports_are_timed(tmp_path: Path) -> None:
    """In processes of their own; a node has begun when each of its partitions ran a task."""
    with open_servers(tmp_path / "servers", cluster=False, rivals=False) as servers:
        bench = Bench(servers, SMOKE, frozenset(startup.MEASURES))
        names_s = startup.program_s(bench, {"kind": "names"})
        with servers.embedded("startup") as settings:
            block_one_id(settings, days=1)
            node_s = startup.node_s(bench, settings)

    assert names_s > 0 and node_s > 0


def test_an_id_is_left_blocked_for_days(tmp_path: Path) -> None:
    """What startup is measured over: one open task, and finished ones in every hour after it."""
    settings = Settings(embedded=EmbeddedSettings(folder=tmp_path / "data"))

    block_one_id(settings, days=1)

    stores = wiring.open_stores(settings)
    try:
        inspector = Inspector(stores, settings.topic.partitions)
        found = inspector.list_tasks(
            from_ms=0, to_ms=2**41, limit=10, states=[TaskState.PENDING]
        ).tasks
        marks = [
            claim.watermark.watermark_ms
            for partition in range(settings.topic.partitions)
            if (claim := stores.ownership.read_watermark(partition).result(60)) is not None
        ]
    finally:
        stores.close()
    (blocked,) = found
    assert blocked.key.ordering_id == BLOCKED_ID
    assert marks == [blocked.key.scheduled_ms] * settings.topic.partitions
