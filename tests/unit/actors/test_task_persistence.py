"""TaskPersistence: what is durable, how far the schedule is read, and how far it is done."""

import pytest
from msgspec.structs import replace

from hourhand.actors.loading import ORDERINGS_LOADED_MAX
from hourhand.actors.messages import (
    FindStatuses,
    LoadOrdering,
    LoadStatuses,
    LoadStragglers,
    LoadTasks,
    LogCaughtUp,
    LowerCheckpoint,
    OrderingLoaded,
    PersistTasks,
    ScheduleTasks,
    StatusesFound,
    TasksLoaded,
)
from hourhand.actors.model.execution.attempts import KeyStatus
from hourhand.actors.model.operations.ownership import Straggler
from hourhand.actors.model.task.key import first_key_at
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.task.task import AttemptState
from hourhand.actors.model.values.bucket import hour_of
from hourhand.actors.task_persistence import TaskPersistence
from tests.builders import NOW_MS, a_completion, a_stored_task
from tests.unit.actors.task_persistence_bench import (
    DAY_MS,
    LAG_MS,
    TASK,
    Bench,
    task_due_in,
)
from tests.unit.probes import Probe


def test_p9_a_share_is_answered_when_its_tasks_are_durable() -> None:
    """One write for all of a run."""
    bench = Bench()
    bench.requests.hold("insert_tasks")

    bench.persist(task_due_in(10), task_due_in(20))
    early = bench.persisted()
    bench.serve("insert_tasks")

    assert not early and bench.persisted() == [1]
    assert bench.requests.made == ["insert_tasks"]


def test_operations_never_overlap() -> None:
    """A load behind a write begins when the write is durable."""
    bench = Bench()
    bench.requests.hold("insert_tasks")

    bench.persist(task_due_in(10), batch=1)
    bench.persist(task_due_in(20), batch=2)
    bench.tell(LoadTasks(NOW_MS + 300_000, 10))
    first = list(bench.requests.made)
    bench.serve("insert_tasks")
    second = list(bench.requests.made)
    bench.serve("insert_tasks")

    assert first == ["insert_tasks"] and second == ["insert_tasks"] * 2
    assert "load_tasks" in bench.requests.made and bench.persisted() == [1, 2]


def test_many_shares_that_need_nothing_do_not_exhaust_the_stack() -> None:
    """They queue behind a slow write."""
    bench = Bench()
    bench.requests.hold("insert_tasks")
    bench.persist(task_due_in(10), batch=0)

    for batch in range(1, 3_000):
        bench.ref.tell(PersistTasks(batch, (), 1))
    bench.serve("insert_tasks")

    assert len(bench.persisted()) == 3_000


def test_tasks_beyond_the_checkpoint_are_left_to_a_later_load() -> None:
    """Memory depends on the window."""
    bench = Bench()
    bench.load(300_000)

    bench.persist(task_due_in(299_999), task_due_in(300_000), task_due_in(400_000))

    assert bench.scheduled() == [task_due_in(299_999).key]


def test_p8_a_task_before_the_watermark_lowers_it_durably_before_the_answer() -> None:
    """Or a restart would never load it."""
    bench = Bench()
    bench.requests.hold("save_watermark")

    bench.persist(task_due_in(-DAY_MS))
    early = bench.persisted()
    bench.serve("save_watermark")

    assert not early and bench.persisted() == [1]
    assert bench.saved().watermark_ms == NOW_MS - DAY_MS
    assert bench.saved().tasks_swept_until_ms <= hour_of(NOW_MS - DAY_MS)
    assert bench.scheduled() == [task_due_in(-DAY_MS).key]


def test_p4_the_end_of_the_log_is_told_once() -> None:
    """When the offset found at the assignment is durable."""
    bench = Bench(catch_up_offset=5)
    early = bench.harness.supervisor.has(LogCaughtUp)

    bench.persist(task_due_in(10), next_offset=4)
    still_early = bench.harness.supervisor.has(LogCaughtUp)
    bench.persist(task_due_in(20), next_offset=5)
    bench.persist(task_due_in(30), next_offset=6)

    assert not early and not still_early
    assert len(bench.harness.supervisor.take_all(LogCaughtUp)) == 1


