"""The outcome that is found is that of the command's own topic and key."""

import pytest
from msgspec.structs import replace

from hourhand.actors.model.operations.ownership import initial_watermark
from hourhand.actors.model.task.key import TaskKey, TaskPair
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    CommandOutcome,
    Completion,
    CompletionResult,
    RecordedOutcome,
)
from hourhand.actors.model.values.log_offset import RECORDS_MAX, kept_offset
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.runtime.steps import begun
from hourhand.scheduler.tasks.outcomes import found_outcome
from tests.builders import NOW_MS

OLD = RecordedOutcome(CommandOutcome.APPLIED, TaskKey(1, "a", "old"))
NEW = RecordedOutcome(CommandOutcome.UNKNOWN_KEY, TaskKey(2, "a", "new"))


@pytest.fixture
def store() -> Stores:
    """Return stores that a first topic's command was recorded in, at offset 7."""
    store = open_memory_stores(MemoryStores())
    store.ownership.claim(0, NOW_MS)
    store.ownership.insert_outcome(0, 7, OLD, 1)
    return store


def _found(store: Stores, offset: int, name: TaskKey | TaskPair | None) -> RecordedOutcome | None:
    return begun(found_outcome(store, 0, offset, name)).result(timeout=0)


def _note_second_topic(store: Stores) -> None:
    mark = replace(initial_watermark(NOW_MS), next_offset=kept_offset(1, 0), topic_id="second")
    store.ownership.save_watermark(0, 1, mark)


def test_an_outcome_is_compared_with_the_key_of_its_command(store: Stores) -> None:
    """Before a node has noted the new topic, too; without a key the place alone counts."""
    assert _found(store, 7, OLD.key) == _found(store, 7, None) == OLD
    assert _found(store, 7, NEW.key) is None
    assert _found(store, 8, OLD.key) is None


def test_an_outcome_is_compared_with_the_pair_of_its_command(store: Stores) -> None:
    """The owner has found its time."""
    assert _found(store, 7, TaskPair("a", "old")) == OLD
    assert _found(store, 7, TaskPair("a", "new")) is None


def test_of_a_topic_made_anew_the_offset_is_looked_for_in_its_era(store: Stores) -> None:
    """What the topic before it had there is not that command's, whatever its key."""
    _note_second_topic(store)

    before = _found(store, 7, OLD.key), _found(store, 7, None)
    store.ownership.insert_outcome(0, kept_offset(1, 7), NEW, 2)

    assert before == (None, None)
    assert _found(store, 7, NEW.key) == _found(store, 7, None) == NEW


def test_an_offset_that_no_topic_has_has_no_outcome(store: Stores) -> None:
    """Whoever types a receipt may type any number."""
    _note_second_topic(store)

    assert _found(store, RECORDS_MAX, None) is None


RUNNING = RecordedOutcome(CommandOutcome.RUNNING, TaskKey(3, "a", "run"))
CLOSED = Completion(RUNNING.key, CompletionResult.CANCELLED, offset=9, attempts=2, finished_ms=5)
END = AttemptRecord(RUNNING.key, 2, AttemptResult.DROPPED, started_ms=4, finished_ms=6)


def test_what_ran_when_it_was_cancelled_reads_as_cancelled_once_its_end_is_stored(
    store: Stores,
) -> None:
    """Until then its code may run."""
    store.ownership.insert_outcome(0, 9, RUNNING, 1)
    store.status.insert_completions(0, (CLOSED,), 1)
    store.status.insert_attempts(0, (replace(END, attempt=1),), 2)

    before = _found(store, 9, RUNNING.key)
    store.status.insert_attempts(0, (END,), 3)
    after = _found(store, 9, RUNNING.key)

    assert before == RUNNING and after == replace(RUNNING, outcome=CommandOutcome.CANCELLED)


@pytest.mark.parametrize(
    ("closed", "end"),
    [
        (replace(CLOSED, offset=8), END),
        (replace(CLOSED, result=CompletionResult.SUCCESS), END),
        (CLOSED, replace(END, finished_ms=None)),
    ],
)
def test_another_end_says_nothing_of_what_ran(
    store: Stores, closed: Completion, end: AttemptRecord
) -> None:
    """Another command closed the key, the attempt ended well, or only its start is stored."""
    store.ownership.insert_outcome(0, 9, RUNNING, 1)
    store.status.insert_completions(0, (closed,), 1)
    store.status.insert_attempts(0, (end,), 2)

    assert _found(store, 9, RUNNING.key) == RUNNING
