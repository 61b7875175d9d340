"""Recounts a chaos run: what was lost, ran twice, at once, out of order, early, or unasked.

It reads what executors and load generator wrote down and nothing else, and shares no code
with the engine (a test sees to that).  It never repairs or guesses: what nothing in
``causes`` explains is a violation.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.causes import NEVER_US, SECOND_US, Causes, Rules
from tests.chaos.history import Attempt, History, Offer

Key = tuple[int, str]
"""Time and uniqueness key: how tasks of one ordering id are ordered."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that should not be, and what excuses it, if anything does."""

    told: str
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything the auditor found, by kind."""

    offered: int
    accepted: int
    refused: int
    unknown: int
    run: int
    """Accepted tasks that ended well at least once."""
    attempts: int
    by_kind: Mapping[str, Sequence[Finding]] = field(default_factory=dict)

    def violations(self, kind: str) -> list[Finding]:
        """Return what has no excuse."""
        return [each for each in self.by_kind[kind] if each.cause is None]

    def excused(self, kind: str) -> list[Finding]:
        """Return what has one."""
        return [each for each in self.by_kind[kind] if each.cause is not None]


def partitions_of(history: History) -> dict[str, int]:
    """Return where the log put each ordering id."""
    return {
        offer.ordering_id: offer.partition
        for offer in history.offers
        if offer.partition is not None
    }


def audit(history: History, rules: Rules) -> Findings:
    """Compare what ran with what was accepted."""
    view = _View(history, rules)
    answers = [offer.answer for offer in history.offers]
    accepted = {offer.task_id for offer in history.offers if offer.answer == "accepted"}
    return Findings(
        offered=len(history.offers),
        accepted=len(accepted),
        refused=answers.count("refused"),
        unknown=answers.count("unknown"),
        run=len(accepted & view.done_us.keys()),
        attempts=len(history.attempts),
        by_kind={
            "lost": [
                Finding(_told_offer(view.offers[task_id]), _put_off(view, task_id))
                for task_id in sorted(accepted - view.done_us.keys())
            ],
            "early": [
                Finding(
                    f"{told(each)}, {each.due_wall_us - each.started_wall_us} us early",
                    view.causes.set_back(each),
                )
                for each in view.attempts
                if each.started_wall_us < each.due_wall_us
            ],
            "double": list(_doubles(view)),
            "overlapping": list(_overlaps(view)),
            "out of order": list(_disorder(view)),
            "behind its fence": list(_behind(view)),
            "beside one in a process (P26)": list(_beside_processes(view)),
            "unexpected": list(_unexpected(view)),
            "unended": [
                Finding(told(each))
                for each in view.attempts
                if each.ended_us is None and view.causes.end_us(each) == NEVER_US
            ],
        },
    )


class _View:
    """The history, sorted the ways that the checks look at it."""

    def __init__(self, history: History, rules: Rules) -> None:
        self.rules = rules
        self._wall_minus_boot_us = history.wall_minus_boot_us
        self.offers = {offer.task_id: offer for offer in history.offers}
        self.partitions = partitions_of(history)
        self.causes = Causes(history, rules, self.partitions)
        self.attempts = sorted(history.attempts, key=lambda each: each.started_us)
        self.by_task: dict[str, list[Attempt]] = defaultdict(list)
        self.by_id: dict[str, list[Attempt]] = defaultdict(list)
        self.done_us: dict[str, int] = {}
        """Task to the first moment at which user code had done it."""
        for each in self.attempts:
            self.by_task[each.task_id].append(each)
            self.by_id[each.ordering_id].append(each)
            if each.succeeded and each.ended_us is not None:
                earlier_us = self.done_us.get(each.task_id, NEVER_US)
                self.done_us[each.task_id] = min(earlier_us, each.ended_us)

    def is_judged(self, earlier: Offer, later: Offer) -> bool:
        """True if both were accepted well before the first was due, so that both were stored.

        Under a clock that is ahead they are due when they begin.
        """
        lead_us = round(self.rules.order_lead_s * SECOND_US)
        due_us = earlier.due_wall_us - self._wall_minus_boot_us
        for each in (*self.by_task[earlier.task_id], *self.by_task[later.task_id]):
            if self.causes.clock_of(each):
                due_us = min(due_us, each.started_us)
        return all(
            each.answer == "accepted"
            and self.causes.with_store_us(each.answered_wall_us - self._wall_minus_boot_us, due_us)
            >= lead_us
            for each in (earlier, later)
        )


def _put_off(view: _View, task_id: str) -> str | None:
    """Name a clock that was ahead as an attempt asked for the next one."""
    for each in view.by_task[task_id] if view.offers[task_id].work == "retry" else ():
        clock = view.causes.clock_of(each)
        if clock is not None and clock.ahead_us > 0:
            return f"to be tried again by a wrong clock: {clock.kind}"
    return None


def told(attempt: Attempt) -> str:
    """Name an attempt so that it can be found in the records."""
    return (
        f"{attempt.task_id} of {attempt.ordering_id} (attempt {attempt.number}, fence"
        f" {attempt.fence}, node {attempt.node}, pid {attempt.pid}, at {attempt.started_us})"
    )


def _told_offer(offer: Offer) -> str:
    return f"{offer.task_id} of {offer.ordering_id} (partition {offer.partition})"


def _key(task: Attempt | Offer) -> Key:
    return task.due_wall_us, task.task_id


def _doubles(view: _View) -> Iterator[Finding]:
    """Find attempts of a task that an earlier one had done, or was still at."""
    for attempts in view.by_task.values():
        for place, later in enumerate(attempts):
            # In a process that was killed an attempt has ended, and has done nothing.
            in_the_way = [
                each
                for each in attempts[:place]
                if each.succeeded or (each.ended_us is None and not each.process)
            ]
            if in_the_way:
                causes = [view.causes.excuse(each, later) for each in in_the_way]
                yield _found(f"{told(later)} after {told(in_the_way[-1])}", causes)


def _overlaps(view: _View) -> Iterator[Finding]:
    """Find attempts that began while another one of their ordering id ran."""
    for attempts in view.by_id.values():
        running: list[Attempt] = []
        for later in attempts:
            running = [each for each in running if view.causes.end_us(each) > later.started_us]
            for earlier in running:
                # The one that may be excused is that of the replaced owner, whichever began first.
                old, new = sorted((earlier, later), key=lambda each: each.fence)
                yield _found(f"{told(later)} while {told(earlier)}", [view.causes.excuse(old, new)])
            running.append(later)


def _beside_processes(view: _View) -> Iterator[Finding]:
    """Find attempts that began while one of their ordering id was at work in a process; whatever
    became of its node, nothing excuses it.
    """
    for attempts in view.by_id.values():
        for place, earlier in enumerate(attempts):
            end_us = view.causes.end_us(earlier)
            for later in attempts[place + 1 :] if earlier.process else ():
                if later.started_us < end_us:
                    yield Finding(f"{told(later)} while {told(earlier)}")


def frozen_at_work(history: History) -> list[Attempt]:
    """Return the attempts that were at work in a process when their node was frozen."""
    blows = [blow for fault in history.faults for blow in fault.blows if blow.how == "frozen"]
    return [
        each
        for each in history.attempts
        for blow in blows
        if each.process and each.pid == blow.pid
        if each.started_us < blow.from_us
        and max(each.alive_us, each.ended_us or 0) > blow.struck_us
    ]


def _found(text: str, causes: Sequence[str | None]) -> Finding:
    unexplained = None in causes
    return Finding(text, None if unexplained else "; ".join(filter(None, dict.fromkeys(causes))))


def _disorder(view: _View) -> Iterator[Finding]:
    """Find tasks that began before an earlier one of their ordering id was done."""
    by_id: dict[str, list[Offer]] = defaultdict(list)
    for offer in view.offers.values():
        if offer.task_id in view.by_task:
            by_id[offer.ordering_id].append(offer)
    for ordering_id, offers in by_id.items():
        offers.sort(key=_key)
        pairs = {**_began_before_done(view, offers), **_turned_round(view, ordering_id)}
        for (earlier, later), how in pairs.items():
            if view.is_judged(view.offers[earlier], view.offers[later]):
                yield Finding(
                    f"{told(view.by_task[later][0])} before {_told_offer(view.offers[earlier])}"
                    f" {how}"
                )


def _began_before_done(view: _View, ascending: Sequence[Offer]) -> dict[tuple[str, str], str]:
    pairs = {}
    done_so_far_us = 0
    for place, later in enumerate(ascending):
        began_us = view.by_task[later.task_id][0].started_us
        if began_us < done_so_far_us:
            for earlier in ascending[:place]:
                if began_us < view.done_us.get(earlier.task_id, NEVER_US):
                    pairs[earlier.task_id, later.task_id] = "was done"
        done_so_far_us = max(done_so_far_us, view.done_us.get(later.task_id, NEVER_US))
    return pairs


def _turned_round(view: _View, ordering_id: str) -> dict[tuple[str, str], str]:
    """Find what one owner began in the wrong order, repetitions included."""
    pairs = {}
    by_fence: dict[int, list[Attempt]] = defaultdict(list)
    for each in view.by_id[ordering_id]:
        if each.task_id in view.offers:
            by_fence[each.fence].append(each)
    for attempts in by_fence.values():
        highest = (0, "")
        for place, each in enumerate(attempts):
            if _key(each) < highest:
                for other in attempts[:place]:
                    if _key(other) > _key(each):
                        pairs[each.task_id, other.task_id] = "was begun by the same owner"
            highest = max(highest, _key(each))
    return pairs


def _behind(view: _View) -> Iterator[Finding]:
    """Find attempts that began when a later owner of their partition had begun some."""
    newest: dict[int, Attempt] = {}
    for each in view.attempts:
        partition = view.partitions.get(each.ordering_id)
        if partition is None:
            continue
        first = newest.get(partition)
        if first is None or each.fence > first.fence:
            newest[partition] = each
        elif each.fence < first.fence:
            cause = view.causes.excuse(each, first)
            yield Finding(f"{told(each)} after {told(first)}", cause)


def _unexpected(view: _View) -> Iterator[Finding]:
    """Find attempts of tasks nobody offered, that were refused, or at another time."""
    for each in view.attempts:
        offer = view.offers.get(each.task_id)
        if offer is None:
            yield Finding(f"{told(each)}: never offered")
        elif offer.answer == "refused":
            yield Finding(f"{told(each)}: the client refused it")
        elif (offer.ordering_id, offer.due_wall_us) != (each.ordering_id, each.due_wall_us):
            yield Finding(f"{told(each)}: offered for another time or ordering id")


def first_attempts(attempts: Iterable[Attempt]) -> dict[str, Attempt]:
    """Return each task's first attempt."""
    first: dict[str, Attempt] = {}
    for each in sorted(attempts, key=lambda attempt: attempt.started_us):
        first.setdefault(each.task_id, each)
    return first


def between(ascending: Sequence[int], from_us: int, to_us: int) -> Sequence[int]:
    """Return the moments of a time, its end left out."""
    return ascending[bisect_left(ascending, from_us) : bisect_left(ascending, to_us)]
