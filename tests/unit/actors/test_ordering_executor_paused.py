"""OrderingExecutor: what becomes of its tasks where it is paused, and of their slots."""

from actors.messages import DrainTasks, LoadOrdering, PauseOrdering, TaskWithdrawn, WithdrawTask
from actors.model.commands import Withdrawal
from tests.unit.actors.ordering_executor_bench import Bench, task_named
from tests.unit.probes import Probe


def test_what_waits_is_left_to_the_store_when_it_is_paused() -> None:
    """Its slots are given back at once; the task at hand keeps its own until it has ended."""
    bench = Bench()
    bench.execute("a", "b", "c")

    bench.tell(PauseOrdering())
    during = bench.slots
    bench.finish()

    assert (during, bench.slots) == (1, 0) and bench.attempted == ["a"]
    assert not bench.harness.persistence.has(LoadOrdering)


def test_a_retry_that_waits_is_let_go_when_it_is_paused() -> None:
    """Its executor is asked to let go of what only waits, as in a drain."""
    bench = Bench()
    bench.execute("a")

    bench.tell(PauseOrdering())

    assert bench.told(DrainTasks) == 1


def test_a_pause_is_counted_as_received() -> None:
    """The parent forgets an id only where both have counted the same."""
    bench = Bench()
    bench.execute("a", "b")
    bench.finish()
    bench.finish()

    bench.tell(PauseOrdering())

    assert bench.last is not None and bench.last.received == bench.sent + 1
    assert not bench.told(DrainTasks)


def test_an_idle_id_can_be_paused() -> None:
    """There is nobody to let go."""
    bench = Bench()

    bench.tell(PauseOrdering())

    assert bench.last is not None and bench.last.released == 0


def test_a_withdrawal_of_the_task_at_hand_gives_no_slot_back() -> None:
    """It is in use until the task has ended."""
    bench = Bench()
    bench.execute("a", "b")

    bench.tell(WithdrawTask(task_named("a").key, Withdrawal.CLOSE, Probe()))

    assert bench.slots == 2


def test_an_answer_to_a_withdrawal_names_its_key() -> None:
    """Whoever asked may have asked for several."""
    bench = Bench()
    bench.execute("a", "b")
    asker = Probe()

    bench.tell(WithdrawTask(task_named("b").key, Withdrawal.CLOSE, asker))

    assert asker.take(TaskWithdrawn).key == task_named("b").key
