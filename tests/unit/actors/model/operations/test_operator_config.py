"""The operator config: what it says, how it changes, and how large it may be."""

import pytest

from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.operator_config import (
    LIMIT_CHANGES_MAX,
    PAUSES_MAX,
    OperatorConfig,
    decode_config,
    encode_config,
)
from hourhand.actors.model.operations.pauses import NOT_PAUSED, PartitionPause, Pause, PauseScope
from hourhand.actors.model.values.errors import InvalidTask

ALL = Pause(PauseScope.ALL)
FIRST = Pause(PauseScope.PARTITION, 1)
ID = Pause(PauseScope.ORDERING, 1, "customer-7", 5, "ann", "why")


@pytest.mark.parametrize(
    ("pauses", "partition", "wanted"),
    [
        ([], 1, NOT_PAUSED),
        ([FIRST], 1, PartitionPause(whole=True)),
        ([FIRST, ID], 2, NOT_PAUSED),
        ([ID], 1, PartitionPause(whole=False, ordering_ids=frozenset({"customer-7"}))),
        ([ALL], 9, PartitionPause(whole=True)),
    ],
)
def test_a_partition_is_told_what_concerns_it(
    pauses: list[Pause], partition: int, wanted: PartitionPause
) -> None:
    """All of it, some of its ids, or nothing."""
    assert OperatorConfig().with_pauses(pauses).of_partition(partition) == wanted


def test_what_is_paused_already_keeps_who_paused_it() -> None:
    """And each change is a version of its own."""
    config = OperatorConfig().with_pauses([ID])
    again = config.with_pauses([Pause(PauseScope.ORDERING, 1, "customer-7", 9, "bob")])

    assert (again.pauses, again.version) == ((ID,), 2)
    assert again.without([ID.target, ALL.target]) == OperatorConfig(3)


def test_an_operator_config_is_no_larger_than_every_node_can_hold() -> None:
    """By number and by size."""
    many = [Pause(PauseScope.ORDERING, 0, str(n)) for n in range(PAUSES_MAX + 1)]
    long = [Pause(PauseScope.ORDERING, 0, "x" * 30_000 + str(n)) for n in range(20)]

    assert len(OperatorConfig().with_pauses(many[:-1]).pauses) == PAUSES_MAX
    for too_much in (many, long):
        with pytest.raises(InvalidTask, match="pause the partition"):
            OperatorConfig().with_pauses(too_much)


def test_a_limit_is_changed_once_and_pauses_stay() -> None:
    """Each change is a version of its own, and the latest of a limit stands."""
    config = OperatorConfig().with_pauses([ID]).with_limit(LimitChange("mail#2", rate=1))
    both = config.with_limit(LimitChange("mail#1", concurrency=3))
    again = both.with_limit(LimitChange("mail#2", rate=9, who="bob"))

    assert [each.limit for each in again.limits] == ["mail#1", "mail#2"]
    assert again.change_of("mail#2") == LimitChange("mail#2", rate=9, who="bob")
    assert again.change_of("mail#3") is None
    assert (again.pauses, again.version) == ((ID,), 4)
    assert again.without([ID.target]).limits == again.limits
    assert again.without_limits(["mail#1", "x#1"]).limits == (again.limits[1],)


def test_so_many_limits_are_changed_and_no_more() -> None:
    """Every node holds them."""
    config = OperatorConfig()
    for number in range(LIMIT_CHANGES_MAX):
        config = config.with_limit(LimitChange(f"mail#{number}", rate=1))

    with pytest.raises(InvalidTask, match="reset some"):
        config.with_limit(LimitChange("mail#one-more", rate=1))
    with pytest.raises(InvalidTask, match="reset some"):
        OperatorConfig().with_limit(LimitChange("mail#1", reason="x" * 400_000))


def test_an_operator_config_is_read_as_it_was_written() -> None:
    """Field by field."""
    change = LimitChange("mail#1", 0.5, 60_000, 7, 3, 5, "ann", "why")
    config = OperatorConfig().with_pauses([ALL, FIRST, ID]).with_limit(change)
    assert decode_config(encode_config(config)) == config


def test_operator_configs_of_other_versions_are_read() -> None:
    """One without limits, and one with what a later version adds."""
    assert decode_config(b'{"version":3,"pauses":[]}') == OperatorConfig(3)
    assert decode_config(b'{"version":4,"limits":[{"limit":"a#1","new":1}],"more":{}}') == (
        OperatorConfig(4, (), (LimitChange("a#1"),))
    )
