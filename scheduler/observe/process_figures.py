"""The processes of a node in its metrics and in its report.

Decides what is told of them. Both are read when somebody asks, so an attempt pays nothing.
"""

from collections.abc import Callable, Mapping

from hourhand.actors.model.operations.oversight import PoolReport
from hourhand.scheduler.node.processes.process_pool import PoolFigures
from hourhand.scheduler.observe.metric_catalogue import PROCESS_DEATHS


def pool_measures(read: Callable[[], PoolFigures]) -> dict[str, Callable[[], Mapping[str, float]]]:
    """Return the metrics of a node's processes, by their names in the catalogue."""

    def by_place(found: Mapping[int, int]) -> Mapping[str, float]:
        return {str(place): float(value) for place, value in found.items()}

    def deaths() -> Mapping[str, float]:
        found = read().deaths
        return {reason: float(found.get(reason, 0)) for reason in PROCESS_DEATHS}

    return {
        "pool_processes": lambda: {"": float(read().alive)},
        "pool_processes_busy": lambda: {"": float(read().busy)},
        "pool_process_resident_bytes": lambda: by_place(read().resident_bytes),
        "pool_process_attempts_total": lambda: by_place(read().attempts),
        "pool_process_deaths_total": deaths,
    }


def pool_report(figures: PoolFigures) -> PoolReport:
    """Return the figures of a report."""
    resident_bytes = sum(figures.resident_bytes.values())
    deaths = sum(figures.deaths.values())
    return PoolReport(figures.places, figures.alive, figures.busy, resident_bytes, deaths)
