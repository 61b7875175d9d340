"""Checkers of attempts: early, beside each other, again, unended, or behind a later owner."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from tests.judge.causes import NEVER_US
from tests.judge.history import Attempt
from tests.judge.view import Finding, View, told


def early(view: View) -> Iterator[Finding]:
    """P2: an attempt began before its time by the clock of its node."""
    for each in view.attempts:
        if each.started_wall_us < each.due_wall_us:
            early_us = each.due_wall_us - each.started_wall_us
            yield Finding(f"{told(each)}, {early_us} us early", view.causes.set_back(each))


def overlapping(view: View) -> Iterator[Finding]:
    """P3: an attempt began while another one of its ordering id ran; P26 has those in processes."""
    for attempts in view.by_id.values():
        running: list[Attempt] = []
        for later in attempts:
            running = [each for each in running if view.causes.end_us(each) > later.started_us]
            for earlier in running:
                # The one that may be excused is that of the replaced owner, whichever began first.
                old, new = sorted((earlier, later), key=lambda each: each.fence)
                yield _found(f"{told(later)} while {told(earlier)}", [view.causes.excuse(old, new)])
            if not later.process:
                running.append(later)


def again(view: View) -> Iterator[Finding]:
    """P5: an attempt of a task began that an earlier one had done, or was still at."""
    for attempts in view.by_task.values():
        in_the_way: list[Attempt] = []
        for later in attempts:
            if in_the_way:
                causes = [view.causes.excuse(each, later) for each in in_the_way]
                yield _found(f"{told(later)} after {told(in_the_way[-1])}", causes)
            # In a process that was killed an attempt has ended, and has done nothing.
            if later.succeeded or (later.ended_us is None and not later.process):
                in_the_way.append(later)


def unended(view: View) -> Iterator[Finding]:
    """P14: an attempt never ended, and its process was not killed."""
    for each in view.attempts:
        if each.ended_us is None and view.causes.end_us(each) == NEVER_US:
            yield Finding(told(each))


def behind(view: View) -> Iterator[Finding]:
    """P15: an attempt began when a later owner of its partition had begun some."""
    newest: dict[int, Attempt] = {}
    for each in view.attempts:
        partition = view.partitions.get(each.ordering_id)
        if partition is None:
            continue
        first = newest.get(partition)
        if first is None or each.fence > first.fence:
            newest[partition] = each
        elif each.fence < first.fence:
            yield Finding(f"{told(each)} after {told(first)}", view.causes.excuse(each, first))


def beside_processes(view: View) -> Iterator[Finding]:
    """P26: an attempt began while one of its ordering id was at work in a process; whatever became
    of its node, nothing excuses it.
    """
    for attempts in view.by_id.values():
        starts_us = [each.started_us for each in attempts]
        for place, earlier in enumerate(attempts):
            if earlier.process:
                end = bisect_left(starts_us, view.causes.end_us(earlier))
                for later in attempts[place + 1 : end]:
                    yield Finding(f"{told(later)} while {told(earlier)}")


def _found(text: str, causes: Sequence[str | None]) -> Finding:
    unexplained = None in causes
    return Finding(text, None if unexplained else "; ".join(filter(None, dict.fromkeys(causes))))
