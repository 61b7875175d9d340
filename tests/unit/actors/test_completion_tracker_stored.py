"""CompletionTracker: what is read of old keys, and what a command may not undo."""

import pytest

from hourhand.actors.messages import (
    FindStatuses,
    OutcomesRecorded,
    RecordOutcomes,
    StatusesFound,
    TasksChecked,
)
from hourhand.actors.model.task.status import CompletionResult
from tests.builders import a_completion
from tests.unit.actors.completion_tracker_bench import Bench, key_of, record_of
from tests.unit.probes import PARTITION

OLD_MS = -60_000
"""Due so long before the bound that the store alone knows it."""


@pytest.mark.parametrize(("offset", "closed"), [(4, True), (5, True), (6, False)])
def test_p6_an_old_key_that_was_cancelled_is_opened_by_a_later_record(
    offset: int, *, closed: bool
) -> None:
    """As a new one is, though its completion is read from the store."""
    bench, key = Bench(), key_of(1, OLD_MS)
    bench.store(a_completion(key=key, result=CompletionResult.CANCELLED, offset=5))

    assert bench.is_closed(key, offset) is closed


def test_an_old_key_without_a_completion_is_open() -> None:
    """The answer names it."""
    bench, key = Bench(), key_of(1, OLD_MS)

    ((task, is_closed),) = bench.check(key).take(TasksChecked).checks

    assert (task.key, is_closed) == (key, False)


@pytest.mark.parametrize(
    "late", [CompletionResult.CANCELLED, CompletionResult.MOVED, CompletionResult.DROPPED]
)
def test_p5_what_is_done_is_not_undone_by_a_command(late: CompletionResult) -> None:
    """The attempt ended while the command was being decided: whoever asks is told of its end."""
    bench, key = Bench(), key_of(1)
    bench.close(key)
    bench.asker.take(OutcomesRecorded)

    bench.close(key, late)

    kept = late if late is CompletionResult.DROPPED else CompletionResult.SUCCESS
    (recorded,) = bench.asker.take(OutcomesRecorded).completions
    assert (recorded.key, recorded.result) == (key, kept)
    found = bench.harness.effects.stores.status.find_completions(PARTITION, [key]).result(0)
    assert found[key].result is kept


def test_attempts_are_kept_in_the_partition_of_their_key() -> None:
    """And found there."""
    bench, key = Bench(), key_of(1)
    bench.tell(RecordOutcomes((), (record_of(key),), bench.asker))
    bench.tell(FindStatuses((key,)))

    status = bench.harness.persistence.take(StatusesFound).statuses[key]
    (row,) = bench.harness.effects.stores.status.find_attempts(PARTITION, [key]).result(0)
    assert (row.key, status.attempts.used) == (key, 1)
