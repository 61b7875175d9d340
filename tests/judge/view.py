"""A history sorted the ways that checkers look at it, and a finding as all of them write it."""

from collections import defaultdict
from dataclasses import dataclass

from tests.judge.causes import NEVER_US, Causes, Rules
from tests.judge.history import Attempt, Command, History, Offer


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that should not be, and what excuses it, if anything does."""

    told: str
    cause: str | None = None


class View:
    """The history, sorted."""

    def __init__(self, history: History, rules: Rules) -> None:
        self.history = history
        self.rules = rules
        self.offers = {offer.task_id: offer for offer in history.offers}
        self.partitions = history.partitions()
        self.causes = Causes(history, rules, self.partitions)
        self.attempts = sorted(history.attempts, key=lambda each: each.started_us)
        self.by_task: dict[str, list[Attempt]] = defaultdict(list)
        self.by_id: dict[str, list[Attempt]] = defaultdict(list)
        self.done_us: dict[str, int] = {}
        """Task to the first moment at which user code had done it."""
        self.commands: dict[str, list[Command]] = defaultdict(list)
        for each in self.attempts:
            self.by_task[each.task_id].append(each)
            self.by_id[each.ordering_id].append(each)
            if each.succeeded and each.ended_us is not None:
                earlier_us = self.done_us.get(each.task_id, NEVER_US)
                self.done_us[each.task_id] = min(earlier_us, each.ended_us)
        for command in sorted(history.commands, key=lambda one: one.told_us or NEVER_US):
            self.commands[command.task_id].append(command)


def told(attempt: Attempt) -> str:
    """Name an attempt so that it can be found in the records."""
    return (
        f"{attempt.task_id} of {attempt.ordering_id} (attempt {attempt.number}, fence"
        f" {attempt.fence}, node {attempt.node}, pid {attempt.pid}, at {attempt.started_us})"
    )


def told_offer(offer: Offer) -> str:
    """Name an offer so that it can be found in the records."""
    return f"{offer.task_id} of {offer.ordering_id} (partition {offer.partition})"
