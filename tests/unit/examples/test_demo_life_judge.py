"""The judge of the life of a task finds what it is there to find."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from msgspec import structs

from examples.demo_life import CANCELLED, CHARGES, CUSTOMERS, Seen, judged
from hourhand import TaskInfo
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import AttemptResult
from hourhand.scheduler.tasks.task_info import AttemptInfo
from hourhand.scheduler.tasks.task_state import TaskState

BEGIN = datetime(2026, 2, 9, tzinfo=UTC)
STATES = {
    "on time": TaskState.SUCCESS,
    "behind a slow call": TaskState.EXPIRED,
    "replaced": TaskState.SUCCESS,
}


def _info(ordering_id: str, state: TaskState) -> TaskInfo:
    return TaskInfo(TaskKey(0, ordering_id, "1"), state)


def _seen() -> Seen:
    """Return a story in which everything went well."""
    return Seen(
        mails=[
            *((f"on time-{number}", "10:00") for number in range(CUSTOMERS["on time"])),
            *((f"replaced-{number}", "16:00") for number in range(CUSTOMERS["replaced"])),
        ],
        receipts={f"receipt-{number}": 1_000 + number for number in range(CHARGES)},
        calls={f"order-{number}": 7 for number in range(CHARGES)},
        reminders={
            group: [_info(f"{group}-{number}", state) for number in range(CUSTOMERS[group])]
            for group, state in STATES.items()
        },
        charges=[_info(f"order-{number}", TaskState.SUCCESS) for number in range(CHARGES)],
        results={
            f"order-{number}": {"charged": 1_000 + number, "snoozes": 6}
            for number in range(CHARGES)
        },
        cancelled=[
            _info(f"cancelled-{number}", TaskState.CANCELLED) for number in range(CANCELLED)
        ],
        outcomes=["applied"] * CANCELLED,
    )


def _broken(seen: Seen) -> int:
    return sum(not check.holds for check in judged(seen))


def test_a_good_story_holds() -> None:
    """Nothing is found."""
    assert _broken(_seen()) == 0


def _second_attempt(seen: Seen) -> Seen:
    row = AttemptInfo(2, AttemptResult.SNOOZED, BEGIN, BEGIN)
    return replace(
        seen, charges=[structs.replace(seen.charges[0], attempts=(row,)), *seen.charges[1:]]
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda seen: replace(seen, mails=[*seen.mails, ("behind a slow call-1", "10:00")]),
        lambda seen: replace(seen, mails=[*seen.mails, ("replaced-1", "10:00")]),
        lambda seen: replace(seen, charges=seen.charges[1:]),
        lambda seen: replace(seen, receipts={**seen.receipts, "receipt-1": 0}),
        lambda seen: replace(seen, receipts={**seen.receipts, "cancelled-1": 1_000}),
        lambda seen: replace(
            seen, results={**seen.results, "order-1": {"charged": 1, "snoozes": 6}}
        ),
        lambda seen: replace(seen, results={**seen.results, "order-1": {"charged": 1_001}}),
        _second_attempt,
        lambda seen: replace(seen, cancelled=seen.cancelled[1:]),
        lambda seen: replace(seen, calls={**seen.calls, "cancelled-1": 1}),
        lambda seen: replace(seen, outcomes=[*seen.outcomes[1:], "too_late"]),
        lambda seen: replace(seen, reminders={**seen.reminders, "on time": []}),
    ],
)
def test_each_thing_that_goes_wrong_is_found_alone(change: Callable[[Seen], Seen]) -> None:
    """One check fails for it, and no other."""
    assert _broken(change(_seen())) == 1
