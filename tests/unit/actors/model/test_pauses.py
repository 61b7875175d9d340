"""The sheet of pauses: what it says of a partition, how it changes, and how large it may be."""

import pytest

from actors.model.errors import InvalidTask
from actors.model.pauses import (
    NOT_PAUSED,
    PAUSES_MAX,
    PartitionPause,
    Pause,
    PauseScope,
    PauseSheet,
    decode_sheet,
    encode_sheet,
)

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
    assert PauseSheet().with_pauses(pauses).of_partition(partition) == wanted


def test_what_is_paused_already_keeps_who_paused_it() -> None:
    """And each change is a version of its own."""
    sheet = PauseSheet().with_pauses([ID])
    again = sheet.with_pauses([Pause(PauseScope.ORDERING, 1, "customer-7", 9, "bob")])

    assert (again.pauses, again.version) == ((ID,), 2)
    assert again.without([ID.target, ALL.target]) == PauseSheet(3)


def test_a_sheet_is_no_larger_than_every_node_can_hold() -> None:
    """By number and by size."""
    many = [Pause(PauseScope.ORDERING, 0, str(n)) for n in range(PAUSES_MAX + 1)]
    long = [Pause(PauseScope.ORDERING, 0, "x" * 30_000 + str(n)) for n in range(20)]

    assert len(PauseSheet().with_pauses(many[:-1]).pauses) == PAUSES_MAX
    for too_much in (many, long):
        with pytest.raises(InvalidTask, match="pause the partition"):
            PauseSheet().with_pauses(too_much)


def test_a_sheet_is_read_as_it_was_written() -> None:
    """Field by field."""
    sheet = PauseSheet().with_pauses([ALL, FIRST, ID])
    assert decode_sheet(encode_sheet(sheet)) == sheet
