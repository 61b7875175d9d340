"""PartitionScheduler where kinds have rules: what is due goes in the order of its flow."""

from hourhand.actors.messages import (
    BandsChanged,
    ExecuteTasks,
    LowerCheckpoint,
    ScheduleTasks,
    ShrinkWindow,
    SlotsReleased,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.band import BandName
from hourhand.actors.partition_scheduler import FLOW_TASKS_AT_A_TIME
from tests.unit.actors.model.window.test_flow_queues import RULES, task
from tests.unit.actors.partition_scheduler_bench import Bench

SLOTS = 6


def bench_of(*tasks: StoredTask) -> Bench:
    """Return a started bench that was sent these tasks at once."""
    bench = Bench(slots=SLOTS, flow_rules=RULES)
    bench.tell(ScheduleTasks(tasks))
    return bench


BACKLOG = tuple(task(number - 900, tenant="big") for number in range(9))


def test_one_flow_leaves_slots_for_the_others() -> None:
    """A third of them is what a flow alone may have."""
    bench = bench_of(*BACKLOG)
    first = bench.executed()

    bench.tell(ScheduleTasks((task(-3, "alarm"), task(-2), task(-1, None))))

    assert first == ["-900", "-899"]
    assert bench.executed() == ["-3", "-2", "-1"]


def test_a_herd_of_one_flow_goes_on_in_parts_and_others_between_them() -> None:
    """All of it at once would hold up every partition of the node."""
    slots = 12 * FLOW_TASKS_AT_A_TIME
    bench = Bench(slots=slots, tasks_max=2 * slots, flow_rules=RULES)
    herd = tuple(task(number - slots, tenant="herd") for number in range(slots))

    bench.ref.tell(ScheduleTasks(herd))
    bench.ref.tell(ScheduleTasks((task(-1, "alarm"),)))
    bench.harness.run()

    parts = [part.tasks for part in bench.executor.take_all(ExecuteTasks)]
    assert max(map(len, parts)) == FLOW_TASKS_AT_A_TIME
    assert task(-1, "alarm") in parts[1]
    # A flow alone has a third of the slots.
    assert sum(map(len, parts)) == slots // 3 + 1


def test_while_a_herd_goes_on_in_parts_what_ended_is_replaced_by_as_many() -> None:
    """Else each end would bring a whole part, and nobody else had a turn."""
    slots = 12 * FLOW_TASKS_AT_A_TIME
    bench = Bench(slots=slots, tasks_max=2 * slots, flow_rules=RULES)
    herd = tuple(task(number - slots, tenant="herd") for number in range(slots))

    bench.ref.tell(ScheduleTasks(herd))
    bench.ref.tell(SlotsReleased(3))
    bench.harness.run()

    parts = [len(part.tasks) for part in bench.executor.take_all(ExecuteTasks)]
    assert parts[:3] == [FLOW_TASKS_AT_A_TIME, 3, FLOW_TASKS_AT_A_TIME]


def test_a_slot_that_is_given_back_goes_to_the_flow_whose_turn_it_is() -> None:
    """Whoever gives it back says so to both counts."""
    bench = bench_of(*BACKLOG)
    bench.executed()

    bench.release(1, BACKLOG[0].key.ordering_id)

    assert bench.executed() == ["-898"]


def test_p2_the_first_of_each_flow_is_waited_for() -> None:
    """Beside a flow that has too many slots and one that has none."""
    bench = bench_of(*BACKLOG, task(700, "alarm"))
    bench.executed()

    bench.harness.advance(699)
    early = bench.executed()
    bench.harness.advance(1)

    assert (early, bench.executed()) == ([], ["700"])


def test_p4_each_part_of_what_is_handed_on_is_in_key_order() -> None:
    """However the flows took turns."""
    bench = bench_of(task(-1, "alarm"), task(-9, None), task(-5, tenant="big"))

    handed_on = bench.executor.take(ExecuteTasks).tasks

    assert [each.key.uniqueness_key for each in handed_on] == ["-9", "-5", "-1"]


def test_the_latest_leave_memory_whatever_their_flow() -> None:
    """The checkpoint is lowered to the last that stays (P8)."""
    bench = bench_of(task(5_000, "alarm"), task(1_000), task(3_000, None), task(2_000, "report"))

    bench.tell(ShrinkWindow(2))

    lowered = bench.harness.persistence.take(LowerCheckpoint)
    assert lowered == LowerCheckpoint(task(2_000, "report").key)


def test_ids_on_time_have_flows_of_their_own_and_bring_them_back() -> None:
    """Nothing is lost between the queues."""
    bench = bench_of(*BACKLOG[:4])
    bench.executed()
    bench.tell(BandsChanged(0))
    bench.tell(ScheduleTasks((task(-2), task(400), task(600, "alarm")), band=BandName.ON_TIME))
    on_time = bench.executed()

    bench.tell(BandsChanged(None))
    bench.harness.advance(600)

    assert (on_time, bench.executed()) == (["-2"], ["400", "600"])


def test_what_falls_due_at_its_time_leaves_by_flow_too() -> None:
    """As what is due when it comes: it waits in memory in the queue of its flow."""
    bench = bench_of(*(task(500 + n, tenant="big") for n in range(9)), task(520, "alarm"))

    bench.harness.advance(520)

    assert bench.executed() == ["500", "501", "520"]


def test_what_is_on_time_goes_before_what_is_overdue_whatever_its_priority() -> None:
    """While a partition works off a backlog, which tasks share turns is a matter of their ids."""
    bench = Bench(slots=SLOTS, flow_rules=RULES)
    bench.tell(BandsChanged(0))
    filling = tuple(task(n - 50, tenant=f"tenant-{n}") for n in range(SLOTS))
    bench.tell(ScheduleTasks(filling, band=BandName.ON_TIME))
    running = bench.executed()
    bench.tell(ScheduleTasks((task(-9_000, "alarm"),)))
    bench.tell(
        ScheduleTasks(tuple(task(n - 9, "report", str(n)) for n in range(9)), band=BandName.ON_TIME)
    )
    assert not bench.executed(), "all slots are taken"

    order = []
    for each in filling[: len(running)]:
        bench.release(1, each.key.ordering_id)
        order += bench.executed()

    assert order[0] == "-9", "a report that is on time, before an alarm that is not"
    assert "-9000" in order, "which gets one that a flow alone may not have"