def test_p4_a_log_with_nothing_to_read_is_caught_up_at_once() -> None:
    """Nothing would ever be delivered."""
    bench = Bench(catch_up_offset=7, next_offset=7)

    assert bench.harness.supervisor.has(LogCaughtUp)


def test_a_load_leaves_out_what_is_closed_and_attaches_attempts() -> None:
    """What is overdue when loaded says so."""
    bench = Bench(catch_up_offset=100)
    done, failed, late = task_due_in(10), task_due_in(20), task_due_in(-10)
    bench.store(done, failed, late)
    attempts = AttemptState(used=2, last=2)

    bench.load(
        statuses={
            done.key: KeyStatus(a_completion(key=done.key), AttemptState()),
            failed.key: KeyStatus(None, attempts),
        }
    )

    tasks = bench.scheduler.take(ScheduleTasks).tasks
    assert [task.key for task in tasks] == [late.key, failed.key]
    assert [task.overdue_when_loaded for task in tasks] == [True, False]
    assert tasks[1].attempts == attempts
    assert bench.loaded() == TasksLoaded(NOW_MS + 300_000, complete=True)


def test_p7_what_no_earlier_owner_was_handed_is_not_overdue() -> None:
    """It was written by this tree, however early it was due: nobody else can have begun it."""
    bench = Bench(catch_up_offset=5, next_offset=5)
    bench.store(
        a_stored_task(due_in_ms=-20, ordering_id="x", offset=4),
        a_stored_task(due_in_ms=-10, ordering_id="y", offset=5),
    )

    bench.load()

    tasks = bench.scheduler.take(ScheduleTasks).tasks
    assert [task.overdue_when_loaded for task in tasks] == [True, False]


def test_a_cancelled_row_written_again_is_loaded() -> None:
    """A later record opened the key."""
    bench = Bench()
    task = task_due_in(10, offset=9)
    bench.store(task)
    cancelled = a_completion(key=task.key, result=CompletionResult.CANCELLED, offset=5)

    bench.load(statuses={task.key: KeyStatus(cancelled, AttemptState())})

    assert bench.scheduled() == [task.key]


def test_p5_the_statuses_of_the_whole_range_are_read() -> None:
    """A done key without a row may be scheduled again, and is then looked for in memory only."""
    bench = Bench()
    bench.store(task_due_in(10))

    bench.tell(LoadTasks(NOW_MS + 300_000, 100))

    question = bench.tracker.take(LoadStatuses)
    assert question.up_to >= first_key_at(NOW_MS + 300_000)
    assert question.after == first_key_at(NOW_MS - LAG_MS)


def test_an_incomplete_page_reaches_its_last_row() -> None:
    """The next load goes on from there, and nothing is skipped or read twice."""
    bench = Bench()
    bench.store(task_due_in(10), task_due_in(20), task_due_in(30))

    bench.load(limit=2)
    first = bench.loaded()
    bench.load(limit=2)

    assert first == TasksLoaded(NOW_MS + 20, complete=False)
    assert bench.scheduled() == [task_due_in(10).key, task_due_in(20).key, task_due_in(30).key]
    assert bench.loaded().complete


def test_loaded_until_is_durable_before_the_rows_are_read() -> None:
    """Whoever writes from outside must know what to send through the log as well."""
    bench = Bench()
    bench.requests.hold("save_watermark")

    bench.tell(LoadTasks(NOW_MS + 300_000, 10))
    early = "load_tasks" in bench.requests.made
    bench.serve("save_watermark")

    assert not early and "load_tasks" in bench.requests.made
    assert bench.saved().loaded_until_ms >= NOW_MS + 300_000


@pytest.mark.parametrize("held", ["save_watermark", "load_tasks"])
def test_p8_what_leaves_memory_during_a_load_is_loaded_again(held: str) -> None:
    """Whatever the load waits for just then."""
    bench = Bench()
    bench.store(task_due_in(10), task_due_in(20))
    bench.load(30)
    assert bench.scheduled() == [task_due_in(10).key, task_due_in(20).key]
    bench.loaded()
    bench.requests.hold(held)

    bench.tell(LoadTasks(NOW_MS + 900_000, 100))
    bench.tell(LowerCheckpoint(task_due_in(10).key))
    bench.serve(held)
    bench.answer_statuses()
    bench.harness.run()
    answer = bench.loaded()
    bench.requests.hold_nothing()
    bench.load(900_001)

    assert not answer.complete
    assert task_due_in(20).key in bench.scheduled()
    assert bench.loaded().complete, "what left memory once does not hold the window back"


