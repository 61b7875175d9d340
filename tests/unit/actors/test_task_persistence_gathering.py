"""TaskPersistence: what waits for a slow write goes with one request."""

from hourhand.actors.model.task.codec import Command, CommandKind
from tests.builders import a_stored_task
from tests.unit.actors.task_persistence_bench import Bench, task_due_in
from tests.unit.probes import PARTITION


def test_shares_that_gather_behind_a_slow_write_go_with_one_request() -> None:
    """A store that answers slowly is not asked more often for that."""
    bench = Bench()
    bench.requests.hold("insert_tasks")
    bench.persist(task_due_in(10), batch=1)

    for batch in (2, 3, 4):
        bench.persist(task_due_in(10 * batch), batch=batch, next_offset=batch)
    bench.serve("insert_tasks")
    early = bench.persisted()
    bench.serve("insert_tasks")

    assert bench.requests.made == ["insert_tasks"] * 2
    assert early == [1] and bench.persisted() == [2, 3, 4]


def test_p6_of_shares_that_gather_the_last_record_of_a_key_wins() -> None:
    """Whatever batch it came with."""
    bench = Bench()
    bench.requests.hold("insert_tasks")
    bench.persist(task_due_in(10), batch=1)
    older, newer = (a_stored_task(offset=offset, data=b'{"n":%d}' % offset) for offset in (1, 2))

    bench.persist(older, batch=2, next_offset=2)
    bench.persist(newer, batch=3, next_offset=3)
    bench.serve("insert_tasks")
    bench.serve("insert_tasks")

    find = bench.stores.schedule.find_tasks
    found = find(PARTITION, (newer.key,)).result(timeout=0)
    assert found[newer.key].data == newer.data


def test_a_share_with_a_command_keeps_no_other_waiting() -> None:
    """Each command takes several answers."""
    bench = Bench()
    bench.requests.hold("insert_tasks")
    bench.persist(task_due_in(10), batch=1)
    cancel = Command(CommandKind.CANCEL, task_due_in(10).key, offset=2)

    bench.persist(task_due_in(20), batch=2, next_offset=2)
    bench.persist(cancel, batch=3, next_offset=3)
    bench.persist(task_due_in(30), batch=4, next_offset=4)
    bench.serve("insert_tasks")
    bench.serve("insert_tasks")
    before_command = bench.persisted()

    assert before_command == [1, 2]
