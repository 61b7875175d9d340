"""How many records may be polled, by their number and by their bytes."""

from hourhand.actors.model.task.codec import record_bytes
from hourhand.actors.model.window.budget import NodeBudget
from hourhand.scheduler.node.tree_state import POLL_RECORDS_MAX, BatchesInFlight
from tests.builders import a_record, a_task


def test_large_records_are_polled_as_memory_allows() -> None:
    """None while the budget is used up, and again what fits once they are durable."""
    record = a_record(task=a_task(data={"text": "x" * 100_000}))
    memory = NodeBudget(4 * 10 * record_bytes(record))
    batches = BatchesInFlight(memory)

    batches.send(1, 0.0, [record] * 4)
    some = batches.room()
    batches.send(2, 0.0, [record] * 6)
    full = batches.room()
    batches.settle(1)
    freed = batches.room()
    batches.clear()

    assert (some, full, freed) == (6, 0, 4)
    assert (memory.polled_bytes, batches.settle(2)) == (0, False)


def test_one_record_larger_than_the_budget_is_polled_alone() -> None:
    """Else it would never be, nor what stands behind it."""
    record = a_record(task=a_task(data={"text": "x" * 100_000}))
    batches = BatchesInFlight(NodeBudget(100))

    batches.send(1, 0.0, [record])
    beside = batches.room()
    batches.settle(1)

    assert (beside, batches.room()) == (0, 1)


def test_small_records_are_polled_as_before() -> None:
    """By the number of them."""
    batches = BatchesInFlight(NodeBudget())

    assert batches.room() == POLL_RECORDS_MAX
    batches.send(1, 0.0, [a_record()] * 2_000)
    assert batches.room() == POLL_RECORDS_MAX


def test_headers_are_counted() -> None:
    """They may be larger than the value."""
    large = a_record(headers=[("n", b"x" * 999), ("m", None)])

    assert record_bytes(large) == record_bytes(a_record()) + 1_001