def test_tasks_that_left_memory_are_not_passed_on_by_the_log() -> None:
    """They lie beyond the lowered checkpoint."""
    bench = Bench()
    bench.load()

    bench.tell(LowerCheckpoint(task_due_in(10).key))
    bench.persist(task_due_in(20))

    assert not bench.scheduled()


def test_an_ordering_id_reads_its_own_open_tasks() -> None:
    """Page by page."""
    bench = Bench(catch_up_offset=100)
    bench.store(
        task_due_in(-30), task_due_in(-20), task_due_in(-10), a_stored_task(ordering_id="other")
    )
    asker = Probe()

    bench.tell(LoadOrdering("customer-7", first_key_at(NOW_MS - 30), TASK.key, 2, asker))
    bench.tracker.take(FindStatuses)
    closed = KeyStatus(a_completion(key=task_due_in(-30).key), AttemptState())
    bench.tell(StatusesFound({task_due_in(-30).key: closed}))

    answer = asker.take(OrderingLoaded)
    assert [task.key for task in answer.tasks] == [task_due_in(-20).key]
    assert answer.tasks[0].overdue_when_loaded and answer.next_after == task_due_in(-20).key


def test_p6_a_later_record_never_meets_a_read_of_its_id_under_way() -> None:
    """It is written, and told of, before the read begins or after its answer: an ordering id that
    reads drops what it is told of meanwhile, and finds it in the page.
    """
    bench = Bench()
    bench.load()
    bench.store(task_due_in(-10))
    asker, later = Probe(), task_due_in(-10, offset=9)
    bench.requests.hold("load_ordering")
    bench.tell(LoadOrdering("customer-7", first_key_at(NOW_MS - 30), TASK.key, 2, asker))

    bench.tell(PersistTasks(7, (later,), 10))
    early = (bench.persisted(), bench.scheduled())
    bench.serve("load_ordering")
    bench.tracker.take(FindStatuses)
    between = (bench.persisted(), bench.scheduled())
    bench.tell(StatusesFound({}))

    assert early == between == ([], [])
    assert [task.offset for task in asker.take(OrderingLoaded).tasks] == [1]
    assert bench.persisted() == [7] and bench.scheduled() == [later.key]


def test_ordering_ids_that_ask_at_a_time_are_read_together_and_let_a_batch_pass() -> None:
    """Thousands may be slow at once, and a batch that waits too long costs the tree."""
    bench = Bench()
    bench.requests.hold("load_ordering")
    askers = [Probe() for _ in range(ORDERINGS_LOADED_MAX + 3)]
    for number, asker in enumerate(askers):
        bench.tell(LoadOrdering(f"id-{number}", first_key_at(0), TASK.key, 2, asker))
    bench.tell(PersistTasks(7, (), 1))

    under_way = []
    while reads := bench.requests.count("load_ordering"):
        under_way.append((reads, bench.persisted()))
        for _ in range(reads):
            bench.serve("load_ordering")

    assert under_way == [(1, []), (ORDERINGS_LOADED_MAX, [7]), (2, [])]
    assert [len(asker.take_all(OrderingLoaded)) for asker in askers] == [1] * len(askers)


def test_stragglers_are_held_from_the_start() -> None:
    """Before anything is loaded."""
    bench = Bench()
    stragglers = (Straggler("x", NOW_MS - DAY_MS),)
    mark = replace(bench.saved(), stragglers=stragglers)

    again = Bench(watermark=mark)

    assert again.scheduler.take(LoadStragglers).stragglers == stragglers


def test_it_is_started_by_its_parent_only() -> None:
    """On its own it would have no tree to fail with."""
    with pytest.raises(TypeError, match="spawn"):
        TaskPersistence.start()
