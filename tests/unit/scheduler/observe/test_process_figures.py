"""The processes of a node, as its metrics and its report tell of them."""

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.operations.oversight import PoolReport
from hourhand.scheduler.node.processes.process_pool import PoolFigures
from hourhand.scheduler.observe.metric_catalogue import CATALOGUE, PROCESS_DEATHS
from hourhand.scheduler.observe.node_telemetry import NodeTelemetry
from hourhand.scheduler.observe.process_figures import pool_measures, pool_report
from tests.builders import NOW_MS

FIGURES = PoolFigures(4, 3, 2, {0: 10, 1: 20, 3: 30}, {0: 5, 1: 0, 2: 7, 3: 1}, {"stuck": 2})


def test_each_figure_has_a_metric() -> None:
    """By place where there is one for each process; a reason that never was is 0."""
    meters = NodeTelemetry(VirtualClock(NOW_MS)).meters
    for name, read in pool_measures(lambda: FIGURES).items():
        assert name in CATALOGUE
        meters.derive(name, read)

    shown = {name: dict(meters[name].values_by_label()) for name in pool_measures(lambda: FIGURES)}

    assert shown["pool_processes"] == {(): 3}
    assert shown["pool_processes_busy"] == {(): 2}
    assert shown["pool_process_resident_bytes"] == {("0",): 10, ("1",): 20, ("3",): 30}
    assert shown["pool_process_attempts_total"][("2",)] == 7
    deaths = shown["pool_process_deaths_total"]
    assert set(deaths) == {(each,) for each in PROCESS_DEATHS}
    assert {labels for labels, value in deaths.items() if value} == {("stuck",)}


def test_a_report_has_their_sums() -> None:
    """A node with many processes reports no more than one with two."""
    assert pool_report(FIGURES) == PoolReport(4, 3, 2, 60, 2)
