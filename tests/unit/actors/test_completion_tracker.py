"""CompletionTracker: what is closed, and outcomes made durable in groups."""

from concurrent.futures import Future

import pytest
from msgspec.structs import replace

from hourhand.actors.completion_tracker import CompletionTracker
from hourhand.actors.messages import (
    CheckTasks,
    FindStatuses,
    LoadStatuses,
    OutcomesRecorded,
    RecordOutcomes,
    RecordStarts,
    StatusesFound,
    TasksChecked,
)
from hourhand.actors.model.task.key import first_key_at
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.values.errors import StoreUnavailable
from tests.builders import NOW_MS, a_completion, a_stored_task, an_attempt
from tests.unit.actors.completion_tracker_bench import (
    KNOWN_MAX,
    READS,
    WRITES,
    Bench,
    key_of,
    record_of,
)
from tests.unit.probes import PARTITION, Probe


def test_an_outcome_is_acknowledged_only_when_it_is_durable() -> None:
    """Completions and attempts alike."""
    bench = Bench()
    bench.requests.hold(*WRITES)

    bench.close(key_of(1))
    bench.tell(RecordOutcomes((), (record_of(key_of(2)),), bench.asker))
    early = list(bench.asker.messages)
    bench.serve("insert_completions")
    bench.serve("insert_attempts")

    assert not early
    (completion,) = bench.asker.take(OutcomesRecorded).completions
    assert (completion.key, completion.result) == (key_of(1), CompletionResult.SUCCESS)
    assert [each.key for each in bench.asker.take(OutcomesRecorded).records] == [key_of(2)]


def test_what_arrives_while_two_writes_are_under_way_goes_with_the_next() -> None:
    """At most two in flight, however much arrives."""
    bench = Bench()
    bench.requests.hold(*WRITES)

    for number in range(10):
        bench.close(key_of(number))
    in_flight = bench.requests.count("insert_completions")
    bench.serve("insert_completions")
    bench.serve("insert_completions")
    bench.serve("insert_completions")

    assert in_flight == 2 and bench.requests.made.count("insert_completions") == 3
    assert len(bench.asker.take_all(OutcomesRecorded)) == 10


def test_the_last_attempt_is_durable_before_its_completion() -> None:
    """Or a closed key would miss its history."""
    bench = Bench()
    bench.requests.hold(*WRITES)
    completion = a_completion(key=key_of(1), result=CompletionResult.FAILURE)

    bench.tell(RecordOutcomes((completion,), (record_of(key_of(1)),), bench.asker))
    early = bench.requests.count("insert_completions")
    bench.serve("insert_attempts")

    assert early == 0 and bench.requests.count("insert_completions") == 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_writes_of_one_key_the_later_wins_in_whatever_order_they_arrive(
    order: tuple[int, int],
) -> None:
    """Write times are taken when the write is asked for."""
    bench = Bench()
    bench.requests.hold(*WRITES)
    bench.close(key_of(1), CompletionResult.CANCELLED)
    bench.close(key_of(1), CompletionResult.SUCCESS)

    writes = list(bench.requests.held)
    for index in order:
        writes[index]()

    stored = bench.harness.effects.stores.status.find_completions(PARTITION, (key_of(1),))
    assert stored.result(timeout=0)[key_of(1)].result is CompletionResult.SUCCESS


def test_p16_a_write_that_fails_fails_the_tree() -> None:
    """True if it happened is unknown; the store is read again."""
    bench = Bench()
    bench.requests.hold(*WRITES)
    bench.close(key_of(1))

    bench.requests.take("insert_completions").fail(StoreUnavailable("gone"))

    with pytest.raises(StoreUnavailable):
        bench.harness.run()
    assert not bench.asker.messages


def test_a_start_is_answered_when_it_is_durable() -> None:
    """The worker waits for the future."""
    bench = Bench()
    bench.requests.hold(*WRITES)
    recorded: Future[None] = Future()

    bench.tell(RecordStarts((an_attempt(),), recorded))
    early = recorded.done()
    bench.serve("insert_attempts")

    assert not early and recorded.done() and not recorded.cancelled()


