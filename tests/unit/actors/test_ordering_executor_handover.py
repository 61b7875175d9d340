"""OrderingExecutor: commands, what an earlier tree left running, and letting go."""

from collections.abc import Callable

import pytest

from actors.messages import (
    AdoptAttempt,
    DrainTasks,
    ExecuteTask,
    HoldOrdering,
    LoadOrdering,
    OrderingDrained,
    StartTasks,
    TaskExecuted,
    TaskPostponed,
    TaskWithdrawn,
    UpdateTask,
    WithdrawTask,
)
from actors.model.commands import Withdrawal, WithdrawalResult
from actors.model.key import first_key_at
from tests.builders import an_attempt
from tests.unit.actors.ordering_executor_bench import Bench, task_named
from tests.unit.probes import EPOCH, Probe


@pytest.mark.parametrize("withdrawal", Withdrawal)
def test_a_waiting_task_is_withdrawn(withdrawal: Withdrawal) -> None:
    """Its slot is given back."""
    bench = Bench()
    bench.execute("a", "b")
    asker = Probe()

    bench.tell(WithdrawTask(task_named("b").key, withdrawal, asker))
    bench.finish()

    assert asker.take(TaskWithdrawn).result is WithdrawalResult.WITHDRAWN
    assert bench.attempted == ["a"] and bench.slots == 0


def test_a_waiting_task_that_ran_is_not_moved() -> None:
    """It stays where it is."""
    bench = Bench()
    bench.execute("a")
    bench.slots += 1
    bench.tell(ExecuteTask(task_named("b", last=1)))
    asker = Probe()

    bench.tell(WithdrawTask(task_named("b").key, Withdrawal.MOVE, asker))
    bench.finish()

    assert asker.take(TaskWithdrawn).result is WithdrawalResult.RAN and bench.running() == "b"


@pytest.mark.parametrize("withdrawal", [Withdrawal.MOVE, Withdrawal.RETRY])
def test_nothing_overtakes_a_waiting_task_that_a_command_may_leave_open(
    withdrawal: Withdrawal,
) -> None:
    """It is read again when the command is done, and what waits behind it too (P4)."""
    bench = Bench()
    bench.execute("a", "b", "c")

    bench.tell(WithdrawTask(task_named("b").key, withdrawal, Probe()))
    bench.finish()

    assert bench.attempted == ["a"] and bench.slots == 0
    request = bench.loaded("b", "c")
    assert request.after < task_named("b").key and request.up_to == task_named("c").key
    assert bench.attempted == ["a", "b"]


@pytest.mark.parametrize("withdrawal", [Withdrawal.MOVE, Withdrawal.RETRY])
def test_nothing_overtakes_the_task_at_hand_that_a_command_may_leave_open(
    withdrawal: Withdrawal,
) -> None:
    """A task that is moved to the time it has already is still the next (P4)."""
    bench = Bench()
    bench.execute("a", "b")

    bench.tell(WithdrawTask(task_named("a").key, withdrawal, Probe()))
    bench.finish()

    assert bench.attempted == ["a"]
    bench.loaded("a", "b")
    assert bench.attempted == ["a", "a"]


def test_the_task_at_hand_is_withdrawn_by_its_executor() -> None:
    """It knows whether user code runs."""
    bench = Bench()
    bench.execute("a")
    asker = Probe()

    bench.tell(WithdrawTask(task_named("a").key, Withdrawal.CLOSE, asker))

    assert bench.told(WithdrawTask) == 1 and not asker.messages


def test_an_unknown_key_is_absent() -> None:
    """The store alone knows it."""
    bench = Bench()
    asker = Probe()

    bench.tell(WithdrawTask(task_named("b").key, Withdrawal.CLOSE, asker))

    assert asker.take(TaskWithdrawn).result is WithdrawalResult.ABSENT


def test_p16_a_foreign_attempt_is_waited_for_and_its_key_runs_again() -> None:
    """Another owner may have run it; only the check will say."""
    bench = Bench()
    attempt = an_attempt(task=task_named("a"), epoch=EPOCH - 1)

    bench.tell(AdoptAttempt(attempt))
    bench.execute("a")
    waiting = bench.attempted
    bench.finish("a")
    bench.tell(StartTasks())
    bench.finish("a")

    assert not waiting and bench.attempted == ["a"] and bench.slots == 0


def test_p16_an_own_attempt_takes_a_slot_and_gives_it_back() -> None:
    """A later load of its key only updates it."""
    bench = Bench()

    bench.tell(AdoptAttempt(an_attempt(task=task_named("a"), epoch=EPOCH)))
    slots = bench.slots
    bench.execute("a")
    bench.finish("a")

    assert slots == 1 and bench.slots == 0 and not bench.attempted


