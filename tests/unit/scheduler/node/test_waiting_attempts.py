"""Where attempts wait for a worker: by their flows, and none is lost."""

import threading
from collections.abc import Sequence

from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.flow.flow import FlowRules
from hourhand.actors.model.task.checkpoint_value import NO_ATTEMPT, AttemptCheckpoints
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.fair_turns import PoolTurns
from hourhand.scheduler.node.limits.node_limits import NodeLimits
from hourhand.scheduler.node.waiting_attempts import (
    AttemptsByFlow,
    WaitingAttempts,
    waiting_attempts,
)
from tests.builders import RecordingExecutable
from tests.unit.actors.model.window.test_flow_queues import RULES, task
from tests.unit.scheduler.node.runner_bench import TIMEOUT_S, WORKERS, Bench


def running(stored: StoredTask) -> RunningAttempt:
    """Return an attempt of a task."""
    return RunningAttempt(Attempt(stored, 0, 1, 1), RecordingExecutable(), None)


def backlog() -> list[RunningAttempt]:
    """Return attempts of one tenant, then one each of another tenant and of other priorities."""
    many = [running(task(number - 99)) for number in range(6)]
    few = [task(-3, tenant="other"), task(-2, "report"), task(-1, "alarm")]
    return [*many, *map(running, few)]


def names(attempts: list[RunningAttempt]) -> list[str]:
    """Return what their tasks are named."""
    return [each.attempt.task.key.uniqueness_key for each in attempts]


def drained(waiting: WaitingAttempts) -> list[str]:
    """Take all in their turns."""
    return names([waiting.popleft() for _ in range(len(waiting))])


def test_attempts_go_by_priority_and_share() -> None:
    """And those of one flow in the order in which they came."""
    waiting = waiting_attempts(RULES)

    waiting.extend(backlog())

    expected = ["-1", "-99", "-3", "-98", "-97", "-96", "-95", "-94", "-2"]
    assert drained(waiting) == expected


def test_without_rules_they_go_as_they_came() -> None:
    """Whatever their kinds are."""
    waiting, attempts = waiting_attempts(FlowRules.NONE), backlog()

    waiting.extend(attempts)
    left = waiting.take_out(lambda each: each is attempts[1])

    assert left == [attempts[1]]
    assert drained(waiting) == names([attempts[0], *attempts[2:]])


def test_what_leaves_out_of_its_turn_is_gone_and_the_others_stay() -> None:
    """Their tree went away."""
    waiting, attempts = AttemptsByFlow(RULES), backlog()
    waiting.extend(attempts)

    left = waiting.take_out(lambda each: each.attempt.task.kind == "mail")

    assert sorted(names(list(left))) == sorted(names(attempts[:7]))
    assert drained(waiting) == ["-1", "-2"]


def test_so_many_at_most_run_and_the_others_in_their_turns() -> None:
    """None begins once it is closed."""
    begun: list[RunningAttempt] = []
    turns = PoolTurns(RULES, 1, begun.extend)
    for each in backlog():
        turns.enter([each])

    for _ in range(2):
        turns.release()
    waiting = len(turns)
    turns.close()
    turns.release()

    assert names(begun) == ["-99", "-1", "-98"] and waiting == 6 and len(turns) == 0


def test_more_are_handed_on_while_workers_begin_them_at_once() -> None:
    """One attempt may wait behind a short one in its process, and none behind a long one."""
    begun: list[RunningAttempt] = []
    ahead = [2]
    turns = PoolTurns(RULES, 1, begun.extend, lambda: ahead[0])
    turns.enter(backlog())
    assert len(begun) == 3

    ahead[0] = 0
    for _ in range(3):
        turns.release()

    assert len(begun) == 4


def test_ever_so_many_that_cannot_begin_end_without_a_call_in_a_call() -> None:
    """A machine without a thread refuses each of them as it is handed on."""
    refused: list[RunningAttempt] = []

    def refuse(attempts: Sequence[RunningAttempt]) -> None:
        refused.extend(attempts)
        for each in attempts:
            assert each.freed is not None
            each.freed()

    many = [running(task(number)) for number in range(20_000)]
    turns = PoolTurns(RULES, 1, refuse)
    turns.enter(many)

    assert len(refused) == len(many) and len(turns) == 0


class Sync:
    """A blocking executor that waits until it is let go."""

    attempt = 0
    fence = 0
    hourhand_checkpoints: AttemptCheckpoints = NO_ATTEMPT

    def __init__(self) -> None:
        self.go = threading.Event()
        self.ran: list[str] = []

    def execute(self, task: Task) -> Outcome | None:
        """Note what ran."""
        self.go.wait(TIMEOUT_S)
        self.ran.append(task.uniqueness_key)
        return None


class Async(Sync):
    """The same on the event loop."""

    async def execute(self, task: Task) -> Outcome | None:  # type: ignore[override]
        """Note what ran."""
        return super().execute(task)


def test_a_node_runs_what_waits_for_workers_in_the_order_of_flows() -> None:
    """On threads, and on the event loop."""
    for executor in (Sync(), Async()):
        bench = Bench(async_attempts_max=1, limits=NodeLimits(RULES))
        attempts = [Attempt(task(number - 99), 0, 1, 1) for number in range(WORKERS)]
        attempts += [each.attempt for each in backlog()[WORKERS:]]
        for attempt in attempts:
            bench.run(executor, attempt)
        threads, coroutines = (pool.load() for pool in bench.pools())
        executor.go.set()
        for _ in attempts:
            bench.ended()
        bench.close()

        assert threads.submitted + coroutines.submitted == len(attempts)
        assert executor.ran.index("-1") <= 2 * WORKERS
        assert executor.ran.index("-2") >= len(attempts) - WORKERS
