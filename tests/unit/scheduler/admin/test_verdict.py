"""The sentence of the screen Now, and of ``hourhand top``."""

import pytest
from msgspec.structs import replace

from hourhand.scheduler.admin.picture import ClusterStatus, NodeCounts, PausedCounts, Quantiles
from hourhand.scheduler.admin.verdict import LIMITED_MANY, judged
from tests.builders import NOW_MS
from tests.unit.scheduler.admin.world import World

ON_TIME = Quantiles(p50=1, p99=2, p999=5)


def status(**figures: object) -> ClusterStatus:
    """Return the status of a cluster of one node, on time, except for these figures."""
    world = World()
    world.report()
    partitions = replace(world.service.cluster.status().partitions, unknown=0)
    calm = replace(
        world.service.cluster.status(),
        lateness_ms=ON_TIME,
        executions_per_s=35.0,
        failures_per_s=0.0,
        partitions=partitions,
    )
    return replace(calm, **figures)


@pytest.mark.parametrize(
    ("figures", "tone", "words"),
    [
        ({}, "good", "On time: 99 of 100 tasks start within 2 ms of their time"),
        ({"failures_per_s": 34.6}, "bad", "Failing: 99 % of the attempts fail"),
        ({"failures_per_s": 40.0}, "bad", "Failing: 100 % of the attempts fail"),
        ({"failures_per_s": 7.0}, "warn", "On time, but 20 % of the attempts fail"),
        ({"failures_per_s": 0.5}, "good", "On time: 99 of 100 tasks start within 2 ms of"),
        (
            {"limited": 497, "limited_for_ms": 19_000},
            "warn",
            "Limited: 497 tasks are due and wait for a limit, the first for 19 s",
        ),
        ({"limited": LIMITED_MANY - 1, "limited_for_ms": 900}, "good", "On time: "),
        ({"blocked": 3}, "warn", "On time, but some ordering ids wait for you"),
        ({"blocked": 3, "failures_per_s": 34.6}, "bad", "Failing: "),
        ({"lateness_ms": replace(ON_TIME, p99=20_000)}, "bad", "Late: 99 of 100 tasks start up"),
        ({"lateness_ms": replace(ON_TIME, p99=2_000)}, "warn", "A little late: "),
        ({"lateness_ms": Quantiles(p50=None, p99=None, p999=None)}, "good", "Idle: "),
        (
            {"paused": PausedCounts(all=True, partitions=0, ordering_ids=0)},
            "warn",
            "Paused: tasks wait in the store",
        ),
    ],
)
def test_the_worst_that_is_true_is_said(figures: dict[str, object], tone: str, words: str) -> None:
    """Not that all is on time while most attempts fail or hundreds of tasks wait for a limit."""
    verdict = judged(status(**figures))

    assert (verdict.tone, verdict.words.startswith(words)) == (tone, True), verdict.words


def test_an_installation_without_a_node_names_the_command() -> None:
    """What somebody sees who has opened it first."""
    verdict = judged(status(nodes=NodeCounts(alive=0, silent=0)))

    assert verdict.words == "Nothing runs: no node is alive"
    assert verdict.next_step is not None and verdict.next_step.startswith("hourhand run")


def test_the_status_counts_what_limits_hold_up_and_for_how_long() -> None:
    """As the nodes say, all of them together."""
    world = World()
    flow = {"limit": "mail#1", "value": "", "waiting": 120, "sinceMs": NOW_MS - 5_000}
    world.report(limitedCount=120, limitedFlows=[flow])
    world.report(node="node-2", limitedCount=4, limitedFlows=[{**flow, "sinceMs": NOW_MS - 1_000}])

    told = world.get("/status")[1]

    assert (told["limited"], told["limitedForMs"]) == (124, 5_000)