def test_p6_an_own_attempt_in_doubt_is_read_again_before_all_that_waits() -> None:
    """What waited behind it is read with it, in order."""
    bench = Bench()
    bench.tell(AdoptAttempt(an_attempt(task=task_named("a"), epoch=EPOCH)))
    bench.execute("b")

    bench.tell(TaskExecuted(task_named("a").key, 0, in_doubt=True))
    bench.tell(StartTasks())
    request = bench.loaded("a", "b")

    assert (request.after, request.up_to) == (
        first_key_at(task_named("a").key.scheduled_ms),
        task_named("b").key,
    )
    assert bench.running() == "a" and bench.slots == 2


def test_p4_what_follows_an_adopted_attempt_is_not_read_before_the_partition_may_start() -> None:
    """The log may hold a command for it, or an earlier task."""
    bench = Bench()
    bench.tell(AdoptAttempt(an_attempt(task=task_named("b"), epoch=EPOCH - 1)))

    bench.tell(TaskExecuted(task_named("b").key, 0, in_doubt=True))
    read = bench.harness.persistence.has(LoadOrdering)
    last = bench.last
    bench.execute("a", "c")
    bench.tell(StartTasks())
    bench.finish()
    request = bench.loaded("b", "c")

    assert not read and last is not None and last.first_ms == task_named("b").key.scheduled_ms
    assert bench.attempted == ["a", "b"] and request.up_to == task_named("c").key


def test_p4_a_record_too_late_for_an_adopted_attempt_waits_for_the_start_as_well() -> None:
    """It is in memory, but the next record may cancel it."""
    bench = Bench()
    bench.tell(AdoptAttempt(an_attempt(task=task_named("a"), epoch=EPOCH)))

    bench.tell(UpdateTask(task_named("a", offset=9)))
    bench.finish("a")
    early = bench.attempted
    bench.tell(StartTasks())

    assert not early and bench.attempted == ["a"]


def test_p14_an_id_that_never_started_is_drained() -> None:
    """What followed its old attempt is stored."""
    bench = Bench()
    bench.tell(AdoptAttempt(an_attempt(task=task_named("a"), epoch=EPOCH)))
    bench.tell(TaskExecuted(task_named("a").key, 0, in_doubt=True))

    bench.tell(DrainTasks())

    assert bench.harness.executor.has(OrderingDrained)


def test_an_idle_id_is_drained_at_once() -> None:
    """Nothing of it runs."""
    bench = Bench()

    bench.tell(DrainTasks())

    assert bench.harness.executor.has(OrderingDrained)


def test_p14_a_busy_id_is_drained_when_its_task_has_ended() -> None:
    """The queue is stored, so it is left."""
    bench = Bench()
    bench.execute("a", "b")

    bench.tell(DrainTasks())
    early = bench.harness.executor.has(OrderingDrained)
    bench.finish()

    assert not early and bench.told(DrainTasks) == 1
    assert bench.harness.executor.has(OrderingDrained) and bench.attempted == ["a"]


def test_p14_an_answer_of_the_store_after_the_drain_began_is_ignored() -> None:
    """It may be under way already."""
    bench = Bench()
    bench.execute("a", "b")
    bench.tell(TaskPostponed(task_named("a").key))
    bench.finish()

    bench.tell(DrainTasks())
    bench.loaded("b")

    assert bench.attempted == ["a"] and bench.harness.executor.has(OrderingDrained)


def test_p8_what_was_asked_of_the_store_stays_open_when_draining() -> None:
    """The watermark may not pass it, though nobody takes the answer."""
    bench = Bench()
    bench.execute("a", "b")
    bench.tell(TaskPostponed(task_named("a").key))
    bench.finish()

    bench.tell(DrainTasks())
    bench.tell(WithdrawTask(task_named("c").key, Withdrawal.CLOSE, Probe()))

    assert bench.last is not None
    assert bench.last.first_ms == task_named("b").key.scheduled_ms


def test_every_message_of_the_parent_is_counted_as_received() -> None:
    """The parent stops an idle child only when it saw everything sent to it, and answered it."""
    bench, asker = Bench(), Probe()
    sends: tuple[Callable[[], object], ...] = (
        lambda: AdoptAttempt(an_attempt(task=task_named("a"), epoch=EPOCH)),
        lambda: ExecuteTask(task_named("a", 9)),
        lambda: ExecuteTask(task_named("b")),
        lambda: ExecuteTask(task_named("b", 9)),
        lambda: WithdrawTask(task_named("b").key, Withdrawal.CLOSE, Probe()),
        lambda: WithdrawTask(task_named("a").key, Withdrawal.CLOSE, asker),
        lambda: HoldOrdering(task_named("c").key, task_named("d").key),
    )
    for send in sends:
        bench.tell(send())
    bench.finish("a", offset=9)

    assert bench.last is not None and bench.last.received == len(sends) - 1

    answer = TaskWithdrawn(task_named("a").key, WithdrawalResult.ABSENT)
    bench.tell(answer)

    assert bench.last.received == len(sends) and asker.messages == [answer]
