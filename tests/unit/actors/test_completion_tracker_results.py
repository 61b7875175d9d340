"""CompletionTracker: a result is durable before the completion of its task (P28)."""

from hourhand.actors.messages import OutcomesRecorded, RecordOutcomes
from hourhand.actors.model.execution.attempts import closing_completion
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.task.task_result import StoredResult
from tests.builders import NOW_MS, a_stored_task
from tests.unit.actors.completion_tracker_bench import WRITES, Bench, key_of
from tests.unit.probes import PARTITION

RESULT = StoredResult(key_of(1), 1, NOW_MS, NOW_MS + 1_000, b'{"value":1}', 1)


def _outcomes(bench: Bench) -> RecordOutcomes:
    task = a_stored_task()
    done = closing_completion(task, CompletionResult.SUCCESS, None, None)
    return RecordOutcomes((done,), (), bench.asker, (), (RESULT,))


def test_a_result_is_durable_before_the_completion() -> None:
    """Who sees the completion can read it."""
    bench = Bench()
    bench.requests.hold("insert_results", *WRITES)

    bench.tell(_outcomes(bench))
    early = bench.requests.count("insert_completions")
    bench.serve("insert_results")
    late = bench.requests.count("insert_completions")
    bench.serve("insert_completions")

    assert (early, late) == (0, 1)
    assert bench.asker.take(OutcomesRecorded).completions
    assert bench.harness.data.results.of_key(PARTITION, RESULT.key) == [RESULT]


def test_what_has_none_asks_for_no_write_more() -> None:
    """A plain success costs what it did."""
    bench = Bench()
    bench.close(key_of(2))

    assert bench.requests.count("insert_results") == 0


def test_a_result_of_an_earlier_owner_does_not_replace_a_later_one() -> None:
    """A frozen owner may write when it wakes up."""
    bench = Bench()
    later = StoredResult(key_of(1), 2, NOW_MS + 5, NOW_MS + 1_005, b'{"value":2}', 2)
    insert = bench.harness.effects.stores.results.insert_results
    insert(PARTITION, [later], bench.harness.ownership.next_write_time() << 8)

    bench.tell(_outcomes(bench))

    assert bench.harness.data.results.of_key(PARTITION, RESULT.key) == [later]