def test_a_worker_that_stopped_waiting_does_no_harm() -> None:
    """Its attempt counts as not started."""
    bench = Bench()
    bench.requests.hold(*WRITES)
    recorded: Future[None] = Future()
    bench.tell(RecordStarts((an_attempt(),), recorded))

    recorded.cancel()
    bench.serve("insert_attempts")

    assert recorded.cancelled()


def test_a_tracker_that_stops_releases_the_workers_that_wait_for_it() -> None:
    """Of starts under way and of those still collected."""
    bench = Bench()
    bench.requests.hold(*WRITES)
    starts: list[Future[None]] = [Future(), Future(), Future()]
    for number, recorded in enumerate(starts):
        bench.tell(RecordStarts((an_attempt(number=number + 1),), recorded))

    bench.harness.system.stop_tree(bench.ref)

    assert all(recorded.cancelled() for recorded in starts)


def test_a_key_within_the_bound_is_open_without_a_read() -> None:
    """Nobody else writes completions."""
    bench = Bench()

    assert not bench.is_closed(key_of(1)) and not bench.requests.made


@pytest.mark.parametrize(("offset", "closed"), [(3, True), (5, True), (6, False)])
def test_p6_a_cancelled_key_is_opened_by_a_later_record(offset: int, closed: bool) -> None:
    """The record run is compared with the command that closed the key."""
    bench = Bench()

    bench.close(key_of(1), CompletionResult.CANCELLED)

    assert bench.is_closed(key_of(1), offset) is closed


def test_p5_a_completion_counts_before_it_is_durable() -> None:
    """The key must not run twice meanwhile."""
    bench = Bench()
    bench.requests.hold(*WRITES)

    bench.close(key_of(1))

    assert bench.is_closed(key_of(1))


def test_p5_old_keys_cost_one_read_for_all_that_gathered() -> None:
    """One read at a time."""
    bench = Bench()
    old = [key_of(number, -60_000) for number in range(4)]
    bench.store(a_completion(key=old[2]))
    bench.requests.hold(*READS)

    askers = [bench.check(key) for key in old]
    under_way = bench.requests.count("find_completions")
    bench.serve("find_completions")
    bench.serve("find_completions")

    assert under_way == 1 and bench.requests.made.count("find_completions") == 2
    assert [asker.take(TasksChecked).checks[0][1] for asker in askers] == [
        False,
        False,
        True,
        False,
    ]


def test_an_answer_names_the_record_it_is_about() -> None:
    """The asker may have gone on meanwhile."""
    bench = Bench()

    asker = bench.check(key_of(1), offset=7)

    ((task, is_closed),) = asker.take(TasksChecked).checks
    assert (task.key, task.offset, is_closed) == (key_of(1), 7, False)


def test_what_is_known_of_several_tasks_is_told_before_a_read_of_the_others() -> None:
    """A task that is on time does not wait for an old one that was asked about with it."""
    bench, asker = Bench(), Probe()
    tasks = tuple(
        replace(a_stored_task(), key=key) for key in (key_of(1), key_of(2, -60_000), key_of(3))
    )
    bench.requests.hold(*READS)

    bench.tell(CheckTasks(tasks, asker))
    early = [task.key for task, _ in asker.take(TasksChecked).checks]
    bench.serve("find_completions")

    assert early == [key_of(1), key_of(3)]
    assert [task.key for task, _ in asker.take(TasksChecked).checks] == [key_of(2, -60_000)]


def test_p5_what_was_closed_during_a_read_is_closed() -> None:
    """The read began before, and knows nothing of it."""
    bench = Bench()
    old = key_of(1, -60_000)
    bench.requests.hold("find_completions")
    asker = bench.check(old)
    read = bench.requests.take("find_completions")
    read.apply()

    bench.close(old)
    read.answer()
    bench.harness.run()

    assert asker.take(TasksChecked).checks[0][1]


def test_p13_older_completions_are_forgotten_and_then_read() -> None:
    """The newer half stays known."""
    bench = Bench()
    for number in range(KNOWN_MAX + 1):
        bench.close(key_of(number))
    reads = bench.requests.made.count("find_completions")

    oldest, newest = bench.is_closed(key_of(0)), bench.is_closed(key_of(KNOWN_MAX))

    assert oldest and newest
    assert bench.requests.made.count("find_completions") == reads + 1


