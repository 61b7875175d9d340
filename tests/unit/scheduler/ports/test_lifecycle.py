"""Lifecycle events: an identity that follows from what happened, and a form that any reader has."""

import msgspec
import pytest

from hourhand.actors.model.operations.ownership import EPOCH_SHIFT
from hourhand.actors.model.task.status import AttemptRecord, AttemptResult, CompletionResult
from hourhand.scheduler.ports.lifecycle import (
    LifecycleKind,
    accepted_event,
    attempt_event,
    blocked_event,
    closed_event,
    encode_event,
    started_event,
)
from tests.builders import NOW_MS, a_completion, a_key, a_stored_task, decode_event

EPOCH_3 = 3 << EPOCH_SHIFT


def test_the_record_is_compact_and_leaves_out_what_says_nothing() -> None:
    """Field names as in the log's records, times with three digits."""
    event = accepted_event(5, a_stored_task(offset=17), EPOCH_3 + 9, NOW_MS)

    found = msgspec.json.decode(encode_event(event))

    assert found == {
        "event": "accepted",
        "id": event.id,
        "time": "2026-02-09T01:41:12.959Z",
        "partition": 5,
        "scheduledTime": "2026-02-09T01:42:12.959Z",
        "orderingId": "customer-7",
        "uniquenessKey": "invoice-42",
        "version": 1,
        "epoch": 3,
        "offset": 17,
    }
    assert len(event.id) == 32
    assert decode_event(encode_event(event)) == event


def test_what_is_told_again_has_the_same_id() -> None:
    """By another owner too, at another time."""
    task, done = a_stored_task(offset=17), a_completion(offset=17)

    assert (
        accepted_event(5, task, EPOCH_3, NOW_MS).id
        == accepted_event(5, task, EPOCH_3 * 2, NOW_MS + 999).id
    )
    assert closed_event(5, done, EPOCH_3).id == closed_event(5, done, EPOCH_3 * 2).id


def test_what_differs_has_another_id() -> None:
    """Another record, another bulk load, another end, another key with the same characters."""
    bulk = a_stored_task(offset=-1)
    done = a_completion(offset=17)
    events = [
        accepted_event(5, a_stored_task(offset=17), EPOCH_3, NOW_MS),
        accepted_event(5, a_stored_task(offset=18), EPOCH_3, NOW_MS),
        accepted_event(5, bulk, 7, NOW_MS),
        accepted_event(5, bulk, 8, NOW_MS),
        accepted_event(5, a_stored_task(ordering_id="a", uniqueness_key="bc"), 7, NOW_MS),
        accepted_event(5, a_stored_task(ordering_id="ab", uniqueness_key="c"), 7, NOW_MS),
        closed_event(5, done, EPOCH_3),
        closed_event(5, msgspec.structs.replace(done, finished_ms=NOW_MS + 1), EPOCH_3),
        closed_event(5, msgspec.structs.replace(done, attempts=2), EPOCH_3),
        started_event(5, a_key(), 1, NOW_MS, "p 1"),
        started_event(5, a_key(), 1, NOW_MS, "p 2"),
        blocked_event(5, a_key(), NOW_MS, "p 3"),
    ]

    assert len({event.id for event in events}) == len(events)


@pytest.mark.parametrize("result", CompletionResult)
def test_every_end_has_a_name(result: CompletionResult) -> None:
    """And no two the same."""
    names = {closed_event(0, a_completion(result=each), EPOCH_3).event for each in CompletionResult}

    assert len(names) == len(CompletionResult)
    told = closed_event(0, a_completion(result=result, moved_to_ms=NOW_MS), EPOCH_3)
    assert (told.time, told.moved_to) == ("2026-02-09T01:41:12.959Z",) * 2


@pytest.mark.parametrize("result", AttemptResult)
def test_attempts_are_told_of_when_they_failed(result: AttemptResult) -> None:
    """Others are started, or end their key."""
    record = AttemptRecord(
        a_key(), 2, result, NOW_MS, NOW_MS + 5, NOW_MS + 20_000, error_class="Boom", fence=3
    )

    told = attempt_event(4, record)

    if result in {AttemptResult.STARTED, AttemptResult.SUCCESS, AttemptResult.DROPPED}:
        assert told is None
    else:
        assert told is not None
        is_snooze = result is AttemptResult.SNOOZED
        kind = LifecycleKind.SNOOZED if is_snooze else LifecycleKind.ATTEMPT_FAILED
        assert (told.event, told.attempt, told.epoch) == (kind, 2, 3)
        assert told.next_attempt_time == "2026-02-09T01:41:32.959Z"
        assert told.error_class == "Boom"
