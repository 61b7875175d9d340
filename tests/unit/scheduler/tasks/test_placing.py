"""The store's number of partitions says where rows lie, however many the topic has by now."""

import pytest

from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.errors import PartitionCountChanged
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.runtime.steps import begun
from hourhand.scheduler.tasks.placing import placing_count, require_home

OLD, NEW = 3, 7


def test_the_stores_number_counts_and_the_topics_where_there_is_none() -> None:
    """Who asks fixes none."""
    store = open_memory_stores(MemoryStores()).ownership

    unknown = begun(placing_count(store, NEW)).result(timeout=0)
    store.agree_partition_count(OLD)

    assert unknown == NEW
    assert begun(placing_count(store, NEW)).result(timeout=0) == OLD


@pytest.mark.parametrize("ordering_id", [f"id {number}" for number in range(20)])
def test_a_command_that_went_to_a_wrong_partition_is_said_to_have(ordering_id: str) -> None:
    """Its outcome is kept elsewhere, so nobody could wait for it; others are looked for."""
    went, home = partition_of(ordering_id, NEW), partition_of(ordering_id, OLD)

    require_home(ordering_id, went, NEW, NEW)
    require_home(ordering_id, home, OLD, NEW)
    if went == home:
        require_home(ordering_id, went, OLD, NEW)
    else:
        with pytest.raises(PartitionCountChanged, match=f"partition {went}.*repartition"):
            require_home(ordering_id, went, OLD, NEW)
