"""Pauses as values: which of them are the same."""

from hourhand.actors.model.operations.pauses import NOT_PAUSED, PartitionPause, Pause, PauseScope


def test_two_pauses_of_one_target_differ_in_who_and_why_alone() -> None:
    """So one of them is enough."""
    first = Pause(PauseScope.ORDERING, 1, "customer-7", 5, "ann", "why")
    second = Pause(PauseScope.ORDERING, 1, "customer-7", 9, "bob")

    assert first.target == second.target != Pause(PauseScope.PARTITION, 1).target
    assert first != second


def test_nothing_is_paused_of_a_partition_without_a_pause() -> None:
    """Neither the whole nor an id."""
    assert PartitionPause() == NOT_PAUSED
    assert not NOT_PAUSED.whole and not NOT_PAUSED.ordering_ids
