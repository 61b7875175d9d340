"""One port for several processes: real probe servers are asked, their answers merged."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.observing.counted import registry_of
from hourhand.scheduler.adapters.observing.probe_server import NodeAnswers, ProbeServer
from hourhand.scheduler.adapters.observing.process_answers import ProcessAnswers
from hourhand.scheduler.observe.health import Check
from hourhand.scheduler.observe.meters import Meters
from hourhand.scheduler.observe.processes import ChildState


class Judged:
    """A node whose log answers, or does not."""

    def __init__(self, *partitions: int, well: bool = True) -> None:
        self.probes = self
        self.partitions = lambda: partitions
        self._well = well

    def watch(self) -> None:
        """See nothing."""

    def live(self) -> list[Check]:
        """Return that it lives."""
        return [Check("polling", ok=True, detail="last poll 0.1 s ago: fine")]

    def ready(self) -> list[Check]:
        """Return what was decided."""
        return [*self.live(), Check("log", ok=self._well, detail="as told")]


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    """Close in the end what was opened."""
    with ExitStack() as stack:
        yield stack


def child(
    servers: ExitStack, number: int, health: Any, meters: Meters | None = None, restarts: int = 0
) -> ChildState:
    """Return a child that serves this."""
    answers = NodeAnswers(registry_of(meters or Meters()), health)
    server = ProbeServer("127.0.0.1", 0, answers, SystemClock())
    servers.callback(server.close)
    return ChildState(number, True, server.port, restarts, f"pid {number}")


def absent(number: int) -> ChildState:
    """Return a child that is being started again."""
    return ChildState(number, False, None, 3, "ended with exit code 1; it is started again")


def silent(number: int) -> ChildState:
    """Return a child that is up and whose port nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return ChildState(number, True, taken.getsockname()[1], 0, f"pid {number}")


def samples(answers: ProcessAnswers, name: str) -> dict[str, float]:
    """Return the values of a metric by process."""
    families = text_string_to_metric_families(answers.metrics().decode())
    return {
        sample.labels["process"]: sample.value
        for family in families
        for sample in family.samples
        if sample.name == name
    }


def test_each_sample_says_which_process_it_is_of(servers: ExitStack) -> None:
    """Nothing is added up: a counter that begins again must be seen to."""
    meters = [Meters(), Meters()]
    for count, each in enumerate(meters, start=1):
        each.only("records_enqueued_total").value = 10.0 * count
    children = [child(servers, n, Judged(n), meters[n - 1], restarts=n) for n in (1, 2)]
    answers = ProcessAnswers(lambda: [*children, absent(3)])

    assert samples(answers, "hourhand_records_enqueued_total") == {"1": 10.0, "2": 20.0}
    assert samples(answers, "hourhand_process_up") == {"1": 1.0, "2": 1.0, "3": 0.0}
    assert samples(answers, "hourhand_process_restarts_total") == {"1": 1.0, "2": 2.0, "3": 3.0}


def test_a_metric_of_several_processes_is_one_family(servers: ExitStack) -> None:
    """Prometheus refuses a text that describes one twice."""
    children = [child(servers, number, Judged(number)) for number in (1, 2)]

    text = ProcessAnswers(lambda: children).metrics().decode()

    heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    assert "# TYPE hourhand_attempt_delay_seconds histogram" in heads


def test_all_are_ready_or_the_command_is_not(servers: ExitStack) -> None:
    """Each check says of which process it is."""
    children = [child(servers, 1, Judged(0, 2)), child(servers, 2, Judged(1), restarts=1)]
    answers = ProcessAnswers(lambda: children)
    assert all(check.ok for check in answers.ready())
    assert list(answers.partitions()) == [0, 1, 2]
    assert Check("2/polling", ok=True, detail="last poll 0.1 s ago: fine") in answers.live()

    children[1] = child(servers, 2, Judged(1, well=False))

    assert [check.name for check in answers.ready() if not check.ok] == ["2/log"]
    assert all(check.ok for check in answers.live())


def test_a_child_that_is_started_again_is_not_ready_but_lives(servers: ExitStack) -> None:
    """A probe that found it dead would have its siblings killed for it."""
    answers = ProcessAnswers(lambda: [child(servers, 1, Judged(0)), absent(2)])

    assert all(check.ok for check in answers.live())
    assert [check.name for check in answers.ready() if not check.ok] == ["process 2"]


def test_a_child_that_does_not_answer_does_not_live(servers: ExitStack) -> None:
    """It is up and hangs: a new start is what may help."""
    answers = ProcessAnswers(lambda: [child(servers, 1, Judged(0)), silent(2)])

    assert [check.name for check in answers.live() if not check.ok] == ["2/answer"]
    assert samples(answers, "hourhand_owned_partitions").keys() == {"1"}
