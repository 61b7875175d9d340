"""What waits by flow: in key order per ordering id, in fair order between flows."""

import random
from collections import Counter

import pytest
from msgspec.structs import replace

from hourhand.actors.model.flow.flow import FairShare, FlowRule, FlowRules
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.kind import with_kind
from hourhand.actors.model.task.priority import with_priority
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.budget import NodeBudget, PartitionBudget
from hourhand.actors.model.window.flow_queues import FlowQueues
from tests.builders import NOW_MS, a_stored_task

RULES = FlowRules(
    {
        "mail": FlowRule(fair=FairShare(key="tenant", weights={"big": 3})),
        "alarm": FlowRule(priority=5),
        "report": FlowRule(priority=-5),
    }
)


def task(
    due_in_ms: int,
    kind: str | None = "mail",
    tenant: str = "small",
    ordering_id: str | None = None,
    offset: int = 0,
) -> StoredTask:
    """Return a task named after its due time."""
    data = b'{"tenant":"%b"}' % tenant.encode()
    return a_stored_task(
        due_in_ms=due_in_ms,
        ordering_id=ordering_id or f"{tenant}-{due_in_ms}",
        uniqueness_key=str(due_in_ms),
        data=data if kind is None else with_kind(data, kind),
        offset=offset,
    )


def budget() -> PartitionBudget:
    """Return one of a partition where kinds have rules."""
    return NodeBudget().begin(0, has_flows=True)


def queues(*tasks: StoredTask, slots: PartitionBudget | None = None) -> FlowQueues:
    """Return queues with these tasks."""
    found = FlowQueues(RULES, slots or budget())
    for each in tasks:
        found.add(each)
    return found


def taken(queue: FlowQueues, free_slots: int, now_ms: int = NOW_MS) -> list[StoredTask]:
    """Take what is due, as a partition does that has so many free slots."""
    found: list[StoredTask] = []
    queue.begin_taking(now_ms)
    while len(found) < free_slots and (each := queue.take_due(now_ms, free_slots - len(found))):
        queue._budget.run((each,))
        found.append(each)
    return found


def test_a_task_has_the_priority_it_was_given_and_its_id_keeps_its_order() -> None:
    """Of a plain kind too; a later task of an id that waits goes behind the first one."""
    late = replace(task(-9), body=with_priority(task(-9).body, -1))
    plain, urgent = task(-7, kind=None), task(-5, kind=None)
    urgent = replace(urgent, body=with_priority(urgent.body, 9))
    behind = task(-6, kind=None, ordering_id=late.key.ordering_id)
    behind = replace(behind, body=with_priority(behind.body, 100))

    leaves = taken(queues(late, plain, urgent, behind), 100)

    assert [each.key for each in leaves] == [each.key for each in (urgent, plain, late, behind)]


def test_a_large_backlog_does_not_keep_a_small_one_waiting() -> None:
    """By their weights, though all of one is due before the other."""
    big = [task(number - 2_000, tenant="big") for number in range(1_000)]
    small = [task(number - 1_000) for number in range(5)]

    first = taken(queues(*big, *small), 1_000)[:20]

    assert Counter(each in small for each in first) == {False: 15, True: 5}
    assert [each for each in first if each in small] == small


def test_higher_priorities_go_first() -> None:
    """However long the others have been due."""
    reports = [task(number - 9_000, "report") for number in range(50)]
    plain = [task(number - 5_000, None) for number in range(50)]
    alarms = [task(number - 50, "alarm") for number in range(5)]

    first = taken(queues(*reports, *plain, *alarms), 1_000)[:10]

    assert first == [*alarms, *plain[:5]]


def test_p4_an_ordering_id_leaves_in_key_order_whatever_its_tasks_are() -> None:
    """All wait where the first one does; with nothing here it may go elsewhere."""
    mixed = [
        task(-40, "report", ordering_id="id"),
        task(-30, "alarm", ordering_id="id"),
        task(-20, "mail", ordering_id="id"),
    ]
    others = [task(-10, None), task(-5, None)]
    queue = queues(*mixed, *others)

    first = taken(queue, 100)
    queue.add(task(-3, "alarm", ordering_id="id"))
    queue.add(task(-2, None))

    assert first == [*others, *mixed]
    assert taken(queue, 2)[0].kind == "alarm"


def test_a_flow_stops_where_it_has_too_many_slots_and_the_others_go_by() -> None:
    """It goes on when some are given back."""
    slots = budget()
    stuck = [task(number - 1_000, tenant="big") for number in range(100)]
    queue = queues(*stuck, slots=slots)

    held = taken(queue, 30)
    free = 30 - len(held)
    queue.add(task(-1))
    by = taken(queue, free)
    slots.release_slots(held[0].key.ordering_id, 1)
    again = taken(queue, free)

    assert held == stuck[:10] and free == 20
    assert by == [task(-1)] and again == stuck[10:11]


def test_however_many_flows_are_stuck_some_slots_stay_free() -> None:
    """Each new one gets less."""
    slots, free = budget(), 100
    for number in range(10):
        queue = queues(*(task(due - 1_000, tenant=f"t{number}") for due in range(100)), slots=slots)
        free -= len(taken(queue, free))

    assert free > 0