def test_p5_an_old_task_that_ends_is_not_forgotten_before_it_is_durable() -> None:
    """What was left over from long ago is older than all that is known, and makes it too much."""
    bench = Bench()
    for number in range(1, KNOWN_MAX + 1):
        bench.close(key_of(number))
    bench.requests.hold(*WRITES)

    bench.close(key_of(0))

    assert bench.is_closed(key_of(0))


def test_p5_what_is_not_durable_is_never_forgotten() -> None:
    """The store does not know it yet, so a read would miss it."""
    bench = Bench()
    bench.requests.hold(*WRITES)

    for number in range(KNOWN_MAX * 2):
        bench.close(key_of(number))

    assert all(bench.is_closed(key_of(number)) for number in range(KNOWN_MAX * 2))


def test_a_load_brings_completions_and_attempts_of_each_key_together() -> None:
    """And what it taught is known from then on."""
    bench = Bench()
    bench.store(a_completion(key=key_of(1)))
    status = bench.harness.effects.stores.status
    status.insert_attempts(PARTITION, (record_of(key_of(2)),), 1).result(timeout=0)

    bench.tell(LoadStatuses(first_key_at(NOW_MS), key_of(9)))
    loaded = bench.harness.persistence.take(StatusesFound).statuses
    reads = len(bench.requests.made)

    completion = loaded[key_of(1)].completion
    assert completion is not None and completion.result is CompletionResult.SUCCESS
    assert loaded[key_of(2)].completion is None and loaded[key_of(2)].attempts.used == 1
    assert bench.is_closed(key_of(1)) and len(bench.requests.made) == reads


def test_a_find_prefers_what_was_closed_while_it_read() -> None:
    """A command is decided from what is true now."""
    bench = Bench()
    bench.requests.hold(*READS)
    bench.tell(FindStatuses((key_of(1), key_of(2))))

    bench.close(key_of(1), CompletionResult.CANCELLED)
    bench.serve("find_completions")
    bench.serve("find_attempts")

    found = bench.harness.persistence.take(StatusesFound).statuses
    completion = found[key_of(1)].completion
    assert completion is not None and completion.result is CompletionResult.CANCELLED
    assert key_of(2) not in found or found[key_of(2)].completion is None


def test_p12_a_command_is_told_of_a_completion_once_that_is_durable() -> None:
    """Otherwise its outcome could tell of what a crash then takes back; a reader need not wait."""
    bench = Bench()
    bench.requests.hold("insert_completions")
    bench.close(key_of(1))
    bench.close(key_of(2), CompletionResult.FAILURE)

    bench.tell(FindStatuses((key_of(1), key_of(3))))
    bench.harness.persistence.take(StatusesFound)
    bench.tell(FindStatuses((key_of(3),), durable=True))
    bench.harness.persistence.take(StatusesFound)
    bench.tell(FindStatuses((key_of(1), key_of(2)), durable=True))
    assert not bench.harness.persistence.take_all(StatusesFound)

    bench.serve("insert_completions")
    early = bench.harness.persistence.take_all(StatusesFound)
    bench.serve("insert_completions")

    assert not early
    found = bench.harness.persistence.take(StatusesFound).statuses
    results = [found[key_of(number)].completion for number in (1, 2)]
    assert [each.result.value for each in results if each] == ["success", "failure"]


def test_p12_a_reopened_key_goes_on_with_its_numbers() -> None:
    """Its last attempt ended well, so no attempt row tells of it."""
    bench = Bench()
    bench.store(a_completion(key=key_of(1), result=CompletionResult.REOPENED, attempts=2))
    status = bench.harness.effects.stores.status
    status.insert_attempts(PARTITION, (record_of(key_of(1)),), 1).result(timeout=0)

    bench.tell(FindStatuses((key_of(1),)))

    attempts = bench.harness.persistence.take(StatusesFound).statuses[key_of(1)].attempts
    assert (attempts.used, attempts.last) == (0, 2)


def test_it_is_started_by_its_parent_only() -> None:
    """On its own it would have no tree to fail with."""
    with pytest.raises(TypeError, match="spawn"):
        CompletionTracker.start()
