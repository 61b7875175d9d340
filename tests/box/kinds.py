"""The kinds of tasks that a box knows, and what their executors say of themselves."""

from collections.abc import Mapping
from datetime import timedelta

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.flow.flow import FairShare, FlowRule, FlowRules, Limit
from hourhand.actors.model.task.task import Task

PLAIN, BLOCKING, LETTER = None, "blocking", "letter"
PAIR, SWARM, RUN, LIMITED = "pair", "swarm", "run", "limited"
URGENT, TENANT, UNKNOWN = "urgent", "tenant", "unknown"

PLACES: Mapping[str | None, int | None] = {PAIR: 2, SWARM: None}
"""Tasks of one ordering id that run at once, by kind without order; None for no limit."""
RUN_TASKS_MAX: Mapping[str | None, int] = {RUN: 3}
FLOW_RULES = FlowRules(
    {
        LIMITED: FlowRule(limits=(Limit(concurrency=1_000),)),
        URGENT: FlowRule(priority=5),
        TENANT: FlowRule(fair=FairShare(key="tenant")),
    }
)
WAIT_MS = 60


class PlainJob(TaskExecutor):
    """Gives up after three attempts.  No runner of a box calls it."""

    retry = RetryPolicy(
        attempts_max=3,
        wait=lambda _state: WAIT_MS / 1000,  # type: ignore[arg-type]
    )

    def execute(self, task: Task) -> Outcome | None:
        """Fail the test."""
        raise AssertionError(f"{task.key} was run")


class BlockingJob(PlainJob):
    """Holds its ordering id when its attempts are used up."""

    retry = RetryPolicy(
        attempts_max=2,
        wait=lambda _state: WAIT_MS / 1000,  # type: ignore[arg-type]
        on_exhausted="block",
    )
    timeout = timedelta(seconds=7)


class LetterJob(PlainJob):
    """Goes to the dead letters when its attempts are used up."""

    retry = RetryPolicy(
        attempts_max=2,
        wait=lambda _state: WAIT_MS / 1000,  # type: ignore[arg-type]
        on_exhausted="dead_letter",
    )


_JOBS: Mapping[str | None, type[PlainJob]] = {BLOCKING: BlockingJob, LETTER: LetterJob}


def job_of(kind: str | None) -> type[PlainJob]:
    """Return the executor class of a kind."""
    return _JOBS.get(kind, PlainJob)