def test_p2_nothing_leaves_before_it_is_due_and_the_next_is_known() -> None:
    """Also of a flow whose first tasks were due, and where the clock is set back."""
    queue = queues(task(-1), task(500), task(300, "alarm"), task(100, None))

    assert taken(queue, 10) == [task(-1)]
    assert queue.first_after(NOW_MS) == NOW_MS + 100
    assert queue.first() == task(100, None).key
    queue.remove(task(100, None).key)
    assert queue.first_after(NOW_MS) == NOW_MS + 300
    assert taken(queue, 10, NOW_MS + 299) == []
    assert taken(queue, 1, NOW_MS + 500) == [task(300, "alarm")]
    assert taken(queue, 10, NOW_MS + 499) == []
    assert queue.first_after(NOW_MS + 499) == NOW_MS + 500
    assert taken(queue, 10, NOW_MS + 500) == [task(500)]
    assert (len(queue), queue.first(), queue.first_after(NOW_MS)) == (0, None, None)


def test_the_latest_leave_whatever_their_flow() -> None:
    """They are read again from the first of them on (P8)."""
    tasks = [task(number, ("mail", "alarm", None)[number % 3]) for number in range(10)]
    queue = queues(*reversed(tasks))

    left = queue.keep_first(4, 10**9, 0)

    assert left == [each.key for each in tasks[4:]]
    assert queue.size_bytes == sum(each.size_bytes for each in tasks[:4])
    assert queue.first_after(NOW_MS - 1) == NOW_MS
    assert queue.keep_first(100, 0, 1) == [each.key for each in tasks[1:4]]
    assert (queue.pop(), queue.pop()) == (tasks[0], None)


def test_a_later_record_takes_the_place_of_an_earlier_one() -> None:
    """Where it waits, whatever its flow is now."""
    queue = queues(task(-1, ordering_id="id"))
    newer = task(-1, "alarm", ordering_id="id", offset=7)

    queue.add(newer)

    assert len(queue) == 1 and queue.size_bytes == newer.size_bytes
    assert not queue.update(task(-2, ordering_id="id"))
    assert newer.key in queue and queue.find(task(-2, ordering_id="id").key) is None
    assert taken(queue, 5) == [newer]


class Model:
    """The queues beside a plain dictionary of what waits."""

    def __init__(self, seed: int) -> None:
        self.rng, self.slots, self.now_ms = random.Random(seed), budget(), NOW_MS
        self.queue = FlowQueues(RULES, self.slots)
        self.waits: dict[TaskKey, StoredTask] = {}
        self.in_hand: list[StoredTask] = []

    def add(self, offset: int) -> None:
        """Let a task or a later record of one come."""
        rng = self.rng
        kind = rng.choice(("mail", "mail", "alarm", "report", None))
        due_in_ms = self.now_ms - NOW_MS + rng.randrange(-40, 40)
        found = task(due_in_ms, kind, rng.choice("abc"), f"id-{rng.randrange(12)}", offset)
        self.queue.add(found)
        self.waits[found.key] = self.waits.get(found.key, found).merged_with(found)

    def take(self, free_slots: int) -> None:
        """Let due tasks leave, none of an id before an earlier one of it."""
        for each in taken(self.queue, free_slots, self.now_ms):
            assert each.key.scheduled_ms <= self.now_ms
            earlier = {key.ordering_id for key in self.waits if key < each.key}
            assert each.key.ordering_id not in earlier
            assert self.waits.pop(each.key) == each
            self.in_hand.append(each)

    def leave(self) -> None:
        """Let a task be withdrawn, or the latest ones be left to the store."""
        rng = self.rng
        if self.waits and rng.random() < 0.7:
            gone = rng.choice(list(self.waits.values()))
            assert self.queue.remove(gone.key) == self.waits.pop(gone.key)
        elif rng.random() < 0.2:
            for key in self.queue.keep_first(rng.randrange(10), 10**9, 0):
                del self.waits[key]

    def release(self) -> None:
        """Let a task that has a slot end."""
        if self.in_hand:
            self.slots.release_slots(self.in_hand.pop().key.ordering_id, 1)

    def check(self) -> None:
        """Compare both."""
        assert len(self.queue) == len(self.waits) and set(self.queue) == set(self.waits)
        assert self.queue.size_bytes == sum(each.size_bytes for each in self.waits.values())
        assert self.queue.first() == min(self.waits, default=None)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_comes_and_goes_nothing_is_lost_early_or_out_of_order(seed: int) -> None:
    """Against a plain dictionary of what waits."""
    model = Model(seed)
    for step in range(400):
        match model.rng.randrange(6):
            case 0 | 1 | 2:
                model.add(step)
            case 3:
                model.now_ms += model.rng.randrange(-3, 20)
                model.take(model.rng.randrange(1, 8))
            case 4:
                model.leave()
            case _:
                model.release()
        model.check()
    while model.waits or model.in_hand:
        model.now_ms += 100
        model.take(5)
        model.release()
    assert not model.slots._by_flow and not model.slots._by_id


def test_nothing_stays_where_nothing_is() -> None:
    """Also where one task would stay however large it is."""
    queue = queues()

    assert queue.keep_first(9, 0, 1) == [] and len(queue) == 0
