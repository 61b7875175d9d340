"""Every measure by name, and the family that takes it."""

from types import ModuleType

from benchmarks.families import (
    batches,
    beside_drain,
    compute_beside,
    dashboard,
    enqueueing,
    herd,
    idle,
    isolation,
    kafka_only,
    lateness,
    limited,
    memory,
    metrics_cost,
    occurrences,
    outbox,
    pipeline,
    processes,
    relay,
    scaling,
    shapes,
    shares,
    startup,
    steady,
    takeover,
    throughput,
    timers,
    user_processes,
    writes,
)

ENGINE: tuple[ModuleType, ...] = (
    throughput,
    shapes,
    enqueueing,
    lateness,
    beside_drain,
    compute_beside,
    isolation,
    takeover,
    memory,
    startup,
    scaling,
)
"""Measures of the engine itself: the group ``engine``, a quarter of an hour in quick."""
FAMILIES: tuple[ModuleType, ...] = (
    *ENGINE,
    processes,
    user_processes,
    occurrences,
    outbox,
    idle,
    writes,
    steady,
    batches,
    herd,
    metrics_cost,
    limited,
    shares,
    relay,
    kafka_only,
    pipeline,
    timers,
    dashboard,
)
MEASURES: tuple[str, ...] = tuple(name for family in FAMILIES for name in family.MEASURES)
WITHOUT_CLUSTER = frozenset(
    {
        "embedded",
        "batch",
        "memory_bytes",
        "embedded_steady",
        enqueueing.EMBEDDED,
        *writes.MEASURES,
        *shapes.MEASURES,
        *compute_beside.MEASURES,
        *user_processes.MEASURES,
        *occurrences.MEASURES,
        *shares.MEASURES,
        *relay.MEASURES,
        *kafka_only.MEASURES,
    }
)
"""Measures that need neither Kafka nor Cassandra, or have their own."""
WITH_RIVALS = frozenset(
    {
        "drain_cluster",
        "embedded",
        "batch",
        "outbox",
        *steady.MEASURES,
        *enqueueing.MEASURES,
        "lateness_1k",
        "lateness_3k",
    }
)


class UnknownMeasure(ValueError):
    """No measure has this name; the message lists those there are."""


def chosen(names: str) -> frozenset[str]:
    """Return the measures of a comma-separated list, or all of them for the empty one.

    The name of a family stands for all that it measures, ``engine`` for several of them.
    """
    families = {each.__name__.rpartition(".")[2]: each.MEASURES for each in FAMILIES}
    families["engine"] = tuple(name for family in ENGINE for name in family.MEASURES)
    given = [name.strip() for name in names.split(",") if name.strip()]
    wanted = frozenset(each for name in given for each in families.get(name, (name,)))
    unknown = sorted(wanted - set(MEASURES))
    if unknown:
        raise UnknownMeasure(f"no measure {', '.join(unknown)}: there are {', '.join(MEASURES)}")
    return wanted or frozenset(MEASURES)
